"""Which pairs go together: the plan of every epoch.

An epoch is shuffled as a whole and cut into pools; each pool is sorted by length and cut into
batches that fit a budget of tokens, padding included; the batches are shuffled in turn and dealt
out to the updates. All of it follows from seed and epoch by computing, so the plan has no state,
needs memory for one pool only, and goes on from any position without what came before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from seq2see.data.mixture import Draw, Mixture
from seq2see.data.shuffle import Permutation, uniform
from seq2see.errors import InputError

Ints = NDArray[np.int64]

POOL = 1 << 18
"""Pairs that are sorted by length together."""
NOISE = 2.0
"""Tokens by which a length may seem longer than it is, so that each epoch has other neighbours."""


class Measured(Protocol):
    """A corpus whose lines have lengths."""

    def __len__(self) -> int: ...

    def lengths(self, lines: Ints) -> tuple[Ints, Ints]:
        """Return the tokens of these lines, source and target, each with its end."""
        ...


class Position(NamedTuple):
    """Where a plan stands: before this batch of this pool."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


BEGINNING = Position()
_BATCHES, _NEIGHBOURS = 3, 4  # as in `mixture`: no two shuffles have the same key


class Round(NamedTuple):
    """The batches of one update, and where the plan goes on."""

    batches: list[Draw]
    epoch: int
    after: Position


class Plan:
    """Rounds of `parts` batches each, the last of an epoch with what is left of it."""

    def __init__(
        self,
        corpora: Sequence[Measured],
        tokens: int,
        seed: int,
        parts: int = 1,
        weights: Sequence[float] | None = None,
        pool: int = POOL,
    ) -> None:
        assert parts >= 1
        assert pool >= 1
        self._corpora = corpora
        self._tokens = tokens
        self._seed = seed
        self._parts = parts
        self._mixture = Mixture([len(c) for c in corpora], weights or [1.0] * len(corpora), seed)
        self._pool_size = pool

    def rounds(self, start: Position = BEGINNING) -> Iterator[Round]:
        """Yield rounds without end, from a position on."""
        while True:
            yield from self.rest_of_epoch(start)
            start = Position(start.epoch + 1)

    def rest_of_epoch(self, start: Position) -> Iterator[Round]:
        """Yield rounds until the end of the epoch."""
        waiting: list[Draw] = []
        for draw, after in self._stream(start):
            waiting.append(draw)
            if len(waiting) == self._parts:
                yield Round(waiting, start.epoch, after)
                waiting = []
        if waiting:
            yield Round(waiting, start.epoch, Position(start.epoch + 1))

    def _stream(self, start: Position) -> Iterator[tuple[Draw, Position]]:
        """Yield the batches of the rest of an epoch, each with the position behind it."""
        epoch, first, skip = start
        pools = -(-self._mixture.count(epoch) // self._pool_size)
        _refuse_outside(start, pools)
        for pool in range(first, pools):
            draws = self._pool(epoch, pool)
            _refuse_outside(start, pools, len(draws) if pool == first else None)
            for number in range(skip, len(draws) - 1):
                yield draws[number], Position(epoch, pool, number + 1)
            is_last = pool + 1 == pools
            yield draws[-1], Position(epoch + 1) if is_last else Position(epoch, pool + 1)
            skip = 0

    def _pool(self, epoch: int, number: int) -> list[Draw]:
        """Cut a pool into batches of similar lengths, and shuffle them."""
        first = number * self._pool_size
        last = min(first + self._pool_size, self._mixture.count(epoch))
        draw = self._mixture.draw(epoch, np.arange(first, last))
        source, target = self._lengths(draw)
        order = similar(source, target, (self._seed, _NEIGHBOURS, epoch, number))
        slices = cut(source[order], target[order], self._tokens)
        shuffle = Permutation(len(slices), self._seed, _BATCHES, epoch, number)
        shuffled = shuffle(np.arange(len(slices)))
        return [draw.take(order[slices[i]]) for i in shuffled]

    def _lengths(self, draw: Draw) -> tuple[Ints, Ints]:
        source, target = np.empty_like(draw.line), np.empty_like(draw.line)
        for number, corpus in enumerate(self._corpora):
            here = np.flatnonzero(draw.corpus == number)
            source[here], target[here] = corpus.lengths(draw.line[here])
        return source, target


def _refuse_outside(start: Position, pools: int, batches: int | None = None) -> None:
    """Raise an error if there is no such place: it belongs to other data or other settings."""
    inside = start.pool < max(pools, 1) and (batches is None or start.batch < batches)
    if not inside or min(start) < 0:
        raise InputError(
            f"{tuple(start)} must be a place in this data, but is none: "
            "was it saved with other data or settings?"
        )


def similar(source: Ints, target: Ints, key: Sequence[int]) -> Ints:
    """Return an order of pairs in which similar lengths follow each other.

    By source, and inside by target, up and down in turn, so that neighbours are similar in both.
    """
    noise = uniform(np.arange(len(source)), *key)
    level = (source + NOISE * noise).astype(np.int64)
    return np.lexsort((np.where(level % 2, -target, target), level))


def cut(source: Ints, target: Ints, budget: int) -> list[slice]:
    """Cut a row of pairs into batches that fit the budget, padding included, or have one pair."""
    slices, start = [], 0
    while start < len(source):
        most = start + max(1, budget // int(source[start] + target[start]))
        widest = (np.maximum.accumulate(side[start:most]) for side in (source, target))
        sizes = sum(widest) * np.arange(1, len(source[start:most]) + 1)
        end = start + max(1, int(np.searchsorted(sizes, budget, side="right")))
        slices.append(slice(start, end))
        start = end
    return slices
