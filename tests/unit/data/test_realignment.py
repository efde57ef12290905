"""Shifted regions are realigned: no line is lost, and pairs that belong together are found."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from seq2see.data.fables import load_fables_split
from seq2see.data.quality.analysis_and_filtering import accept_or_reject_pairs
from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.realignment import realign_pairs
from seq2see.data.quality.statistics_and_models import CorpusModel, collect_per_pair_statistics
from seq2see.data.readers import SentencePair

PAIRS = [SentencePair(f.source, f.target) for f in load_fables_split("train")[:1500]]
FIRST, END = 500, 900


def shift(first: int, end: int, offset: int) -> list[SentencePair]:
    """Return the pairs with the targets of a region late (or early) by some lines."""
    targets = [pair.target for pair in PAIRS]
    region = targets[first:end]
    targets[first:end] = region[-offset:] + region[:-offset]
    return [SentencePair(pair.source, target) for pair, target in zip(PAIRS, targets, strict=True)]


@pytest.mark.parametrize(
    ("first", "end", "offset"),
    [(FIRST, END, 1), (0, END, -2), (FIRST, len(PAIRS), 3)],
)
def test_shifted_region_is_recovered(first: int, end: int, offset: int) -> None:
    results = list(accept_or_reject_pairs(shift(first, end, offset), languages=("en", "fr")))
    assert [pair.source for pair, _ in results] == [pair.source for pair in PAIRS]
    assert Counter(pair.target for pair, _ in results) == Counter(pair.target for pair in PAIRS)
    accepted = {pair for pair, violation in results if not violation}
    assert len(accepted - set(PAIRS)) <= 2  # one per boundary
    assert len(set(PAIRS[first:end]) - accepted) <= 2 * abs(offset) + 6


def test_realigned_pairs_are_a_permutation() -> None:
    """Any regions give each source and each target once, also next to each other."""
    generator = random.Random(1)  # noqa: S311 not for cryptography
    pairs = [SentencePair(f"s{i}", f"t{i}") for i in range(200)]
    model = CorpusModel(collect_per_pair_statistics(pairs), 250, None, frozenset())
    for _ in range(300):
        bounds = sorted(generator.sample(range(201), 4))
        offsets = [generator.choice([-3, -2, -1, 1, 2, 3]) for _ in range(2)]
        rows = zip(bounds[::2], bounds[1::2], offsets, strict=True)
        model.shifts = tuple(LineShift(first + 1, end, offset) for first, end, offset in rows)
        realigned = realign_pairs(pairs, model)
        assert realigned is not None
        result = list(realigned)
        assert [pair.source for pair in result] == [pair.source for pair in pairs]
        assert sorted(pair.target for pair in result) == sorted(pair.target for pair in pairs)
        assert list(realigned) == result


def test_corpus_without_shift_is_not_realigned() -> None:
    model = CorpusModel(collect_per_pair_statistics(PAIRS), 250, None, frozenset())
    assert realign_pairs(PAIRS, model) is None
