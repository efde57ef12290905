"""Many lines of ids in two arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Packed(NamedTuple):
    """Lines without padding, one behind the other."""

    ids: NDArray[Any]
    lengths: Ints
    """How many ids each line has."""

    @classmethod
    def of(cls, lines: Sequence[Sequence[int]]) -> Packed:
        """Pack lists of ids."""
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        return cls(np.fromiter(chain.from_iterable(lines), np.int64, int(lengths.sum())), lengths)

    @classmethod
    def joined(cls, parts: Sequence[Packed]) -> Packed:
        """Put some behind others."""
        if len(parts) == 1:
            return parts[0]
        ids, lengths = zip(*parts, strict=True)
        return cls(np.concatenate(ids), np.concatenate(lengths))

    def rows(self) -> list[list[int]]:
        """Return a list for each line."""
        ids, ends = self.ids.tolist(), np.cumsum(self.lengths)
        starts = (ends - self.lengths).tolist()
        return [ids[start:end] for start, end in zip(starts, ends.tolist(), strict=True)]

    def only(self, chosen: NDArray[np.bool_]) -> Packed:
        """Return some of the lines."""
        if chosen.all():
            return self
        return Packed(self.ids[np.repeat(chosen, self.lengths)], self.lengths[chosen])

    def prefixed(self, prefix: Sequence[int]) -> Packed:
        """Return each line with these ids in front."""
        if not prefix:
            return self
        starts = np.cumsum(self.lengths) - self.lengths
        ids = np.insert(self.ids, np.repeat(starts, len(prefix)), list(prefix) * len(starts))
        return Packed(ids, self.lengths + len(prefix))
