"""Ids of many lines in two arrays, and batch encoding with a cache of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


class PackedIds(NamedTuple):
    """Lines without padding, one behind the other."""

    ids: NDArray[Any]
    lengths: IntArray
    """How many ids each line has."""

    @classmethod
    def from_lists(cls, lines: Sequence[Sequence[int]]) -> PackedIds:
        """Pack lists of ids."""
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        return cls(np.fromiter(chain.from_iterable(lines), np.int64, int(lengths.sum())), lengths)

    @classmethod
    def concatenate(cls, parts: Sequence[PackedIds]) -> PackedIds:
        """Put some behind others."""
        if len(parts) == 1:
            return parts[0]
        ids, lengths = zip(*parts, strict=True)
        return cls(np.concatenate(ids), np.concatenate(lengths))

    def to_lists(self) -> list[list[int]]:
        """Return a list for each line."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths)
        starts = (ends - self.lengths).tolist()
        return [ids[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def select(self, mask: NDArray[np.bool_]) -> PackedIds:
        """Return some of the lines."""
        if mask.all():
            return self
        return PackedIds(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def prepend(self, prefix: Sequence[int]) -> PackedIds:
        """Return each line with these ids in front."""
        if not prefix:
            return self
        starts = np.cumsum(self.lengths) - self.lengths
        ids = np.insert(self.ids, np.repeat(starts, len(prefix)), list(prefix) * len(starts))
        return PackedIds(ids, self.lengths + len(prefix))


_Ints = NDArray[np.int64]


EncodeFunction = Callable[..., list[list[int]]]
"""Of words, on `num_threads`."""


MAX_CACHED_WORDS = 200_000
"""Words that are remembered, before all are forgotten."""


class _Numbers(dict[str, int]):
    """Gives each word a number when it is first asked for, and notes it as new."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        self.new.append(word)
        return number


class CachedWordEncoder:
    """Encodes lines with one space between words, where no piece reaches across a space."""

    def __init__(self, encode: EncodeFunction) -> None:
        self._encode = encode
        self._lock = Lock()
        self._numbers: _Numbers
        self._ids: NDArray[Any]
        """Of each word, one behind the other."""
        self._ends: _Ints
        """Where those of each word end; 0 first."""
        self._forget()

    def __call__(self, lines: Sequence[str], threads: int = 1) -> PackedIds:
        """Return the ids of all lines."""
        if not lines:
            return PackedIds.from_lists([])
        with self._lock:
            pieces = self._pieces(" ".join(lines).split(" "), threads)
        words_before = np.cumsum([0] + [line.count(" ") + 1 for line in lines[:-1]])
        return PackedIds(pieces.ids, np.add.reduceat(pieces.lengths, words_before))

    def _pieces(self, words: list[str], threads: int) -> PackedIds:
        """Return the ids of each word."""
        if len(self._numbers) > MAX_CACHED_WORDS:
            self._forget()
        number = np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))
        self._learn(threads)
        starts = self._ends[number]
        lengths = self._ends[number + 1] - starts
        before = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return PackedIds(self._ids[places], lengths)

    def _learn(self, threads: int) -> None:
        """Encode the words that have a number, but no ids yet."""
        new, self._numbers.new = self._numbers.new, []
        if not new:
            return
        try:
            found = PackedIds.from_lists(self._encode(new, num_threads=threads))
        except (RuntimeError, TypeError):
            self._forget()  # no text: whoever asked will say so
            raise
        self._ids = np.concatenate((self._ids, found.ids))
        self._ends = np.concatenate((self._ends, self._ends[-1] + np.cumsum(found.lengths)))

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._ids = np.empty(0, np.int64)
        self._ends = np.zeros(1, np.int64)
