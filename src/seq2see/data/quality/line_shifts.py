"""Find regions where one file is shifted against the other by some lines.

Long lines have long translations. If the lengths fit better with the target some lines earlier or
later, the files are shifted there. Only lengths are used, so this works even if nearly the whole
corpus is shifted and no lexicon can be trained.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from seq2see.data.quality.words_and_word_ids import FloatArray
from seq2see.text.packed_ids import IntArray

_BLOCK_SIZE = 32
"""Number of lines that share an offset at first; boundaries are then located to the line."""
_SWITCH_COST = 30.0
"""Cost of a change of the offset, in nats."""
_MAX_LINE_COST = 4.0
"""Maximum cost of a line, in nats, so that outliers have little influence."""
_MIN_GAIN = 0.3
"""Minimum mean gain of a shift over no shift, in nats per line."""


@dataclass(frozen=True, slots=True)
class LineShift:
    """A region whose targets are some lines early or late."""

    first_line: int
    """Counted from 1; exact to a few lines."""
    last_line: int
    line_offset: int
    """Number of lines by which the target is late; negative if it is early."""

    @property
    def description(self) -> str:
        """The offset as text, for example "2 lines late"."""
        count = abs(self.line_offset)
        direction = "late" if self.line_offset > 0 else "early"
        return f"{count} line{'s' * (count > 1)} {direction}"


def find_line_shifts(
    source_bytes: IntArray, target_bytes: IntArray, max_shift: int = 5
) -> tuple[LineShift, ...]:
    """Return the regions shifted by up to `max_shift` lines, given line lengths in bytes."""
    if len(source_bytes) < 2 * _BLOCK_SIZE:
        return ()
    lengths = _LengthCosts(np.log1p(source_bytes), np.log1p(target_bytes), max_shift)
    block_starts = np.arange(0, len(source_bytes), _BLOCK_SIZE)
    offsets = range(-max_shift, max_shift + 1)
    costs = np.array([np.add.reduceat(lengths.costs(offset), block_starts) for offset in offsets])
    path = _find_cheapest_path(costs) - max_shift
    changes = np.flatnonzero(np.diff(path))
    boundaries = [_locate_boundary(lengths, path, int(block)) for block in changes]
    edges = [0, *boundaries, len(source_bytes)]
    regions = zip(pairwise(edges), path[np.r_[0, changes + 1]], strict=True)
    return tuple(
        LineShift(first + 1, end, int(offset))
        for (first, end), offset in regions
        if offset and lengths.mean_gain(int(offset), first, end) > _MIN_GAIN
    )


class _LengthCosts:
    """How well the log lengths of both sides fit at each offset."""

    def __init__(self, source: FloatArray, target: FloatArray, max_shift: int) -> None:
        self.source = source
        self.max_shift = max_shift
        self.target = np.pad(target, max_shift, constant_values=np.nan)
        self.center = np.median(target - source)
        # The spread is smallest at the right offset; at others, unrelated lines are compared.
        offsets = range(-max_shift, max_shift + 1)
        spreads = (np.nanmedian(np.abs(self._deviations(offset))) for offset in offsets)
        self.spread = max(min(spreads), 0.03) * 1.48

    def costs(self, offset: int, first: int = 0, end: int | None = None) -> FloatArray:
        """Return the cost of each line: half the squared deviation of its log length ratio."""
        deviations = self._deviations(offset, first, end) / self.spread
        costs = np.minimum(deviations**2 / 2, _MAX_LINE_COST)
        return np.asarray(np.nan_to_num(costs, nan=_MAX_LINE_COST))

    def mean_gain(self, offset: int, first: int, end: int) -> float:
        """Return by how much an offset is cheaper than no offset, in nats per line."""
        gains = self.costs(0, first, end) - self.costs(offset, first, end)
        return float(gains.mean()) if len(gains) else 0.0

    def _deviations(self, offset: int, first: int = 0, end: int | None = None) -> FloatArray:
        source = self.source[first:end]
        start = first + offset + self.max_shift
        return np.asarray(self.target[start : start + len(source)] - source - self.center)


def _find_cheapest_path(costs: FloatArray) -> IntArray:
    """Return the offset of each block on the cheapest path (Viterbi)."""
    num_offsets, num_blocks = costs.shape
    same = np.arange(num_offsets)
    previous = np.empty((num_blocks, num_offsets), np.int64)
    total = costs[:, 0] + _SWITCH_COST * (same != num_offsets // 2)
    for block in range(1, num_blocks):
        best = int(total.argmin())
        switched = total > total[best] + _SWITCH_COST
        previous[block] = np.where(switched, best, same)
        total = np.where(switched, total[best] + _SWITCH_COST, total) + costs[:, block]
    path = np.empty(num_blocks, np.int64)
    path[-1] = total.argmin()
    for block in range(num_blocks - 1, 0, -1):
        path[block - 1] = previous[block, path[block]]
    return path


def _locate_boundary(lengths: _LengthCosts, path: IntArray, block: int) -> int:
    """Return the line at which changing from one offset to the next is cheapest."""
    first, end = max(block - 1, 0) * _BLOCK_SIZE, (block + 3) * _BLOCK_SIZE
    before, after = (lengths.costs(int(path[b]), first, end) for b in (block, block + 1))
    return first + int(np.r_[0, np.cumsum(before - after)].argmin())
