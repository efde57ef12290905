"""Ids of many lines in two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


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
    def concatenate(cls, parts: Sequence[PackedIds]) -> PackedIds:
        """Return the lines of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        ids, lengths = zip(*parts, strict=True)
        return cls(np.concatenate(ids), np.concatenate(lengths))

    def to_lists(self) -> list[list[int]]:
        """Return one list of ids per line."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths)
        starts = (ends - self.lengths).tolist()
        return [ids[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def select(self, mask: NDArray[np.bool_]) -> PackedIds:
        """Return the lines for which the mask is True."""
        if mask.all():
            return self
        return PackedIds(self.ids[np.repeat(mask, self.lengths)], self.lengths[mask])

    def prepend(self, prefix: Sequence[int]) -> PackedIds:
        """Return all lines with these ids in front of each."""
        if not prefix:
            return self
        starts = np.cumsum(self.lengths) - self.lengths
        ids = np.insert(self.ids, np.repeat(starts, len(prefix)), list(prefix) * len(starts))
        return PackedIds(ids, self.lengths + len(prefix))
