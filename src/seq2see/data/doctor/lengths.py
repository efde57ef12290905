"""How long translations are, and which are far too long or too short (Gale and Church, 1993)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from seq2see.data.doctor.words import Floats, Ints

_LEAST_PAIRS = 50
"""Fewer do not tell what is usual."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Bytes of a target for one of the source, as most pairs of a corpus have it."""

    typical: float
    spread: float
    """Of the error over the root of the length: texts are sums of words, so it grows like that."""

    @classmethod
    def learn(cls, source: Ints, target: Ints) -> Self:
        """Learn from the bytes of both sides; half of the pairs may be wrong."""
        if len(source) < _LEAST_PAIRS:
            return cls(1.0, np.inf)
        typical = float(np.exp(np.median(np.log(target / source))))
        errors = cls(typical, 1.0).errors(source, target)
        return cls(typical, max(1.4826 * float(np.median(np.abs(errors))), 0.5))

    def errors(self, source: Ints, target: Ints) -> Floats:
        """Return how much longer than expected each target is, in spreads."""
        expected = target / self.typical
        size = np.sqrt(np.maximum((source + expected) / 2, 1.0))
        return np.asarray((expected - source) / size / self.spread)
