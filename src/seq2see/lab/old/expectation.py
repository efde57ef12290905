"""What is expected of a number, and how numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expectation:
    """The range that a number is expected in; the bounds belong to it."""

    low: float = -math.inf
    high: float = math.inf
    centre: float | None = None
    """Where the range is a value and its tolerance."""

    @property
    def tolerance(self) -> float:
        """How far from its centre a value may be; 0 if there is no centre."""
        return 0.0 if self.centre is None else self.high - self.centre

    def met(self, value: float) -> bool:
        """Say whether the number is in the range. NaN never is."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        if self.centre is not None:
            if not self.tolerance:
                return number(self.centre)
            return f"{number(self.centre, self.tolerance)} ± {self.tolerance:.2g}"
        if math.isinf(self.low) and math.isinf(self.high):
            return "—"
        if math.isinf(self.high):
            return f"≥ {number(self.low)}"
        if math.isinf(self.low):
            return f"≤ {number(self.high)}"
        return f"{number(self.low)} … {number(self.high)}"


def near(value: float, tolerance: float) -> Expectation:
    """Expect a value to within a tolerance."""
    return Expectation(value - tolerance, value + tolerance, value)


def equal(value: float) -> Expectation:
    """Expect a value to the last bit: a count, or arithmetic that rounds nothing."""
    return Expectation(value, value, value)


def at_least(value: float) -> Expectation:
    """Expect this or more."""
    return Expectation(low=value)


def at_most(value: float) -> Expectation:
    """Expect this or less."""
    return Expectation(high=value)


def between(low: float, high: float) -> Expectation:
    """Expect a value from one to the other."""
    return Expectation(low, high)


NOTED = Expectation()
"""Any number but NaN: it is shown and not judged, as times are, which depend on the machine."""


def number(value: float, tolerance: float = 0.0) -> str:
    """Write a number: whole ones in full, others with four digits, or as many as are judged."""
    if not math.isfinite(value):
        return str(value).replace("inf", "∞")
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    digits = 6 if 0.99 < abs(value) < 1.01 else 4
    if tolerance:
        digits = min(max(digits, math.ceil(math.log10(abs(value) / tolerance)) + 1), 16)
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e")
