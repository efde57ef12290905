"""Word alignment from the weights of cross-attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.text import TokenizerPair
from seq2see.text.languages import find_word_offsets
from seq2see.text.tokenizer import (
    Offsets,
    find_offsets_in_decoded_text,
    find_offsets_in_original_text,
)
from seq2see.translator.translation import AlignmentLink

# E target tokens, S source tokens without special tokens, U target words, W source words;
# `...` stands for any number of dimensions, such as layers and heads

MIN_LINK_WEIGHT = 0.05
"""Links with a lower weight are removed, except the strongest link of each word."""


@dataclass(frozen=True, slots=True)
class WordAlignment:
    """Words of a sentence and of its translation, with the weights and links between them."""

    source_words: Sequence[Offsets]
    target_words: Sequence[Offsets]
    weights_UW: Tensor
    """Weight of each pair of words, [..., U, W]."""
    is_link_UW: Tensor
    """Whether the words are linked, [..., U, W]."""

    def to_links(self) -> tuple[AlignmentLink, ...]:
        """Return the links of each target word, strongest first."""
        links: list[AlignmentLink] = []
        rows = zip(self.weights_UW.tolist(), self.is_link_UW.tolist(), strict=True)
        for target_word, (weights, is_link) in zip(self.target_words, rows, strict=True):
            linked = sorted(
                (i for i, each in enumerate(is_link) if each), key=lambda i: -weights[i]
            )
            links += [
                AlignmentLink(*self.source_words[i], *target_word, weights[i]) for i in linked
            ]
        return tuple(links)


def align_words(
    tokenizers: TokenizerPair,
    source: tuple[str, Sequence[int]],
    target: tuple[str, Sequence[int]],
    attention_ES: Tensor,
) -> WordAlignment:
    """Return the word alignment of a translation.

    The weight of two words is the sum over the pieces of the source word and the mean over the
    pieces of the target word. A target word is linked to the source word with the largest weight,
    and to all with a weight of at least `MIN_LINK_WEIGHT`.

    Args:
        tokenizers: Tokenizers of both sides.
        source: Text and ids of the source.
        target: Text and ids of the target.
        attention_ES: Cross-attention weights of each target token, [..., E, S].
    """
    source_pieces = find_offsets_in_original_text(tokenizers.source, source[1], source[0])
    target_pieces = find_offsets_in_decoded_text(tokenizers.target, target[1], target[0])
    columns = _find_pieces_by_word(source[0], source_pieces)
    rows = {
        word: own for word, own in _find_pieces_by_word(target[0], target_pieces).items() if own
    }
    source_words, target_words = list(columns), list(rows)
    if not source_words or not target_words:
        empty_UW = attention_ES.new_zeros(len(target_words), len(source_words))
        return WordAlignment(source_words, target_words, empty_UW, empty_UW.bool())
    weights_US = torch.stack([attention_ES[..., own, :].mean(-2) for own in rows.values()], -2)
    weights_US = weights_US.double()
    weights_UW = torch.stack([weights_US[..., own].sum(-1) for own in columns.values()], -1)
    is_link_UW = weights_UW >= MIN_LINK_WEIGHT
    is_link_UW.scatter_(-1, weights_UW.argmax(-1, keepdim=True), value=True)
    return WordAlignment(source_words, target_words, weights_UW, is_link_UW)


def _find_pieces_by_word(text: str, pieces: Sequence[Offsets]) -> dict[Offsets, list[int]]:
    """Return the indices of the pieces that overlap each word of a text."""
    words = find_word_offsets(text, {start for start, _ in pieces})
    return {
        (start, end): [i for i, (a, b) in enumerate(pieces) if a < end and b > start]
        for start, end in words
    }
