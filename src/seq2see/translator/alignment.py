"""From attention between pieces to links between words."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from seq2see.text import Tokenizers
from seq2see.translator.spans import Span, piece_spans, source_spans
from seq2see.translator.translation import Link
from seq2see.translator.words import word_spans

# E emitted tokens, S source tokens without their ends, U target words, W source words

LEAST_WEIGHT = 0.05
"""Weaker links are left out, but never a word's strongest."""


def links(
    tokenizers: Tokenizers,
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    attention_ES: Tensor,
) -> tuple[Link, ...]:
    """Return the links of each target word, the strongest first.

    A word gets what its pieces get together, and gives the mean of what its pieces give.
    """
    source_pieces = source_spans(tokenizers.source, source[1], source[0])
    target_pieces = piece_spans(tokenizers.target, target[1], target[0])
    source_words = _words(source[0], source_pieces)
    target_words = _words(target[0], target_pieces)
    result: list[Link] = []
    for word, rows in zip(target_words, _members(target_words, target_pieces), strict=True):
        if not rows:
            continue
        weights_S = attention_ES[rows].mean(0).tolist()
        members = _members(source_words, source_pieces)
        weights = [sum(weights_S[i] for i in columns) for columns in members]
        result += _of_word(word, source_words, weights)
    return tuple(result)


def _of_word(word: Span, others: Sequence[Span], weights: Sequence[float]) -> list[Link]:
    order = sorted(range(len(others)), key=lambda i: -weights[i])
    strong = [i for rank, i in enumerate(order) if rank == 0 or weights[i] >= LEAST_WEIGHT]
    return [Link(*others[i], *word, weights[i]) for i in strong]


def _words(text: str, pieces: Sequence[Span]) -> list[Span]:
    return word_spans(text, {start for start, _ in pieces})


def _members(words: Sequence[Span], pieces: Sequence[Span]) -> list[list[int]]:
    """Return the pieces that share a character with each word."""
    return [[i for i, (a, b) in enumerate(pieces) if a < end and b > start] for start, end in words]
