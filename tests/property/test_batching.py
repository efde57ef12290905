"""Batching: every line once, within the token limit, reproducible after an interruption."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from seq2see.data.batch_sampler import (
    BatchSampler,
    CorpusMixture,
    DataPosition,
    UpdateBatches,
    shuffle_numbers,
    split_by_tokens,
)
from seq2see.errors import InputError

LENGTHS = st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=80)
SEEDS = st.integers(0, 2**63 - 1)


class Lengths:
    """A corpus that only has lengths."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        self.rows = np.array(lengths, dtype=np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self, lines):
        return self.rows[lines, 0], self.rows[lines, 1]


def epoch_of(sampler: BatchSampler, epoch: int) -> list[UpdateBatches]:
    return list(sampler.remaining_updates(DataPosition(epoch)))


def pairs_in(updates: list[UpdateBatches]) -> list[tuple[int, int]]:
    batches = chain.from_iterable(r.batches for r in updates)
    return [
        (int(c), int(n))
        for d in batches
        for c, n in zip(d.corpus_indices, d.line_indices, strict=True)
    ]


@given(
    LENGTHS,
    SEEDS,
    st.integers(0, 1000),
    st.integers(80, 400),
    st.integers(1, 7),
    st.integers(1, 99),
)
def test_each_line_occurs_once_per_epoch(lengths, seed, epoch, tokens, parts, pool) -> None:
    updates = epoch_of(BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool), epoch)
    assert sorted(pairs_in(updates)) == [(0, line) for line in range(len(lengths))]


@given(LENGTHS, SEEDS, st.integers(80, 400), st.integers(1, 7), st.integers(1, 99))
def test_batches_fit_max_tokens_and_updates_are_full(lengths, seed, tokens, parts, pool) -> None:
    rows = np.array(lengths)
    updates = epoch_of(BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool), 0)
    assert all(len(round_.batches) == parts for round_ in updates[:-1])
    assert 1 <= len(updates[-1].batches) <= parts
    for round_ in updates:
        for batch in round_.batches:
            source, target = rows[batch.line_indices].T
            assert len(source)
            assert len(source) * (source.max(initial=0) + target.max(initial=0)) <= tokens


@given(
    LENGTHS, SEEDS, st.integers(80, 400), st.integers(1, 4), st.integers(1, 99), st.integers(0, 30)
)
def test_resuming_gives_the_same_batches(lengths, seed, tokens, parts, pool, stop) -> None:
    def sampler() -> BatchSampler:
        return BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool)

    updates = list(islice(sampler().updates(), stop + 12))
    resumed = islice(sampler().updates(updates[stop].next_position), 11)
    for ours, theirs in zip(updates[stop + 1 :], resumed, strict=True):
        assert pairs_in([ours]) == pairs_in([theirs])
        assert ours.next_position == theirs.next_position
        assert ours.epoch == theirs.epoch


@given(LENGTHS, SEEDS, st.integers(80, 400))
def test_batches_do_not_depend_on_batches_per_update(lengths, seed, tokens) -> None:
    single, double = ([BatchSampler([Lengths(lengths)], tokens, seed, parts)] for parts in (1, 2))
    batches = [
        [
            pairs_in([UpdateBatches([batch], 0, DataPosition())])
            for r in epoch_of(sampler, 3)
            for batch in r.batches
        ]
        for sampler in (*single, *double)
    ]
    assert batches[0] == batches[1]


def test_epochs_and_seeds_differ() -> None:
    corpus = Lengths([(n % 9 + 2, n % 7 + 2) for n in range(200)])
    orders = {
        tuple(pairs_in(epoch_of(BatchSampler([corpus], 100, seed), epoch)))
        for seed in (1, 2)
        for epoch in (0, 1)
    }
    assert len(orders) == 4


