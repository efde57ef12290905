"""Validation and test sets, split off by source sentence.

Lines with the same source, as a reader sees it, stay together: else a model would be asked what it
has learnt by heart. Which source goes where follows from the seed and the sentence itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from seq2see.data.doctor.words import fold
from seq2see.data.readers import Pair
from seq2see.data.shuffle import uniform
from seq2see.data.writers import new_files, write_pair
from seq2see.errors import InputError

Part = Literal["train", "valid", "test"]


PARTS: tuple[Part, ...] = get_args(Part)


class Splitter:
    """Decides for each pair where it belongs."""

    def __init__(self, pairs: Iterable[Pair], valid: int, test: int, seed: int = 1) -> None:
        keys = np.fromiter((_key(pair.source) for pair in pairs), np.int64)
        if valid + test >= len(keys):
            raise InputError(
                f"validation and test sets must leave something to learn from, but {valid} and "
                f"{test} of {len(keys)} pairs would leave nothing"
            )
        sources, counts = np.unique(keys, return_counts=True)
        order = np.argsort(uniform(sources, seed), kind="stable")
        self._parts: dict[int, Part] = {}
        self._choose("valid", sources[order], counts[order], valid)
        self._choose("test", sources[order], counts[order], test)

    def __call__(self, pair: Pair) -> Part:
        """Return where a pair belongs."""
        return self._parts.get(_key(pair.source), "train")

    def _choose(
        self, part: Part, sources: NDArray[np.int64], counts: NDArray[np.int64], wanted: int
    ) -> None:
        """Take sources until their pairs are so many; one that has too many is passed over."""
        left = wanted
        for source, count in _python(sources, counts):
            if left == 0:
                return
            if count <= left and source not in self._parts:
                self._parts[source] = part
                left -= count


def write_split(
    pairs: Iterable[Pair], folder: Path, endings: Sequence[str], choose: Callable[[Pair], Part]
) -> dict[Part, int]:
    """Write `train.en`, `train.de` and so on, each pair where it belongs; return the counts."""
    names = [f"{part}.{ending}" for part in PARTS for ending in endings]
    counts = dict.fromkeys(PARTS, 0)
    with new_files(folder, names) as files:
        pair_of_files = {part: files[2 * i : 2 * i + 2] for i, part in enumerate(PARTS)}
        for pair in pairs:
            part = choose(pair)
            write_pair(pair_of_files[part], pair)
            counts[part] += 1
    return counts


def _python(sources: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    for start in range(0, len(sources), 4096):
        end = start + 4096
        yield from zip(sources[start:end].tolist(), counts[start:end].tolist(), strict=True)


def _key(source: str) -> int:
    text = fold(source) or source.strip()  # nothing but punctuation
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
