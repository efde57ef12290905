"""What the doctor says: plain numbers, and some pairs to look at."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from seq2see.data.doctor.shifts import Shift
from seq2see.data.doctor.words import Floats, Ints
from seq2see.data.readers import Pair

Severity = Literal["fault", "warning", "note"]
"""`fault`: mend it before training. `warning`: cleaning is worth it. `note`: good to know."""

_QUANTILES = (0, 1, 5, 25, 50, 75, 95, 99, 100)
_BINS = 40
_LONGEST = 500
"""Characters of an example's side."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Many numbers in few."""

    total: float
    mean: float
    quantiles: dict[str, float]
    """By their percentage: "0" is the least, "50" the median, "100" the most."""
    edges: tuple[float, ...]
    """Of the histogram's bins, one more than there are; what is beyond the last is in its bin."""
    counts: tuple[int, ...]

    @classmethod
    def of(cls, values: Ints | Floats) -> Self:
        """Describe these values; the histogram reaches to the 99.5th percentile."""
        if not len(values):
            return cls(0.0, 0.0, {}, (), ())
        quantiles = np.percentile(values, _QUANTILES)
        edges = _edges(values)
        counts, _ = np.histogram(np.minimum(values, edges[-1]), edges)
        return cls(
            total=float(values.sum()),
            mean=float(values.mean()),
            quantiles={f"{q}": float(v) for q, v in zip(_QUANTILES, quantiles, strict=True)},
            edges=tuple(map(float, edges)),
            counts=tuple(map(int, counts)),
        )

    @property
    def median(self) -> float:
        """The one in the middle; 0 if there is none."""
        return self.quantiles.get("50", 0.0)


def _edges(values: Ints | Floats) -> Floats:
    """Return round edges for counts, so that no bin holds more of them than its neighbour."""
    highest = float(np.percentile(values, 99.5))
    if values.dtype.kind == "i":
        width = max(1, -(-int(highest + 1) // _BINS))
        return np.arange(0, highest + 1 + width, width, dtype=float)
    return np.linspace(0.0, max(highest, 1e-9), _BINS + 1)


@dataclass(frozen=True, slots=True)
class Example:
    """A pair that a finding is about."""

    line: int
    """Counted from 1."""
    source: str
    """At most 500 characters, and so are the others."""
    target: str
    why: str

    @classmethod
    def of(cls, line: int, pair: Pair, why: str) -> Self:
        """Show the beginning of a pair."""
        return cls(line, _cut(pair.source), _cut(pair.target), _cut(why))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that the doctor noticed."""

    name: str
    """The rule's name where it is one (see `RULES`)."""
    severity: Severity
    count: int
    share: float
    """Of all pairs, or whatever was counted."""
    text: str
    """One line: what it means and what to do."""
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True)
class Lacking:
    """Characters that a tokenizer has no piece for."""

    characters: int
    """How many different ones."""
    occurrences: int
    share: float
    """Of all characters of this side."""
    commonest: tuple[tuple[str, int], ...]
    fate: Literal["bytes", "unknown"]
    """What becomes of them: written as bytes, or lost as `<unk>`."""


@dataclass(frozen=True, slots=True)
class SideReport:
    """What is to say about one side."""

    stated: str | None
    """Its language, as the user said."""
    found: str | None
    """The language that most of its lines are in, as far as could be told."""
    words: Distribution
    """Words a line; in scripts without spaces, characters."""
    characters: Distribution
    """Characters a line."""
    lacking: Lacking | None
    """What the tokenizer lacks; None if no tokenizer was given."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of the held-out sets stands in the training text."""

    held_out: int
    """Pairs that are held out."""
    sources: int
    """Those whose source is in the text, to the letter."""
    sources_folded: int
    """Those whose source is in it but for case, punctuation and spaces."""
    pairs_folded: int
    """Those of which both sides are."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to begin with at this size."""

    preset: Literal["tiny", "small", "base", "big"]
    vocab_size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The doctor's report on a corpus."""

    pairs: int
    passing: int
    """Pairs that cleaning would keep."""
    source: SideReport
    target: SideReport
    ratio: Distribution
    """Characters of the target for one of the source, in pairs that have both."""
    findings: tuple[Finding, ...]
    """The gravest first."""
    shifts: tuple[Shift, ...]
    overlap: Overlap | None
    """None if no test set was given."""
    suggestion: Suggestion
    unchecked: tuple[str, ...]
    """What could not be looked at, and why."""

    @property
    def healthy(self) -> bool:
        """There is nothing but notes."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What must be mended before training."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain lists, dicts, texts and numbers."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return {"healthy": self.healthy, **plain}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
