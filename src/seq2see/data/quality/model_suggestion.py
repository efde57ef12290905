"""Suggest a model preset and a vocabulary size for a corpus.

Small corpora need small models and small vocabularies (Sennrich and Zhang, 2019): a subword that
occurs only a few times is not learned. The number of distinct words of a text grows roughly with
the square root of its length, and so does the suggested vocabulary, as far as the text has that
many subwords. The `base` model of the paper was made for 4.5 million pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

from seq2see.data.quality.report import ModelSuggestion, format_count
from seq2see.data.quality.words import find_word_runs
from seq2see.data.readers import SentencePair
from seq2see.text import SpecialIds, TokenizerConfig

_PIECES_A_ROOT = 9
"""Pieces for the root of the number of words, both sides together: 8,000 for 30,000 captions."""


_SPECIAL = len(fields(SpecialIds)) + 256
"""Pieces that are there before any text: the special ones and the bytes."""


_COVERAGE = TokenizerConfig().character_coverage


_LONGEST = 15
"""Characters of the longest piece, but for the space before it."""


_SIZES: tuple[tuple[int, Literal["tiny", "small", "base", "big"], int], ...] = (
    (100_000, "tiny", 8_000),
    (500_000, "small", 16_000),
    (5_000_000, "base", 32_000),
    (2**63, "big", 32_000),
)


def suggest_model(
    num_pairs: int, num_words: int, sample: Sequence[SentencePair]
) -> ModelSuggestion:
    """Suggest by the pairs that can be trained on, and the words of both sides."""
    preset, most = next((preset, most) for limit, preset, most in _SIZES if num_pairs < limit)
    if not num_pairs:
        return ModelSuggestion(preset, _round(_SPECIAL), "no pairs to learn from yet")
    letters = _letters(sample)
    affordable = _round(min(int(_PIECES_A_ROOT * num_words**0.5), most))
    wanted = max(affordable, _round(_SPECIAL + 2 * len(letters)))
    pieces = _learnable(sample, letters, wanted)
    size = f"{format_count(num_pairs, 'pair')} of {format_count(num_words, 'word')}"
    if pieces > affordable:
        reason = f"few, but {len(letters):,} different characters need pieces of their own"
    else:
        reason = (
            "as many as it has different characters and words"
            if pieces < wanted
            else _reason(num_pairs)
        )
    return ModelSuggestion(preset, pieces, f"{size}: {reason}")


def _letters(sample: Sequence[SentencePair]) -> set[str]:
    """Return the commonest characters, which make up nearly all of the text."""
    counts = Counter[str]()
    for pair in sample:
        counts.update(pair.source + pair.target)
    left = counts.total() * (1 - _COVERAGE)
    letters = set(counts)
    for letter, count in reversed(counts.most_common()):
        left -= count
        if left < 0:
            break
        letters.remove(letter)
    return {letter for letter in letters if not letter.isspace()}


def _learnable(sample: Sequence[SentencePair], letters: set[str], most: int) -> int:
    """Return how many pieces a tokenizer finds at least: the space, letters and whole words.

    They are counted no further than to `most`.
    """
    count = _SPECIAL + 1 + len(letters)
    found: set[str] = set()
    for run in (run[:_LONGEST] for pair in sample for line in pair for run in find_word_runs(line)):
        if count >= most:
            break
        if run not in found:
            found.add(run)
            count += letters.issuperset(run)
    return min(count, most)


def _round(pieces: int) -> int:
    step = 1_000 if pieces >= 2_000 else 100
    return -(-pieces // step) * step


def _reason(pairs: int) -> str:
    if pairs < _SIZES[0][0]:
        return "a small model and few pieces learn most from little text"
    if pairs < _SIZES[1][0]:
        return "enough for a model of middle size, too few for the paper's"
    return "enough for a model of the paper's size"
