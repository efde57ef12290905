"""Stateless batch sampler.

An epoch is shuffled and divided into pools; each pool is sorted by length and split into batches of
at most `max_tokens` tokens, padding included, which are shuffled. Everything is a function of seed
and epoch, so the sampler has no state, holds one pool in memory, and can start at any position.

A permutation of 500 million lines is not stored either: a small cipher over the numbers below
`size` computes each position by itself, the same on every machine and with every version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import NamedTuple, Protocol

import numpy as np

from seq2see.errors import InputError
from seq2see.keyed_random import UintArray, hash_key, hash_uniform, mix_bits
from seq2see.text.packed_ids import IntArray

_NUM_ROUNDS = 6

# Keys of the shuffles; no two shuffles have the same key.
_EPOCH_KEY, _LINES_KEY, _BATCHES_KEY, _NOISE_KEY = 1, 2, 3, 4


class FeistelPermutation:
    """A random permutation of the numbers below `size`, determined by the key.

    A Feistel network over a grid of rows and columns that just holds all numbers (Black and
    Rogaway, 2002). Results outside the range are encrypted again until they are inside.
    """

    def __init__(self, size: int, *key: int) -> None:
        self.size = size
        self._rows = np.uint64(max(1, isqrt(size)))
        self._columns = np.uint64(max(1, -(-size // int(self._rows))))
        self._keys = [np.uint64(hash_key(*key, number)) for number in range(_NUM_ROUNDS)]

    def __call__(self, positions: IntArray) -> IntArray:
        """Return the number at each of the given positions."""
        numbers = self._encrypt(positions.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self.size)):
            numbers[outside] = self._encrypt(numbers[outside])
        return numbers.astype(np.int64)

    def _encrypt(self, numbers: UintArray) -> UintArray:
        row, column = np.divmod(numbers, self._columns)
        for number, key in enumerate(self._keys):
            if number % 2:
                column = (column + mix_bits(row ^ key) % self._columns) % self._columns
            else:
                row = (row + mix_bits(column ^ key) % self._rows) % self._rows
        return np.asarray(row * self._columns + column, dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class SampledPairIndices:
    """Indices of pairs: the corpus, the line in it, and the pass over the corpus, all from 0."""

    corpus_indices: IntArray
    line_indices: IntArray
    pass_indices: IntArray
    """Number of earlier passes over the corpus; with weight 1 this is the epoch."""

    def __len__(self) -> int:
        return len(self.line_indices)

    def take(self, index: IntArray | slice) -> SampledPairIndices:
        """Return the selected pairs."""
        return SampledPairIndices(
            self.corpus_indices[index], self.line_indices[index], self.pass_indices[index]
        )


class CorpusMixture:
    """The shuffled pairs of each epoch, from several weighted corpora.

    Each corpus is an infinite stream of shuffled passes over its lines. An epoch takes `weight`
    passes: with weight 1 each line once, with 2 twice, with 0.5 one half of the lines, and the
    other half in the next epoch.
    """

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        if not any(sizes):
            raise InputError("there must be at least one training pair, but there is none")
        self._sizes = sizes
        self._pairs_per_epoch = [  # as fractions, because floats would accumulate errors
            size * Fraction(weight) for size, weight in zip(sizes, weights, strict=True)
        ]
        # The number of pairs is rounded down in the first epoch, so no later epoch has fewer.
        if min(weights) <= 0 or not self.num_pairs(0):
            raise InputError(
                f"weights must give each epoch at least one pair, but {list(weights)} for "
                f"{list(sizes)} pairs do not"
            )
        self._seed = seed

    def num_pairs(self, epoch: int) -> int:
        """Return the number of pairs of an epoch."""
        return sum(end - start for start, end in self._ranges(epoch))

    def sample_pairs(self, epoch: int, positions: IntArray) -> SampledPairIndices:
        """Return the pairs at the given positions of an epoch."""
        ranges = self._ranges(epoch)
        bounds = np.cumsum([0] + [end - start for start, end in ranges])
        shuffled = FeistelPermutation(int(bounds[-1]), self._seed, _EPOCH_KEY, epoch)(positions)
        corpus = np.searchsorted(bounds, shuffled, side="right") - 1
        starts = np.array([start for start, _ in ranges])
        stream_indices = shuffled - bounds[corpus] + starts[corpus]
        return self._find_lines(corpus, stream_indices)

    def _ranges(self, epoch: int) -> list[tuple[int, int]]:
        """Return the range of each corpus's stream that belongs to the epoch."""
        return [(int(num * epoch), int(num * (epoch + 1))) for num in self._pairs_per_epoch]

    def _find_lines(self, corpus: IntArray, stream_indices: IntArray) -> SampledPairIndices:
        """Return the lines at indices of the streams, each of which is shuffled pass by pass."""
        passes = stream_indices // np.maximum(1, np.array(self._sizes))[corpus]
        lines = np.empty_like(stream_indices)
        order = np.lexsort((passes, corpus))
        changes = np.flatnonzero(np.diff(corpus[order]) | np.diff(passes[order])) + 1
        for group in np.split(order, changes):  # one corpus and one pass each
            if len(group):
                number, pass_index = int(corpus[group[0]]), int(passes[group[0]])
                size = self._sizes[number]
                shuffle = FeistelPermutation(size, self._seed, _LINES_KEY, number, pass_index)
                lines[group] = shuffle(stream_indices[group] % size)
        return SampledPairIndices(corpus, lines, passes)


