"""The first reading: how long each line is, what repeats, and a sample to learn from.

Of all lines only numbers are kept, 64 bytes a pair; text only of the sample.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from seq2see.data.doctor.corpus import Batch, Progress, batches
from seq2see.data.doctor.words import Bools, Ints, size
from seq2see.data.readers import Pair

_BLOCK = 64
"""Lines of the sample that follow each other."""
_LONGEST = 2000
"""Characters of a line that the sample keeps."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first reading found; a row a side where there are two."""

    characters: Ints
    sizes: Ints
    """In bytes."""
    words: Ints
    pair_hashes: Ints
    source_hashes: Ints
    sampled: Ints
    """The places of the sample's pairs."""
    sample: tuple[Pair, ...]

    @property
    def pairs(self) -> int:
        """How many there are."""
        return len(self.pair_hashes)

    @property
    def repeats(self) -> Bools:
        """Tell of each pair if it came before."""
        repeats = np.ones(self.pairs, bool)
        repeats[np.unique(self.pair_hashes, return_index=True)[1]] = False
        return repeats


class _Sample:
    """Blocks of lines: all of them at first, then every second, every fourth …"""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.step = 1
        self.blocks: dict[int, list[Pair]] = {}
        self.size = 0

    def add(self, batch: Batch) -> None:
        """Take what belongs to the sample."""
        for place in range(0, len(batch.pairs), _BLOCK):
            block = (batch.start + place) // _BLOCK
            if block % self.step == 0:
                self.blocks[block] = [_shortened(p) for p in batch.pairs[place : place + _BLOCK]]
                self.size += len(self.blocks[block])
        while self.size > max(self.limit, _BLOCK):
            self._thin()

    def _thin(self) -> None:
        self.step *= 2
        self.blocks = {b: pairs for b, pairs in self.blocks.items() if b % self.step == 0}
        self.size = sum(map(len, self.blocks.values()))

    def places(self) -> Ints:
        """Return where its pairs stand."""
        runs = [np.arange(b * _BLOCK, b * _BLOCK + len(p)) for b, p in self.blocks.items()]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


def survey(pairs: Iterable[Pair], sample_size: int, progress: Progress | None = None) -> Survey:
    """Read all pairs once."""
    lengths = [array("I") for _ in range(6)]
    hashes = array("q"), array("q")
    sample = _Sample(sample_size)
    for batch in batches(pairs, "reading", progress):
        sample.add(batch)
        for side in (0, 1):
            lines = [line.strip() for line in batch.sides[side]]
            lengths[side].extend(map(len, lines))
            lengths[2 + side].extend(map(size, lines))
            lengths[4 + side].extend(map(len, batch.words[side]))
        # Python's own hash differs from run to run, but nothing here outlives the run.
        hashes[0].extend([hash(pair) for pair in batch.pairs])
        hashes[1].extend([hash(pair.source) for pair in batch.pairs])
    rows = np.array([np.asarray(row, np.int64) for row in lengths])
    return Survey(
        characters=rows[:2],
        sizes=rows[2:4],
        words=rows[4:],
        pair_hashes=np.asarray(hashes[0], np.int64),
        source_hashes=np.asarray(hashes[1], np.int64),
        sampled=sample.places(),
        sample=tuple(pair for block in sample.blocks.values() for pair in block),
    )


def _shortened(pair: Pair) -> Pair:
    return Pair(pair.source[:_LONGEST], pair.target[:_LONGEST])
