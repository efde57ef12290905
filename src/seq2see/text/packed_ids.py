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
        if len(parts) == 1:
            return parts[0]
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

    def to_lists(self) -> list[list[int]]:
        """Return one list of ids per line."""
        ids, lines = (
            self.ids.tolist(),
            zip(self.line_starts.tolist(), self.lengths.tolist(), strict=True),
        )
        return [ids[start : start + length] for start, length in lines]

    def select(self, mask: NDArray[np.bool_]) -> PackedIds:
        """Return the lines for which the mask is True."""
        if mask.all():
            return self
        return PackedIds(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def prepend(self, prefix: Sequence[int]) -> PackedIds:
        """Return all lines with these ids in front of each."""
        if not prefix:
            return self
        indices = np.repeat(self.line_starts, len(prefix))
        ids = np.insert(self.ids, indices, list(prefix) * len(self.lengths))
        return PackedIds(ids, self.lengths + len(prefix))


class _WordNumbers(dict[str, int]):
    """Numbers words on first access, and lists them in `new`."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[str] = []

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        self.new.append(word)
        return number


class CachedWordEncoder:
    """Encodes lines word by word, and caches the ids of words.

    Lines must have one space between words, and no piece may contain a space inside. It is
    thread-safe.
    """

    def __init__(self, encode: EncodeFunction) -> None:
        self._encode = encode
        self._lock = Lock()
        self._numbers: _WordNumbers
        self._ids: NDArray[Any]
        """Concatenated ids of all words."""
        self._ends: IntArray
        """End of the ids of each word, with a leading 0."""
        self._clear()

    def __call__(self, lines: Sequence[str], threads: int = 1) -> PackedIds:
        """Return the ids of each line."""
        if not lines:
            return PackedIds.from_lists([])
        with self._lock:
            words = self._encode_words(" ".join(lines).split(" "), threads)
        words_before = np.cumsum([0] + [line.count(" ") + 1 for line in lines[:-1]])
        return PackedIds(words.ids, np.add.reduceat(words.lengths, words_before))

    def _encode_words(self, words: list[str], threads: int) -> PackedIds:
        """Return the ids of each word."""
        if len(self._numbers) > MAX_CACHED_WORDS:
            self._clear()
        numbers = np.fromiter(map(self._numbers.__getitem__, words), np.int64, len(words))
        self._encode_new_words(threads)
        starts = self._ends[numbers]
        return PackedIds.from_slices(self._ids, starts, self._ends[numbers + 1] - starts)

    def _encode_new_words(self, threads: int) -> None:
        """Encode the words that have a number but no ids yet."""
        new, self._numbers.new = self._numbers.new, []
        if not new:
            return
        try:
            encoded = PackedIds.from_lists(self._encode(new, num_threads=threads))
        except (RuntimeError, TypeError):
            self._clear()  # not valid text; the caller reports it
            raise
        self._ids = np.concatenate((self._ids, encoded.ids))
        self._ends = np.concatenate((self._ends, self._ends[-1] + np.cumsum(encoded.lengths)))

    def _clear(self) -> None:
        self._numbers = _WordNumbers()
        self._ids = np.empty(0, np.int64)
        self._ends = np.zeros(1, np.int64)
