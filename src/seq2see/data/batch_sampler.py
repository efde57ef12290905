"""Stateless batch sampler.

An epoch is shuffled and divided into pools; each pool is sorted by length and split into batches of
at most `max_tokens` tokens, padding included, which are shuffled. Everything is a function of seed
and epoch, so the sampler has no state and can start at any position. An order of n numbers is that
of n hashes, the same on every machine; the order of an epoch takes 16 bytes per pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.errors import InputError
from seq2see.keyed_random import hash_uniform
from seq2see.text.packed_ids import IntArray

# Keys of the shuffles; no two shuffles have the same key.
_EPOCH_KEY, _LINES_KEY, _BATCHES_KEY, _NOISE_KEY = 1, 2, 3, 4


def shuffle_numbers(size: int, *key: int) -> IntArray:
    """Return the numbers below `size` in a random order that is determined by the key."""
    return np.argsort(hash_uniform(np.arange(size), *key), kind="stable")


class SampledPairIndices(NamedTuple):
    """Indices of pairs: the corpus, the line in it, and the pass over the corpus, all from 0."""

    corpus_indices: NDArray[np.int32]
    line_indices: IntArray
    pass_indices: NDArray[np.int32]
    """Number of earlier passes over the corpus; with weight 1 this is the epoch."""

    def take(self, indices: IntArray | slice) -> SampledPairIndices:
        """Return the selected pairs."""
        corpora, lines, passes = self
        return SampledPairIndices(corpora[indices], lines[indices], passes[indices])


class CorpusMixture:
    """The shuffled pairs of each epoch, from several weighted corpora.

    Each corpus is an infinite stream of shuffled passes over its lines. An epoch takes `weight`
    passes: with weight 1 each line once, with 2 twice, with 0.5 one half of the lines, and the
    other half in the next epoch.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        self._sizes = sizes
        self._pairs_per_epoch = [  # as fractions, because floats would accumulate errors
            size * Fraction(weight) for size, weight in zip(sizes, weights, strict=True)
        ]
        # The number of pairs is rounded down in the first epoch, so no later epoch has fewer.
        if min(weights) <= 0 or not any(map(int, self._pairs_per_epoch)):
            raise InputError(
                f"weights must give each epoch at least one pair, but {list(weights)} for "
                f"{list(sizes)} pairs do not"
            )
        self._seed = seed

    def shuffle_epoch(self, epoch: int) -> SampledPairIndices:
        """Return the pairs of an epoch in random order."""
        columns = zip(*self._iterate_passes(epoch), strict=True)
        pairs = SampledPairIndices(*map(np.concatenate, columns))
        return pairs.take(shuffle_numbers(len(pairs.line_indices), self._seed, _EPOCH_KEY, epoch))

    def _iterate_passes(self, epoch: int) -> Iterator[SampledPairIndices]:
        """Yield the pairs of each pass over each corpus that belong to the epoch."""
        for corpus, (size, num_pairs) in enumerate(
            zip(self._sizes, self._pairs_per_epoch, strict=True)
        ):
            start, end = int(num_pairs * epoch), int(num_pairs * (epoch + 1))
            for number in range(start // max(size, 1), -(-end // max(size, 1))):
                lines = shuffle_numbers(size, self._seed, _LINES_KEY, corpus, number)
                lines = lines[max(0, start - number * size) : end - number * size]
                corpora = np.full(len(lines), corpus, np.int32)
                yield SampledPairIndices(corpora, lines, np.full_like(corpora, number))


POOL_SIZE = 1 << 18
"""Number of pairs that are sorted by length together."""
LENGTH_NOISE = 2.0
"""Maximum random number of tokens added to a length, so that batches differ between epochs."""


class DataPosition(NamedTuple):
    """A position in the training data: before a batch of a pool of an epoch, all from 0."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


START_POSITION = DataPosition()


BatchT = TypeVar("BatchT")


class UpdateBatches(NamedTuple, Generic[BatchT]):
    """The batches of one update, its epoch, and the position after it."""

    batches: list[BatchT]
    epoch: int
    next_position: DataPosition
    """The position from which an interrupted run continues with the same batches."""


class BatchSampler:
    """Yields the batches of each update as indices of pairs.

    An update has `batches_per_update` batches; the last one of an epoch may have fewer. A batch has
    at most `max_tokens` tokens of source, target and padding, or a single pair.
    """

    def __init__(
        self,
        corpora: Sequence[EncodedCorpus],
        max_tokens: int,
        seed: int,
        batches_per_update: int = 1,
        weights: Sequence[float] | None = None,
        pool_size: int = POOL_SIZE,
    ) -> None:
        assert batches_per_update >= 1
        assert pool_size >= 1
        self._corpora = corpora
        self._max_tokens = max_tokens
        self._seed = seed
        self._batches_per_update = batches_per_update
        sizes = [len(corpus) for corpus in corpora]
        self._mixture = CorpusMixture(sizes, weights or [1.0] * len(corpora), seed)
        self._pool_size = pool_size

    def updates(
        self, start: DataPosition = START_POSITION
    ) -> Iterator[UpdateBatches[SampledPairIndices]]:
        """Yield updates without end, beginning at a position."""
        while True:
            yield from self.remaining_updates(start)
            start = DataPosition(start.epoch + 1)

    def remaining_updates(self, start: DataPosition) -> Iterator[UpdateBatches[SampledPairIndices]]:
        """Yield the updates from a position to the end of its epoch."""
        batches: list[SampledPairIndices] = []
        for batch, next_position in self._remaining_batches(start):
            batches.append(batch)
            if len(batches) == self._batches_per_update:
                yield UpdateBatches(batches, start.epoch, next_position)
                batches = []
        if batches:
            yield UpdateBatches(batches, start.epoch, DataPosition(start.epoch + 1))

    def _remaining_batches(
        self, start: DataPosition
    ) -> Iterator[tuple[SampledPairIndices, DataPosition]]:
        """Yield the remaining batches of an epoch, each with the position after it."""
        epoch, first_pool, skip = start
        pairs = self._mixture.shuffle_epoch(epoch)
        num_pools = -(-len(pairs.line_indices) // self._pool_size)
        assert min(start) >= 0
        assert first_pool < num_pools
        for pool in range(first_pool, num_pools):
            in_pool = slice(pool * self._pool_size, (pool + 1) * self._pool_size)
            batches = self._split_pool(pairs.take(in_pool), epoch, pool)
            assert skip < len(batches)
            for number in range(skip, len(batches) - 1):
                yield batches[number], DataPosition(epoch, pool, number + 1)
            is_last = pool + 1 == num_pools
            yield batches[-1], DataPosition(epoch + 1) if is_last else DataPosition(epoch, pool + 1)
            skip = 0

    def _split_pool(
        self, pairs: SampledPairIndices, epoch: int, pool: int
    ) -> list[SampledPairIndices]:
        """Split a pool into batches of similar lengths, and shuffle them."""
        source, target = self._lengths(pairs)
        order = order_pairs_by_noisy_length(source, target, (self._seed, _NOISE_KEY, epoch, pool))
        slices = split_by_tokens(source[order], target[order], self._max_tokens)
        shuffled = shuffle_numbers(len(slices), self._seed, _BATCHES_KEY, epoch, pool)
        return [pairs.take(order[slices[i]]) for i in shuffled]

    def _lengths(self, pairs: SampledPairIndices) -> tuple[IntArray, IntArray]:
        source, target = np.empty_like(pairs.line_indices), np.empty_like(pairs.line_indices)
        for number, corpus in enumerate(self._corpora):
            own = np.flatnonzero(pairs.corpus_indices == number)
            source[own], target[own] = corpus.lengths(pairs.line_indices[own])
        return source, target


def order_pairs_by_noisy_length(source: IntArray, target: IntArray, key: Sequence[int]) -> IntArray:
    """Return an order of pairs in which neighbors have similar lengths.

    Pairs are sorted by source length with noise, and pairs of equal source length by target length,
    in ascending and descending order in turn, so that neighbors are similar on both sides.
    """
    noise = hash_uniform(np.arange(len(source)), *key)
    level = (source + LENGTH_NOISE * noise).astype(np.int64)
    return np.lexsort((np.where(level % 2, -target, target), level))


def split_by_tokens(source: IntArray, target: IntArray, max_tokens: int) -> list[slice]:
    """Split a sequence of pairs into batches, given the lengths of both sides.

    A batch has at most `max_tokens` tokens, padding included, or a single pair.
    """
    slices, start = [], 0
    while start < len(source):
        max_end = start + max(1, max_tokens // int(source[start] + target[start]))
        longest = (np.maximum.accumulate(side[start:max_end]) for side in (source, target))
        sizes = sum(longest) * np.arange(1, len(source[start:max_end]) + 1)
        end = start + max(1, int(np.searchsorted(sizes, max_tokens, side="right")))
        slices.append(slice(start, end))
        start = end
    return slices
