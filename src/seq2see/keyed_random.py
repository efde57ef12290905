"""Pseudorandom numbers that are a function of a key, the same on every machine.

Integer keys go through SplitMix64 (Steele, Lea and Flood, 2014), for one key in Python integers or
for an array of keys; texts go through BLAKE2b. The functions combine the parts of a key in
different ways, and stored results depend on each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from random import Random
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

_IntOrArray = TypeVar("_IntOrArray", int, NDArray[Any])

_Item = TypeVar("_Item")

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix_bits(value: _IntOrArray, increment: int = _GOLDEN) -> _IntOrArray:
    """Return one step of SplitMix64 from this state, of an integer or of each value of an array."""
    return _finalize(value + increment & _MASK)


def _finalize(value: _IntOrArray, increment: int = 0) -> _IntOrArray:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 + increment & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    value ^= value >> 31
    return value


def hash_key(*key: int) -> int:
    """Return 64 bits that depend only on the key."""
    state = 0
    for number in key:
        state = mix_bits(state ^ number % 2**64)
    return state


def hash_uniform(numbers: NDArray[np.int64], *key: int) -> NDArray[np.float64]:
    """Return a pseudorandom value in [0, 1) for each number, determined by number and key."""
    values = mix_bits(numbers.astype(np.uint64) ^ np.uint64(hash_key(*key)))
    return (values >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mix_seeds(*seeds: int) -> int:
    """Combine several integers into one 64-bit seed."""
    state = 0
    for seed in seeds:
        state = _finalize((state ^ seed) & _MASK, _GOLDEN)
    return state


def iterate_uniform(key: Sequence[int]) -> Iterator[float]:
    """Yield random numbers from (0, 1] without end; seeding costs little."""
    state = 0
    for part in key:
        state = mix_bits(state + part)
    while True:
        yield ((mix_bits(state) >> 11) + 1) * 2.0**-53
        state = state + _GOLDEN & _MASK


def keyed_uniform(*key: int) -> float:
    """Return a pseudorandom number from [0, 1) that depends only on the key."""
    digest = blake2b(" ".join(map(str, key)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


class ReservoirSample(Generic[_Item]):
    """A uniform sample of a stream, the same for the same stream (Algorithm R)."""

    def __init__(self, max_items: int) -> None:
        self.items: list[_Item] = []
        self._max_items = max_items
        self._num_seen = 0
        self._generator = Random(0)  # noqa: S311 fixed seed, for reproducible samples

    def add(self, item: _Item) -> None:
        """Add the next item of the stream."""
        if self._num_seen < self._max_items:
            self.items.append(item)
        elif (index := self._generator.randrange(self._num_seen + 1)) < self._max_items:
            self.items[index] = item
        self._num_seen += 1


def sample_reservoir(items: Iterable[_Item], max_items: int) -> list[_Item]:
    """Return a uniform sample of the items."""
    sample = ReservoirSample[_Item](max_items)
    for item in items:
        sample.add(item)
    return sample.items


def hash_text(text: str) -> int:
    """Return a signed 64-bit integer that depends only on the text, which may have surrogates."""
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