def test_batches_are_composed_differently_in_each_epoch() -> None:
    """The batches of two epochs are not the same groups in another order."""
    corpus = Lengths([(n % 20 + 2, n % 30 + 2) for n in range(2000)])
    sampler = BatchSampler([corpus], 400, seed=1)
    groups = [{frozenset(pairs_in([r])) for r in epoch_of(sampler, epoch)} for epoch in (0, 1)]
    assert len(groups[0] & groups[1]) < 0.1 * len(groups[0])


@given(st.lists(st.integers(4, 30), min_size=1, max_size=4), SEEDS, st.data())
def test_weight_is_the_number_of_uses_per_epoch(sizes, seed, data) -> None:
    weights = [data.draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])) for _ in sizes]
    mixture = CorpusMixture(sizes, weights, seed)
    seen: Counter[tuple[int, int]] = Counter()
    for epoch in range(4):
        batch = mixture.shuffle_epoch(epoch)
        seen.update(
            (int(c), int(n)) for c, n in zip(batch.corpus_indices, batch.line_indices, strict=True)
        )
    for number, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        assert [seen[number, line] for line in range(size)] == [round(4 * weight)] * size


@given(st.integers(1, 3000), SEEDS, st.integers(0, 9))
def test_permutation_has_every_number_once(size, seed, epoch) -> None:
    numbers = shuffle_numbers(size, seed, epoch)
    assert sorted(numbers.tolist()) == list(range(size))


def test_permutation_is_random() -> None:
    numbers = shuffle_numbers(100_000, 3)
    assert abs(np.corrcoef(numbers, np.arange(100_000))[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.02
    firsts = Counter(int(shuffle_numbers(5, seed)[0]) for seed in range(5000))
    assert min(firsts.values()) > 850


@given(LENGTHS, st.integers(1, 300))
def test_batches_are_as_large_as_max_tokens_allows(lengths, max_tokens) -> None:
    source, target = np.array(lengths).T
    slices = split_by_tokens(source, target, max_tokens)
    assert [i for s in slices for i in range(s.start, s.stop)] == list(range(len(lengths)))
    for part in slices[:-1]:
        more = slice(part.start, part.stop + 1)
        size = (part.stop + 1 - part.start) * (source[more].max() + target[more].max())
        assert size > max_tokens


@pytest.mark.parametrize("weights", [[1e-9], [0.0], [-1.0], [5e-324]])
def test_weights_without_any_pair_are_rejected(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights must give each epoch at least one pair"):
        BatchSampler([Lengths([(2, 2)] * 10)], 99, seed=1, weights=weights)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.05, 2.0)), min_size=1, max_size=4),
    SEEDS,
)
@example([(3, 0.2), (3, 0.2)], 1)
def test_mixture_without_pairs_in_an_epoch_is_rejected(corpora, seed) -> None:
    """Corpora with less than one pair per epoch may leave some epochs empty."""
    sizes, weights = zip(*corpora, strict=True)
    try:
        mixture = CorpusMixture(sizes, weights, seed)
    except InputError:
        return
    assert min(len(mixture.shuffle_epoch(epoch).line_indices) for epoch in range(20)) > 0


@pytest.mark.parametrize("position", [(0, 0, 10**6), (0, 7, 0), (0, 0, -1), (-1, 0, 0)])
def test_position_outside_the_data_is_rejected(position: tuple[int, int, int]) -> None:
    sampler = BatchSampler([Lengths([(2, 2)] * 10)], 99, seed=1)
    with pytest.raises(AssertionError):
        next(sampler.updates(DataPosition(*position)))


@given(st.integers(1, 400), st.floats(0.01, 3.0), SEEDS)
def test_any_weight_holds_over_many_epochs(size: int, weight: float, seed: int) -> None:
    weight = max(weight, 1.001 / size)
    mixture = CorpusMixture([size], [weight], seed)
    drawn = [mixture.shuffle_epoch(epoch).line_indices for epoch in range(8)]
    times = np.bincount(np.concatenate(drawn), minlength=size)
    assert times.max() - times.min() <= 1
    assert abs(times.sum() - 8 * weight * size) <= 1
