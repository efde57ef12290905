"""Ids of many lines in two arrays, and batch encoding of lines with a cache of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
EncodeFunction = Callable[..., list[list[int]]]
"""Encodes words with `num_threads` threads."""
MAX_CACHED_WORDS = 200_000
"""Number of cached words above which the cache is cleared."""
MAX_CACHED_IDS = 2_000_000
"""Number of ids of the cached words above which the cache is cleared: words may be long."""


class PackedIds(NamedTuple):
    """Ids of many lines, concatenated without padding."""

    ids: NDArray[Any]
    lengths: IntArray
    """Number of ids of each line."""

    @classmethod
    def from_lists(cls, lines: Sequence[Sequence[int]]) -> PackedIds:
        """Return the ids of several lists."""
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        return cls(np.fromiter(chain.from_iterable(lines), np.int64, int(lengths.sum())), lengths)

    @classmethod
    def from_slices(cls, ids: NDArray[Any], starts: IntArray, lengths: IntArray) -> PackedIds:
        """Return slices of concatenated ids, given the start and the length of each."""
        before = np.cumsum(lengths) - lengths
        indices = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return cls(ids[indices], lengths)

    @classmethod
    def concatenate(cls, parts: Sequence[PackedIds]) -> PackedIds:
        """Return the lines of all parts, in order."""
        ids, lengths = zip(*parts, strict=True)
        return cls(np.concatenate(ids), np.concatenate(lengths))

    @property
    def line_starts(self) -> IntArray:
        """The index of the first id of each line."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def line_indices(self) -> IntArray:
        """The line of each id."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def take(self, lines: IntArray) -> PackedIds:
        """Return the given lines, in this order."""
        return PackedIds.from_slices(self.ids, self.line_starts[lines], self.lengths[lines])

    def select(self, mask: NDArray[np.bool_]) -> PackedIds:
        """Return the lines for which the mask is True."""
        return PackedIds(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def prepend(self, prefix: Sequence[int]) -> PackedIds:
        """Return all lines with these ids in front of each."""
        indices = np.repeat(self.line_starts, len(prefix))
        ids = np.insert(self.ids, indices, list(prefix) * len(self.lengths))
        return PackedIds(ids, self.lengths + len(prefix))


class CachedWordEncoder:
    """Encodes lines word by word, and caches the ids of words.

    Lines must have one space between words, and no piece may contain a space inside. It is
    thread-safe.
    """

    def __init__(self, encode: EncodeFunction) -> None:
        self._encode = encode
        self._lock = Lock()
        self._ids: dict[str, list[int]] = {}
        self._num_ids = 0

    def __call__(self, lines: Sequence[str], num_threads: int = 1) -> list[list[int]]:
        """Return the ids of each line."""
        words = [line.split(" ") for line in lines]
        with self._lock:
            if len(self._ids) > MAX_CACHED_WORDS or self._num_ids > MAX_CACHED_IDS:
                self._ids.clear()
                self._num_ids = 0
            new = list({*chain.from_iterable(words)}.difference(self._ids))
            if new:
                new_ids = self._encode(new, num_threads=num_threads)
                self._ids.update(zip(new, new_ids, strict=True))
                self._num_ids += sum(map(len, new_ids))
            ids = self._ids.__getitem__
            return [list(chain.from_iterable(map(ids, line))) for line in words]
