"""Lines to ids by way of their words: most of a text is made of few words, and each is cut once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2see.text.packed import Packed

Ints = NDArray[np.int64]
Encode = Callable[[list[str]], list[list[int]]]

MOST = 200_000
"""Words that are remembered, before all are forgotten."""


class _Table(NamedTuple):
    """What is known: each word's number, and by that where its ids are. It only grows."""

    numbers: dict[str, int]
    ids: Ints
    ends: Ints
    """0 first."""


class WordEncoder:
    """Encodes lines with one space between words, where no piece reaches across a space."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._lock = Lock()
        self._table = _empty()

    def __call__(self, lines: Sequence[str]) -> Packed:
        """Return the ids of all lines."""
        if not lines:
            return Packed.of([])
        words = " ".join(lines).split(" ")
        numbers, ids, ends = self._with(words)
        number = np.fromiter(map(numbers.__getitem__, words), np.int64, len(words))
        starts = ends[number]
        lengths = ends[number + 1] - starts
        before = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        words_before = np.cumsum([0] + [line.count(" ") + 1 for line in lines[:-1]])
        return Packed(ids[places], np.add.reduceat(lengths, words_before))

    def _with(self, words: list[str]) -> _Table:
        """Return a table that has these words."""
        with self._lock:
            known = self._table if len(self._table.numbers) < MOST else _empty()
            new = list(set(words).difference(known.numbers))
            if new:
                found = self._encode(new)
                ends = known.ends[-1] + np.cumsum([len(ids) for ids in found])
                first = len(known.numbers)
                known.numbers.update({word: first + i for i, word in enumerate(new)})
                ids = Packed.of(found).ids
                known = _Table(
                    known.numbers,
                    np.concatenate((known.ids, ids)),
                    np.concatenate((known.ends, ends)),
                )
            self._table = known
            return known


def _empty() -> _Table:
    return _Table({}, np.empty(0, np.int64), np.zeros(1, np.int64))