POOL_SIZE = 1 << 18
"""Number of pairs that are sorted by length together."""
LENGTH_NOISE = 2.0
"""Maximum random number of tokens added to a length, so that batches differ between epochs."""


class HasLengths(Protocol):
    """A corpus that knows the lengths of its lines."""

    def __len__(self) -> int: ...

    def lengths(self, lines: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of source and target tokens of the given lines, EOS included."""
        ...


class DataPosition(NamedTuple):
    """A position in the training data: before a batch of a pool of an epoch, all from 0."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


START_POSITION = DataPosition()


class SampledUpdate(NamedTuple):
    """The batches of one update, and the position after it."""

    batches: list[SampledPairIndices]
    epoch: int
    next_position: DataPosition


class BatchSampler:
    """Yields the batches of each update as indices of pairs.

    An update has `batches_per_update` batches; the last one of an epoch may have fewer. A batch has
    at most `max_tokens` tokens of source, target and padding, or a single pair.
    """

    def __init__(
        self,
        corpora: Sequence[HasLengths],
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

    def updates(self, start: DataPosition = START_POSITION) -> Iterator[SampledUpdate]:
        """Yield updates without end, beginning at a position."""
        while True:
            yield from self.remaining_updates(start)
            start = DataPosition(start.epoch + 1)

    def remaining_updates(self, start: DataPosition) -> Iterator[SampledUpdate]:
        """Yield the updates from a position to the end of its epoch."""
        batches: list[SampledPairIndices] = []
        for batch, next_position in self._remaining_batches(start):
            batches.append(batch)
            if len(batches) == self._batches_per_update:
                yield SampledUpdate(batches, start.epoch, next_position)
                batches = []
        if batches:
            yield SampledUpdate(batches, start.epoch, DataPosition(start.epoch + 1))

    def _remaining_batches(
        self, start: DataPosition
    ) -> Iterator[tuple[SampledPairIndices, DataPosition]]:
        """Yield the remaining batches of an epoch, each with the position after it."""
        epoch, first_pool, skip = start
        num_pools = -(-self._mixture.num_pairs(epoch) // self._pool_size)
        _check_position(start, num_pools)
        for pool in range(first_pool, num_pools):
            batches = self._pool_batches(epoch, pool)
            _check_position(start, num_pools, len(batches) if pool == first_pool else None)
            for number in range(skip, len(batches) - 1):
                yield batches[number], DataPosition(epoch, pool, number + 1)
            is_last = pool + 1 == num_pools
            yield batches[-1], DataPosition(epoch + 1) if is_last else DataPosition(epoch, pool + 1)
            skip = 0

    def _pool_batches(self, epoch: int, pool: int) -> list[SampledPairIndices]:
        """Split a pool into batches of similar lengths, and shuffle them."""
        start = pool * self._pool_size
        end = min(start + self._pool_size, self._mixture.num_pairs(epoch))
        pairs = self._mixture.sample_pairs(epoch, np.arange(start, end))
        source, target = self._lengths(pairs)
        order = order_pairs_by_noisy_length(source, target, (self._seed, _NOISE_KEY, epoch, pool))
        slices = split_by_tokens(source[order], target[order], self._max_tokens)
        shuffle = FeistelPermutation(len(slices), self._seed, _BATCHES_KEY, epoch, pool)
        return [pairs.take(order[slices[i]]) for i in shuffle(np.arange(len(slices)))]

    def _lengths(self, pairs: SampledPairIndices) -> tuple[IntArray, IntArray]:
        source, target = np.empty_like(pairs.line_indices), np.empty_like(pairs.line_indices)
        for number, corpus in enumerate(self._corpora):
            own = np.flatnonzero(pairs.corpus_indices == number)
            source[own], target[own] = corpus.lengths(pairs.line_indices[own])
        return source, target


def _check_position(start: DataPosition, num_pools: int, num_batches: int | None = None) -> None:
    """Raise InputError if the position is outside the data."""
    exists = start.pool < max(num_pools, 1) and (num_batches is None or start.batch < num_batches)
    if not exists or min(start) < 0:
        raise InputError(
            f"data position {tuple(start)} does not exist: corpora or batch settings have changed "
            "since the checkpoint"
        )


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
