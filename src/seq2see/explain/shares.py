"""How often something holds, and whether that may be chance."""

from __future__ import annotations

import math

from seq2see.explain.trace import Record

SURE = 1.96
"""Standard deviations of a 95 % interval."""


class Share(Record):
    """How often something holds, with the 95 % interval that this is sure to."""

    count: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, count: int, of: int, deviations: float = SURE) -> Share:
        """Return the share with Wilson's interval."""
        square = deviations**2
        middle = (count + square / 2) / (of + square)
        half = (
            deviations / (of + square) * math.sqrt(count * (of - count) / of + square / 4)
            if of
            else 0.5
        )
        return cls(count=count, of=of, low=max(0.0, middle - half), high=min(1.0, middle + half))

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.of if self.of else math.nan

    @property
    def beats_chance(self) -> bool:
        """Whether it is more than half, beyond doubt."""
        return self.low > 0.5

    def told(self) -> str:
        """Return it in words."""
        return f"{self.value:.1%} of {self.of} (95 %: {self.low:.1%} to {self.high:.1%})"

    def judged(self) -> str:
        """Return it in words, and say if it may be chance."""
        return self.told() if self.beats_chance else f"{self.told()}, no better than chance"


def deviations(tried: int) -> float:
    """Return how many deviations the best of so many must be away, by Bonferroni's correction."""
    wanted, low, high = 0.05 / (2 * tried), 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        tail = math.erfc(middle / math.sqrt(2)) / 2
        low, high = (middle, high) if tail > wanted else (low, middle)
    return high
