"""The report on a corpus: its statistics and findings."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.words_and_word_ids import FloatArray
from seq2see.data.readers import SentencePair
from seq2see.registries import PresetName
from seq2see.text.packed_ids import IntArray

Severity = Literal["fault", "warning", "note"]
"""`fault`: correct it before training. `warning`: clean the corpus. `note`: for information."""

_PERCENTILES = (0, 1, 5, 25, 50, 75, 95, 99, 100)
_NUM_BINS = 40
_MAX_EXAMPLE_LENGTH = 500
"""Maximum number of characters per side of an example."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Sum, mean, percentiles and histogram of a list of numbers."""

    total: float
    mean: float
    quantiles: dict[str, float]
    """By percentage: "0" is the minimum, "50" the median, "100" the maximum."""
    edges: tuple[float, ...]
    """Edges of the histogram's bins, one more than bins; the last bin has all larger values."""
    counts: tuple[int, ...]

    @classmethod
    def from_values(cls, values: IntArray | FloatArray) -> Self:
        """Compute the distribution of values; the histogram ends at the 99.5th percentile."""
        if not len(values):
            return cls(0.0, 0.0, {}, (), ())
        percentiles = np.percentile(values, _PERCENTILES)
        edges = _bin_edges(values)
        counts, _ = np.histogram(np.minimum(values, edges[-1]), edges)
        return cls(
            total=float(values.sum()),
            mean=float(values.mean()),
            quantiles={f"{p}": float(v) for p, v in zip(_PERCENTILES, percentiles, strict=True)},
            edges=tuple(map(float, edges)),
            counts=tuple(map(int, counts)),
        )

    @property
    def median(self) -> float:
        """The median; 0 if there are no values."""
        return self.quantiles.get("50", 0.0)


def _bin_edges(values: IntArray | FloatArray) -> FloatArray:
    """Return bin edges; those of integers are integers, so that all bins cover as many values."""
    highest = float(np.percentile(values, 99.5))
    if values.dtype.kind == "i":
        width = max(1, -(-int(highest + 1) // _NUM_BINS))
        return np.arange(0, highest + 1 + width, width, dtype=float)
    return np.linspace(0.0, max(highest, 1e-9), _NUM_BINS + 1)


@dataclass(frozen=True, slots=True)
class FindingExample:
    """A pair as an example of a finding; each text has at most 500 characters."""

    line: int
    """Counted from 1."""
    source: str
    target: str
    reason: str

    @classmethod
    def from_pair(cls, line: int, pair: SentencePair, reason: str) -> Self:
        """Return an example with truncated texts."""
        return cls(line, _truncate(pair.source), _truncate(pair.target), _truncate(reason))


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_EXAMPLE_LENGTH else f"{text[: _MAX_EXAMPLE_LENGTH - 1]}…"


@dataclass(frozen=True, slots=True)
class CorpusFinding:
    """A fault or property of a corpus, with its number of pairs and examples."""

    name: str
    """The name of the rule if it is one (see `RULES`)."""
    severity: Severity
    count: int
    share: float
    """Fraction of all pairs, or of what is counted."""
    text: str
    """One line: the meaning, and what to do."""
    examples: tuple[FindingExample, ...] = ()


@dataclass(frozen=True, slots=True)
class SideReport:
    """Statistics of one side of a corpus."""

    declared_language: str | None
    """The language that the user specified."""
    detected_language: str | None
    """The language of most lines; None if it was not detected."""
    words_per_line: Distribution
    """In scripts without spaces, each character counts as a word."""
    characters_per_line: Distribution


@dataclass(frozen=True, slots=True)
class TestPairsInCorpusCounts:
    """Number of test pairs whose source occurs in the corpus."""

    num_test_pairs: int
    matching_sources: int
    """Case, punctuation and spaces are ignored."""


@dataclass(frozen=True, slots=True)
class ModelSuggestion:
    """Model preset and vocabulary size that fit the size of a corpus."""

    preset: PresetName
    vocab_size: int
    reason: str


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """The result of the analysis of a corpus."""

    num_pairs: int
    num_accepted: int
    """Number of pairs that cleaning would keep."""
    source: SideReport
    target: SideReport
    length_ratio: Distribution
    """Target characters per source character, of pairs with two non-empty sides."""
    findings: tuple[CorpusFinding, ...]
    """The most severe first."""
    shifts: tuple[LineShift, ...]
    overlap: TestPairsInCorpusCounts | None
    """None if no test set was given."""
    suggestion: ModelSuggestion
    skipped_checks: tuple[str, ...]
    """Checks that were not possible, with the reason."""
    sample: tuple[SentencePair, ...]
    """Evenly sampled pairs, which are not part of the JSON."""

    @property
    def is_clean(self) -> bool:
        """Whether all findings are notes."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def faults(self) -> tuple[CorpusFinding, ...]:
        """Findings that must be corrected before training."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON-compatible dicts, lists, strings and numbers."""
        fields = asdict(replace(self, sample=()))
        del fields["sample"]
        return {"is_clean": self.is_clean, **json.loads(json.dumps(fields))}


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun, for example "1 pair" or "2,000 pairs"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
