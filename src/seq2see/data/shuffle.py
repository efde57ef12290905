"""A shuffle that is computed, not stored.

A permutation of five hundred million lines need not lie in memory: a small cipher over the numbers
below `size` gives the place of each by itself, the same on every machine and with every version of
NumPy. It is a Feistel network over a grid of rows and columns that just holds them all (Black and
Rogaway, 2002); the few places beyond the last number are walked through.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_ROUNDS = 6


class Permutation:
    """A shuffle of the numbers below `size`; another key, another shuffle."""

    def __init__(self, size: int, *key: int) -> None:
        self.size = size
        self._rows = np.uint64(max(1, isqrt(size)))
        self._columns = np.uint64(max(1, -(-size // int(self._rows))))
        self._keys = [_hash_key(*key, number) for number in range(_ROUNDS)]

    def __call__(self, places: Ints) -> Ints:
        """Return the number at each of these places."""
        numbers = self._step(places.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self.size)):
            numbers[outside] = self._step(numbers[outside])
        return numbers.astype(np.int64)

    def _step(self, numbers: Words) -> Words:
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


def _mix(words: Words) -> Words:
    """Scatter the bits, each word by itself: the finaliser of SplitMix64."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def uniform(numbers: Ints, *key: int) -> NDArray[np.float64]:
    """Return a number from [0, 1) for each of these, drawn anew for each key."""
    words = _mix(numbers.astype(np.uint64) ^ _hash_key(*key))
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
