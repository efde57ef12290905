"""Find regions where one file is shifted against the other by some lines."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seq2see.data.quality.words import FloatArray, IntArray

_BLOCK = 32
"""Lines that move together at first; a change is then found to the line."""


_SWITCH = 30.0
"""Nats that a change of shift costs."""


_WORST = 4.0
"""Nats that one line can cost: a wild one shall not decide."""


_LEAST_GAIN = 0.3
"""Nats a line by which a shift must be better than none."""


@dataclass(frozen=True, slots=True)
class LineShift:
    """Lines whose translations stand elsewhere."""

    first_line: int
    """Its first line, counted from 1; right to a few lines."""
    last_line: int
    """Its last line."""
    line_offset: int
    """By how many lines the target is late; below 0, early."""

    @property
    def description(self) -> str:
        """Say how far, and where to."""
        count = abs(self.line_offset)
        return f"{count} line{'s' * (count > 1)} {'late' if self.line_offset > 0 else 'early'}"


def find_line_shifts(
    source_bytes: IntArray, target_bytes: IntArray, max_shift: int
) -> tuple[LineShift, ...]:
    """Find shifted regions from the bytes of each line."""
    if len(source_bytes) < 2 * _BLOCK:
        return ()
    lengths = _Lengths(np.log1p(source_bytes), np.log1p(target_bytes), max_shift)
    blocks = np.arange(0, len(source_bytes), _BLOCK)
    offsets = range(-max_shift, max_shift + 1)
    costs = np.array([np.add.reduceat(lengths.costs(offset), blocks) for offset in offsets])
    path = _cheapest(costs) - max_shift
    changes = np.flatnonzero(np.diff(path))
    edges = [0, *(_edge(lengths, path, int(block)) for block in changes), len(source_bytes)]
    regions = zip(pairwise(edges), path[np.r_[0, changes + 1]], strict=True)
    return tuple(
        LineShift(first + 1, end, int(offset))
        for (first, end), offset in regions
        if offset and lengths.gain(int(offset), first, end) > _LEAST_GAIN
    )


class _Lengths:
    """The log lengths of both sides, and how well they fit at any offset."""

    def __init__(self, source: FloatArray, target: FloatArray, furthest: int) -> None:
        self.source = source
        self.furthest = furthest
        self.target = np.pad(target, furthest, constant_values=np.nan)
        self.centre = np.median(target - source)
        # At the right offset the spread is smallest; at others a line is compared with a stranger.
        offsets = range(-furthest, furthest + 1)
        self.spread = max(min(np.nanmedian(np.abs(self._errors(o))) for o in offsets), 0.03) * 1.48

    def costs(self, offset: int, first: int = 0, end: int | None = None) -> FloatArray:
        """Return what each line costs at an offset: half the squared error of its log ratio."""
        costs = np.minimum((self._errors(offset, first, end) / self.spread) ** 2 / 2, _WORST)
        return np.asarray(np.nan_to_num(costs, nan=_WORST))

    def gain(self, offset: int, first: int, end: int) -> float:
        """Return how much cheaper than none an offset is, a line."""
        here = self.costs(0, first, end) - self.costs(offset, first, end)
        return float(here.mean()) if len(here) else 0.0

    def _errors(self, offset: int, first: int = 0, end: int | None = None) -> FloatArray:
        source = self.source[first:end]
        start = first + offset + self.furthest
        return np.asarray(self.target[start : start + len(source)] - source - self.centre)


def _cheapest(costs: FloatArray) -> IntArray:
    """Return the offset of each block on the cheapest way through all of them (Viterbi)."""
    offsets, blocks = costs.shape
    stay = np.arange(offsets)
    came_from = np.empty((blocks, offsets), np.int64)
    total = costs[:, 0] + _SWITCH * (stay != offsets // 2)
    for block in range(1, blocks):
        best = int(total.argmin())
        switched = total > total[best] + _SWITCH
        came_from[block] = np.where(switched, best, stay)
        total = np.where(switched, total[best] + _SWITCH, total) + costs[:, block]
    path = np.empty(blocks, np.int64)
    path[-1] = total.argmin()
    for block in range(blocks - 1, 0, -1):
        path[block - 1] = came_from[block, path[block]]
    return path


def _edge(lengths: _Lengths, path: IntArray, block: int) -> int:
    """Find the line at which it is cheapest to go from one offset to the next."""
    first, end = max(block - 1, 0) * _BLOCK, (block + 3) * _BLOCK
    before, behind = (lengths.costs(int(path[b]), first, end) for b in (block, block + 1))
    return first + int(np.r_[0, np.cumsum(before - behind)].argmin())
