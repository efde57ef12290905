"""Batching: every line once, within the budget, the same after a stop."""

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
    FeistelPermutation,
    SampledUpdate,
    hash_uniform,
    split_by_tokens,
)
from seq2see.errors import InputError

LENGTHS = st.lists(st.tuples(st.integers(2, 40), st.integers(2, 40)), min_size=1, max_size=80)
SEEDS = st.integers(0, 2**63 - 1)


class Lengths:
    """A corpus that has nothing but lengths."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        self.rows = np.array(lengths, dtype=np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self, lines):
        return self.rows[lines, 0], self.rows[lines, 1]


def epoch_of(plan: BatchSampler, epoch: int) -> list[SampledUpdate]:
    return list(plan.remaining_updates(DataPosition(epoch)))


def pairs_in(rounds: list[SampledUpdate]) -> list[tuple[int, int]]:
    draws = chain.from_iterable(r.batches for r in rounds)
    return [
        (int(c), int(n))
        for d in draws
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
def test_every_line_once_an_epoch(lengths, seed, epoch, tokens, parts, pool) -> None:
    rounds = epoch_of(BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool), epoch)
    assert sorted(pairs_in(rounds)) == [(0, line) for line in range(len(lengths))]


@given(LENGTHS, SEEDS, st.integers(80, 400), st.integers(1, 7), st.integers(1, 99))
def test_batches_fit_the_budget_and_rounds_are_full(lengths, seed, tokens, parts, pool) -> None:
    rows = np.array(lengths)
    rounds = epoch_of(BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool), 0)
    assert all(len(round_.batches) == parts for round_ in rounds[:-1])
    assert 1 <= len(rounds[-1].batches) <= parts
    for round_ in rounds:
        for draw in round_.batches:
            assert len(draw)
            source, target = rows[draw.line_indices].T
            assert len(draw) * (source.max(initial=0) + target.max(initial=0)) <= tokens


@given(
    LENGTHS, SEEDS, st.integers(80, 400), st.integers(1, 4), st.integers(1, 99), st.integers(0, 30)
)
def test_going_on_gives_the_same_as_not_stopping(lengths, seed, tokens, parts, pool, stop) -> None:
    def plan() -> BatchSampler:
        return BatchSampler([Lengths(lengths)], tokens, seed, parts, pool_size=pool)

    rounds = list(islice(plan().updates(), stop + 12))
    resumed = islice(plan().updates(rounds[stop].next_position), 11)
    for ours, theirs in zip(rounds[stop + 1 :], resumed, strict=True):
        assert pairs_in([ours]) == pairs_in([theirs])
        assert ours.next_position == theirs.next_position
        assert ours.epoch == theirs.epoch


@given(LENGTHS, SEEDS, st.integers(80, 400))
def test_rounds_are_the_same_batches_in_other_numbers(lengths, seed, tokens) -> None:
    single, double = ([BatchSampler([Lengths(lengths)], tokens, seed, parts)] for parts in (1, 2))
    batches = [
        [
            pairs_in([SampledUpdate([draw], 0, DataPosition())])
            for r in epoch_of(plan, 3)
            for draw in r.batches
        ]
        for plan in (*single, *double)
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


def test_another_epoch_has_other_neighbours() -> None:
    """Batches must not be the same groups in another order."""
    corpus = Lengths([(n % 20 + 2, n % 30 + 2) for n in range(2000)])
    plan = BatchSampler([corpus], 400, seed=1)
    groups = [{frozenset(pairs_in([r])) for r in epoch_of(plan, epoch)} for epoch in (0, 1)]
    assert len(groups[0] & groups[1]) < 0.1 * len(groups[0])


@given(st.lists(st.integers(4, 30), min_size=1, max_size=4), SEEDS, st.data())
def test_weights_say_how_often_an_epoch_has_a_line(sizes, seed, data) -> None:
    weights = [data.draw(st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])) for _ in sizes]
    mixture = CorpusMixture(sizes, weights, seed)
    seen: Counter[tuple[int, int]] = Counter()
    for epoch in range(4):
        draw = mixture.sample_pairs(epoch, np.arange(mixture.num_pairs(epoch)))
        seen.update(
            (int(c), int(n)) for c, n in zip(draw.corpus_indices, draw.line_indices, strict=True)
        )
    for number, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        assert [seen[number, line] for line in range(size)] == [round(4 * weight)] * size


@given(st.integers(1, 3000), SEEDS, st.integers(0, 9))
def test_a_permutation_has_every_number_once(size, seed, epoch) -> None:
    numbers = FeistelPermutation(size, seed, epoch)(np.arange(size))
    assert sorted(numbers.tolist()) == list(range(size))


def test_a_permutation_can_be_asked_for_any_place() -> None:
    shuffle = FeistelPermutation(10**12, 5)
    places = np.array([0, 10**12 - 1, 77, 10**9])
    together = shuffle(places)
    assert together.tolist() == [shuffle(places[i : i + 1])[0] for i in range(4)]
    assert len(set(together.tolist())) == 4
    assert ((together >= 0) & (together < 10**12)).all()


def test_a_permutation_scatters() -> None:
    numbers = FeistelPermutation(100_000, 3)(np.arange(100_000))
    assert abs(np.corrcoef(numbers, np.arange(100_000))[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.02
    firsts = Counter(int(FeistelPermutation(5, seed)(np.array([0]))[0]) for seed in range(5000))
    assert min(firsts.values()) > 850


def test_uniform_numbers_are_uniform() -> None:
    numbers = hash_uniform(np.arange(100_000), 4)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert np.histogram(numbers, 10)[0] == pytest.approx(10_000, rel=0.05)


@given(LENGTHS, st.integers(1, 300))
def test_a_cut_is_as_large_as_the_budget_allows(lengths, budget) -> None:
    source, target = np.array(lengths).T
    slices = split_by_tokens(source, target, budget)
    assert [i for s in slices for i in range(s.start, s.stop)] == list(range(len(lengths)))
    for part in slices[:-1]:
        more = slice(part.start, part.stop + 1)
        size = (part.stop + 1 - part.start) * (source[more].max() + target[more].max())
        assert size > budget


@pytest.mark.parametrize("weights", [[1e-9], [0.0], [-1.0], [5e-324]])
def test_weights_that_give_nothing_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError, match="weights must give each epoch a pair at least"):
        BatchSampler([Lengths([(2, 2)] * 10)], 99, seed=1, weights=weights)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.floats(0.05, 2.0)), min_size=1, max_size=4),
    SEEDS,
)
@example([(3, 0.2), (3, 0.2)], 1)
def test_an_epoch_without_a_pair_is_refused(corpora, seed) -> None:
    """Shares below a pair may come together in some epochs and leave others empty."""
    sizes, weights = zip(*corpora, strict=True)
    try:
        mixture = CorpusMixture(sizes, weights, seed)
    except InputError:
        return
    assert min(mixture.num_pairs(epoch) for epoch in range(20)) > 0


@pytest.mark.parametrize("position", [(0, 0, 10**6), (0, 7, 0), (0, 0, -1), (-1, 0, 0)])
def test_a_position_beyond_the_data_is_refused(position: tuple[int, int, int]) -> None:
    plan = BatchSampler([Lengths([(2, 2)] * 10)], 99, seed=1)
    with pytest.raises(InputError, match="must be a place in this data, but is none"):
        next(plan.updates(DataPosition(*position)))


@given(st.integers(1, 400), st.floats(0.01, 3.0), SEEDS)
def test_any_weight_comes_true_over_many_epochs(size: int, weight: float, seed: int) -> None:
    weight = max(weight, 1.001 / size)
    mixture = CorpusMixture([size], [weight], seed)
    drawn = [
        mixture.sample_pairs(e, np.arange(mixture.num_pairs(e))).line_indices for e in range(8)
    ]
    times = np.bincount(np.concatenate(drawn), minlength=size)
    assert times.max() - times.min() <= 1
    assert abs(times.sum() - 8 * weight * size) <= 1
