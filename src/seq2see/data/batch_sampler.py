"""Stateless batch sampler.

An epoch is shuffled and divided into pools; each pool is sorted by length and split into batches of
at most `max_tokens` tokens, padding included, which are shuffled. Everything is a function of seed
and epoch, so the sampler has no state, holds one pool in memory, and can start at any position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2see.errors import InputError

IntArray = NDArray[np.int64]


UintArray = NDArray[np.uint64]


_ROUNDS = 6


class FeistelPermutation:
    """A shuffle of the numbers below `size`; another key, another shuffle."""

    def __init__(self, size: int, *key: int) -> None:
        self.size = size
        self._rows = np.uint64(max(1, isqrt(size)))
        self._columns = np.uint64(max(1, -(-size // int(self._rows))))
        self._keys = [_hash_key(*key, number) for number in range(_ROUNDS)]

    def __call__(self, places: IntArray) -> IntArray:
        """Return the number at each of these places."""
        numbers = self._step(places.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self.size)):
            numbers[outside] = self._step(numbers[outside])
        return numbers.astype(np.int64)

    def _step(self, numbers: UintArray) -> UintArray:
        row, column = np.divmod(numbers, self._columns)
        for number, key in enumerate(self._keys):
            if number % 2:
                column = (column + _mix(row ^ key) % self._columns) % self._columns
            else:
                row = (row + _mix(column ^ key) % self._rows) % self._rows
        return np.asarray(row * self._columns + column, dtype=np.uint64)


def _hash_key(*key: int) -> np.uint64:
    state = np.zeros(1, dtype=np.uint64)
    for number in key:
        state = _mix(state ^ np.uint64(number % 2**64))
    return np.uint64(state[0])


def _mix(words: UintArray) -> UintArray:
    """Scatter the bits, each word by itself: the finaliser of SplitMix64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def hash_uniform(numbers: IntArray, *key: int) -> NDArray[np.float64]:
    """Return a number from [0, 1) for each of these, drawn anew for each key."""
    words = _mix(numbers.astype(np.uint64) ^ _hash_key(*key))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


_MixtureInts = NDArray[np.int64]


_ORDER, _LINES = 1, 2  # so that no two shuffles have the same key


@dataclass(frozen=True, slots=True)
class PairIndices:
    """Some pairs of an epoch, each by its corpus, its line there (from 0), and its turn."""

    corpus_indices: _MixtureInts
    line_indices: _MixtureInts
    pass_indices: _MixtureInts
    """How often the corpus was gone through before; with weight 1 this is the epoch."""

    def __len__(self) -> int:
        return len(self.line_indices)

    def take(self, index: _MixtureInts | slice) -> PairIndices:
        """Return some of them."""
        return PairIndices(
            self.corpus_indices[index], self.line_indices[index], self.pass_indices[index]
        )


class CorpusMixture:
    """The pairs of each epoch, in their order."""

    def __init__(self, sizes: Sequence[int], weights: Sequence[float], seed: int) -> None:
        if not any(sizes):
            raise InputError("there must be at least one pair to learn from, but there is none")
        self._sizes = sizes
        self._shares = [  # as fractions: floats would drift
            size * Fraction(weight) for size, weight in zip(sizes, weights, strict=True)
        ]
        # Of every share the first epoch has the whole pairs alone: no later one has fewer.
        if min(weights) <= 0 or not self.num_pairs(0):
            raise InputError(
                f"weights must give each epoch a pair at least, but {list(weights)} for "
                f"{list(sizes)} pairs do not"
            )
        self._seed = seed

    def num_pairs(self, epoch: int) -> int:
        """Return how many pairs the epoch has."""
        return sum(end - start for start, end in self._parts(epoch))

    def sample_pairs(self, epoch: int, positions: _MixtureInts) -> PairIndices:
        """Return the pairs at these places of the epoch's order."""
        parts = self._parts(epoch)
        bounds = np.cumsum([0] + [end - start for start, end in parts])
        shuffled = FeistelPermutation(int(bounds[-1]), self._seed, _ORDER, epoch)(positions)
        corpus = np.searchsorted(bounds, shuffled, side="right") - 1
        starts = np.array([start for start, _ in parts])
        stream = shuffled - bounds[corpus] + starts[corpus]
        return self._lines(corpus, stream)

    def _parts(self, epoch: int) -> list[tuple[int, int]]:
        """Return the part of each corpus' stream that the epoch takes."""
        return [(int(share * epoch), int(share * (epoch + 1))) for share in self._shares]

    def _lines(self, corpus: _MixtureInts, stream: _MixtureInts) -> PairIndices:
        """Look places of the streams up in the shuffles that they are made of."""
        turn = stream // np.maximum(1, np.array(self._sizes))[corpus]
        line = np.empty_like(stream)
        order = np.lexsort((turn, corpus))
        changes = np.flatnonzero(np.diff(corpus[order]) | np.diff(turn[order])) + 1
        for here in np.split(order, changes):
            if len(here):
                number, size = int(corpus[here[0]]), self._sizes[corpus[here[0]]]
                shuffle = FeistelPermutation(size, self._seed, _LINES, number, int(turn[here[0]]))
                line[here] = shuffle(stream[here] % size)
        return PairIndices(corpus, line, turn)


_PlanInts = NDArray[np.int64]


