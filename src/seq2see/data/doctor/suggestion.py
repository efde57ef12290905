"""Which model and how many pieces, for a corpus of this size.

Small corpora want small models and few pieces (Sennrich and Zhang, 2019): a piece that is seen a
few times only is never learnt. A text's different words grow about as the root of its length, and
so do its pieces here. The paper's `base` was made for 4.5 million pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from seq2see.data.doctor.report import Suggestion
from seq2see.data.readers import Pair

_PIECES_A_ROOT = 9
"""Pieces for the root of the number of words, both sides together: 8,000 for 30,000 captions."""
_SPECIAL = 4 + 256
"""Pieces that are there before any text: the special ones and the bytes."""
_COVERAGE = 0.9995
"""Of a text's characters, those that get a piece of their own (the tokenizer's default)."""
_SIZES: tuple[tuple[int, Literal["tiny", "small", "base", "big"], int], ...] = (
    (100_000, "tiny", 8_000),
    (500_000, "small", 16_000),
    (5_000_000, "base", 32_000),
    (2**63, "big", 32_000),
)


def suggest(pairs: int, words: int, sample: Iterable[Pair]) -> Suggestion:
    """Suggest by the pairs that can be trained on, and the words of both sides."""
    preset, most = next((preset, most) for limit, preset, most in _SIZES if pairs < limit)
    letters = _letters(sample)
    affordable = min(int(_PIECES_A_ROOT * words**0.5), most)
    pieces = _round(max(affordable, _SPECIAL + 2 * letters))
    crowded = pieces > _round(affordable)
    return Suggestion(preset, pieces, _reason(pairs, words, letters if crowded else 0))


def _letters(sample: Iterable[Pair]) -> int:
    """Return how many of the commonest characters make up nearly all of the text."""
    counts = Counter[str]()
    for pair in sample:
        counts.update(pair.source + pair.target)
    left = counts.total() * (1 - _COVERAGE)
    rare = 0
    for _, count in reversed(counts.most_common()):
        left -= count
        if left < 0:
            break
        rare += 1
    return len(counts) - rare


def _round(pieces: int) -> int:
    step = 1_000 if pieces >= 2_000 else 100
    return -(-pieces // step) * step


def _reason(pairs: int, words: int, letters: int) -> str:
    size = f"{pairs:,} pairs of {words:,} words"
    if letters:
        return f"{size}: few, but {letters:,} different characters need pieces of their own"
    if pairs < _SIZES[0][0]:
        return f"{size}: a small model and few pieces learn most from little text"
    if pairs < _SIZES[1][0]:
        return f"{size}: enough for a model of middle size, too few for the paper's"
    return f"{size}: enough for a model of the paper's size"
