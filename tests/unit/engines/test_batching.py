"""Batches of sentences by length and by cost."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from seq2see.engines.batching import batch_by_length

LENGTHS = [4 + n * 7919 % 31 for n in range(700)]


def work(batch: Sequence[int], lengths: Sequence[int], step_cost: int) -> int:
    return sum(lengths[place] for place in batch) + step_cost * lengths[batch[0]]


def test_batches_are_full_and_sorted_by_length() -> None:
    assert batch_by_length([2, 9, 5, 9, 1], 18) == [[1, 3], [2, 0, 4]]
    assert batch_by_length([2, 9, 5, 9, 1], 18, max_size=2) == [[1, 3], [2, 0], [4]]
    assert batch_by_length([40, 0], 18) == [[0], [1]]  # what is too long goes alone
    assert batch_by_length([], 18) == []


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("budget", [1500, 4000])
def test_balanced_batches_have_similar_cost(workers: int, budget: int) -> None:
    plain = batch_by_length(LENGTHS, budget)
    batches = batch_by_length(LENGTHS, budget, threads=workers, step_cost=30)
    assert sorted(place for batch in batches for place in batch) == [*range(len(LENGTHS))]
    assert [LENGTHS[p] for b in batches for p in b] == sorted(LENGTHS, reverse=True)
    assert len(batches) % workers == 0
    assert len(plain) <= len(batches) < len(plain) + workers
    assert all(len(batch) * LENGTHS[batch[0]] <= budget for batch in batches)
    works = [work(batch, LENGTHS, 30) for batch in batches]
    assert max(works) <= max(work(batch, LENGTHS, 30) for batch in plain)
    if budget == 4000:  # there is room enough for all to be alike, up to a sentence each
        assert max(works[:-1]) - min(works[:-1]) <= max(LENGTHS)
        assert works[-1] >= max(works) / 2


def test_one_thread_or_one_batch_is_not_balanced() -> None:
    assert batch_by_length(LENGTHS, 1500, 9, threads=1, step_cost=30) == batch_by_length(
        LENGTHS, 1500, 9
    )
    assert batch_by_length([3, 4], 1500, None, threads=2, step_cost=30) == [[1, 0]]
    assert batch_by_length([], 1500, None, threads=2, step_cost=30) == []


def test_few_sentences_do_not_use_more_batches() -> None:
    assert [
        len(batch) for batch in batch_by_length([30] * 35, 1024, None, threads=16, step_cost=30)
    ] == [
        18,
        17,
    ]


def test_batches_respect_the_maximum_size() -> None:
    batches = batch_by_length(LENGTHS, 4000, 7, threads=2, step_cost=30)
    assert {len(batch) for batch in batches[:-2]} == {7}
    assert batch_by_length([5, 5, 5], 4000, 1, threads=2, step_cost=30) == [[0], [1], [2]]