POOL_SIZE = 1 << 18
"""Pairs that are sorted by length together."""


LENGTH_NOISE = 2.0
"""Tokens by which a length may seem longer than it is, so that each epoch has other neighbours."""


class HasLengths(Protocol):
    """A corpus whose lines have lengths."""

    def __len__(self) -> int: ...

    def lengths(self, lines: _PlanInts) -> tuple[_PlanInts, _PlanInts]:
        """Return the tokens of these lines, source and target, each with its end."""
        ...


class DataPosition(NamedTuple):
    """Where a plan stands: before this batch of this pool."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


START_POSITION = DataPosition()


_BATCHES, _NEIGHBOURS = 3, 4  # as in `mixture`: no two shuffles have the same key


class SampledUpdate(NamedTuple):
    """The batches of one update, and where the plan goes on."""

    batches: list[PairIndices]
    epoch: int
    next_position: DataPosition


class BatchSampler:
    """Rounds of `parts` batches each, the last of an epoch with what is left of it."""

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
        self._tokens = max_tokens
        self._seed = seed
        self._parts = batches_per_update
        self._mixture = CorpusMixture(
            [len(c) for c in corpora], weights or [1.0] * len(corpora), seed
        )
        self._pool_size = pool_size

    def updates(self, start: DataPosition = START_POSITION) -> Iterator[SampledUpdate]:
        """Yield rounds without end, from a position on."""
        while True:
            yield from self.remaining_updates(start)
            start = DataPosition(start.epoch + 1)

    def remaining_updates(self, start: DataPosition) -> Iterator[SampledUpdate]:
        """Yield rounds until the end of the epoch."""
        waiting: list[PairIndices] = []
        for draw, after in self._stream(start):
            waiting.append(draw)
            if len(waiting) == self._parts:
                yield SampledUpdate(waiting, start.epoch, after)
                waiting = []
        if waiting:
            yield SampledUpdate(waiting, start.epoch, DataPosition(start.epoch + 1))

    def _stream(self, start: DataPosition) -> Iterator[tuple[PairIndices, DataPosition]]:
        """Yield the batches of the rest of an epoch, each with the position behind it."""
        epoch, first, skip = start
        pools = -(-self._mixture.num_pairs(epoch) // self._pool_size)
        _refuse_outside(start, pools)
        for pool in range(first, pools):
            draws = self._pool(epoch, pool)
            _refuse_outside(start, pools, len(draws) if pool == first else None)
            for number in range(skip, len(draws) - 1):
                yield draws[number], DataPosition(epoch, pool, number + 1)
            is_last = pool + 1 == pools
            yield draws[-1], DataPosition(epoch + 1) if is_last else DataPosition(epoch, pool + 1)
            skip = 0

    def _pool(self, epoch: int, number: int) -> list[PairIndices]:
        """Cut a pool into batches of similar lengths, and shuffle them."""
        first = number * self._pool_size
        last = min(first + self._pool_size, self._mixture.num_pairs(epoch))
        draw = self._mixture.sample_pairs(epoch, np.arange(first, last))
        source, target = self._lengths(draw)
        order = sort_by_length(source, target, (self._seed, _NEIGHBOURS, epoch, number))
        slices = split_by_tokens(source[order], target[order], self._tokens)
        shuffle = FeistelPermutation(len(slices), self._seed, _BATCHES, epoch, number)
        shuffled = shuffle(np.arange(len(slices)))
        return [draw.take(order[slices[i]]) for i in shuffled]

    def _lengths(self, draw: PairIndices) -> tuple[_PlanInts, _PlanInts]:
        source, target = np.empty_like(draw.line_indices), np.empty_like(draw.line_indices)
        for number, corpus in enumerate(self._corpora):
            here = np.flatnonzero(draw.corpus_indices == number)
            source[here], target[here] = corpus.lengths(draw.line_indices[here])
        return source, target


def _refuse_outside(start: DataPosition, pools: int, batches: int | None = None) -> None:
    """Raise an error if there is no such place: it belongs to other data or other settings."""
    inside = start.pool < max(pools, 1) and (batches is None or start.batch < batches)
    if not inside or min(start) < 0:
        raise InputError(
            f"{tuple(start)} must be a place in this data, but is none: "
            "was it saved with other data or settings?"
        )


def sort_by_length(source: _PlanInts, target: _PlanInts, key: Sequence[int]) -> _PlanInts:
    """Return an order of pairs in which similar lengths follow each other.

    By source, and inside by target, up and down in turn, so that neighbours are similar in both.
    """
    noise = hash_uniform(np.arange(len(source)), *key)
    level = (source + LENGTH_NOISE * noise).astype(np.int64)
    return np.lexsort((np.where(level % 2, -target, target), level))


def split_by_tokens(source: _PlanInts, target: _PlanInts, max_tokens: int) -> list[slice]:
    """Cut a row of pairs into batches that fit the budget, padding included, or have one pair."""
    slices, start = [], 0
    while start < len(source):
        most = start + max(1, max_tokens // int(source[start] + target[start]))
        widest = (np.maximum.accumulate(side[start:most]) for side in (source, target))
        sizes = sum(widest) * np.arange(1, len(source[start:most]) + 1)
        end = start + max(1, int(np.searchsorted(sizes, max_tokens, side="right")))
        slices.append(slice(start, end))
        start = end
    return slices
