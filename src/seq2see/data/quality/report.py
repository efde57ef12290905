"""The report on a corpus: statistics, and findings with their severity and text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np

from seq2see.data.quality.config import MAX_IDENTICAL_WORDS, RULES, QualityConfig
from seq2see.data.quality.languages import LanguageChecker
from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.statistics_and_models import SIDE_NAMES, PerPairStatistics
from seq2see.data.quality.words_and_word_ids import FloatArray
from seq2see.data.readers import SentencePair
from seq2see.model_presets import PresetName
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
class UncoveredCharacters:
    """Characters that a tokenizer has no piece for."""

    num_distinct: int
    num_occurrences: int
    share: float
    """Fraction of all characters of the side."""
    most_common: tuple[tuple[str, int], ...]
    """Characters with their number of occurrences."""
    encoded_as: Literal["bytes", "unknown"]
    """`bytes`: encoded as bytes. `unknown`: replaced by `<unk>`."""


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
    uncovered_characters: UncoveredCharacters | None
    """None if no tokenizer was given."""


@dataclass(frozen=True, slots=True)
class TestPairsInCorpusCounts:
    """Number of test pairs that occur in the corpus."""

    num_test_pairs: int
    exact_sources: int
    """Test pairs whose source occurs exactly."""
    matching_sources: int
    """Test pairs whose source occurs, ignoring case, punctuation and spaces."""
    matching_pairs: int
    """Test pairs of which both sides occur, ignoring case, punctuation and spaces."""


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
        plain: dict[str, Any] = _to_plain(dataclasses.asdict(self))
        return {"is_clean": self.is_clean, **plain}


def _to_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(inner) for inner in value]
    return value


_SEVERITIES: Sequence[Severity] = ("fault", "warning", "note")
_RULE_TEXTS: Mapping[str, str] = {
    "empty": "one side has no words",
    "broken_encoding": "characters with a wrong encoding; if possible, read the files in the "
    "right encoding",
    "too_long": "more than {max_words} on one side, too long for training",
    "unmatched_markup": "HTML tags or entities on one side only",
    "identical": "the same text on both sides, a sentence or more than {max_identical_words}: "
    "untranslated",
    "duplicate": "exact duplicates of an earlier pair",
    "in_test_set": "the source is in a test set, so scores on it would be too high "
    "({matching_sources:,} of {num_test_pairs:,} test sources match, {exact_sources:,} exactly)",
    "swapped": "source and target seem to be swapped",
    "wrong_language": "one side seems to be in another language",
    "length_ratio": "the target is much too long or too short for its source",
    "misaligned": "the sides are unlikely to be translations of each other",
    "number_mismatch": "numbers on both sides, but none in common: other units and times, or "
    "errors",
}
_FIXED_SEVERITIES: Mapping[str, Severity] = {
    "shifted": "fault",
    "in_test_set": "warning",
    "number_mismatch": "note",
}
_RELIABLE_RULES = {"empty", "broken_encoding", "too_long", "swapped"}
"""A few violations are a warning; the other rules may be wrong, or do little harm."""
_ENCODED_AS_TEXTS: Mapping[str, str] = {
    "bytes": "encoded as bytes, which is harder to learn",
    "unknown": "replaced by <unk>: train a tokenizer with byte fallback",
}


def build_empty_corpus_findings(num_pairs: int) -> Iterator[CorpusFinding]:
    """Yield a finding if the corpus is empty."""
    if not num_pairs:
        yield CorpusFinding("no_pairs", "fault", 0, 0.0, "The corpus has no pairs.")


def build_rule_findings(
    counts: Mapping[str, int],
    examples: Mapping[str, Sequence[FindingExample]],
    num_pairs: int,
    config: QualityConfig,
    overlap: TestPairsInCorpusCounts | None,
) -> Iterator[CorpusFinding]:
    """Yield a finding for each violated rule but `shifted`."""
    values = _text_values(config, overlap)
    for rule in RULES:
        count = counts.get(rule, 0)
        if not count or rule == "shifted":
            continue
        share = count / num_pairs
        meaning = _RULE_TEXTS[rule].format_map(values) + _explain_rule(rule, share)
        pronoun = "it" if count == 1 else "them"
        advice = f" `seq2see data clean` removes {pronoun}." if rule in config.clean_rules else ""
        text = f"{_format_pairs(count, share)}: {meaning}.{advice}"
        severity = _rule_severity(rule, share)
        yield CorpusFinding(rule, severity, count, share, text, tuple(examples[rule]))


def _text_values(config: QualityConfig, overlap: TestPairsInCorpusCounts | None) -> dict[str, Any]:
    """Return the values of the placeholders in `_RULE_TEXTS`."""
    limits = {
        "max_words": format_count(config.max_words, "word"),
        "max_identical_words": format_count(MAX_IDENTICAL_WORDS, "word"),
    }
    return limits | asdict(overlap) if overlap else limits


def _explain_rule(rule: str, share: float) -> str:
    """Return the probable cause; even good corpora have a few such pairs in a thousand."""
    if rule not in {"length_ratio", "misaligned"}:
        return ""
    is_rare = _rule_severity(rule, share) == "note"
    return ": free translations, or misaligned" if is_rare else ": probably misaligned"


def build_line_shift_findings(
    shifts: Sequence[LineShift], examples: Mapping[str, Sequence[FindingExample]], num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding for each shifted region."""
    for shift in shifts:
        count = shift.last_line - shift.first_line + 1
        end = "the end" if shift.last_line == num_pairs else f"line {shift.last_line:,}"
        text = (
            f"From about line {shift.first_line:,} to {end}, the target seems to be "
            f"{shift.description}: correct the files before training."
        )
        shifted = examples.get("shifted", ())  # none if all pairs violate another rule
        inside = (e for e in shifted if shift.first_line <= e.line <= shift.last_line)
        yield CorpusFinding("shifted", "fault", count, count / num_pairs, text, tuple(inside))


def build_side_language_findings(
    checker: LanguageChecker, num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding if most lines of a side are not in the declared language."""
    if checker.is_swapped:
        source, target = (side.declared for side in checker.sides)
        text = f"The source seems to be {target} and the target {source}: swap the two sides."
        yield CorpusFinding("side_language", "fault", num_pairs, 1.0, text)
        return
    for name, side in zip(SIDE_NAMES, checker.sides, strict=True):
        if side.is_mismatch:
            actual = side.detected or f"in {' and '.join(sorted(side.scripts)).lower()} script"
            text = f"Most of the {name} seems to be {actual}, but {side.declared} was declared."
            yield CorpusFinding("side_language", "fault", num_pairs, 1.0, text)


def build_unrelated_corpus_sides_findings(
    is_unrelated: bool, num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding if the sides are not translations of each other."""
    if is_unrelated:
        text = (
            "The words of source and target seem to be unrelated: "
            "check that the files are translations of each other, line by line."
        )
        yield CorpusFinding("unrelated_sides", "fault", num_pairs, 1.0, text)


def build_absent_test_overlap_note(
    overlap: TestPairsInCorpusCounts | None, num_in_test_set: int
) -> Iterator[CorpusFinding]:
    """Yield a note if there is a test set, but no pair violates the rule `in_test_set`."""
    if overlap and not num_in_test_set:
        text = "The test set is empty."
        if overlap.num_test_pairs:
            counts = f"{overlap.matching_sources:,} of {overlap.num_test_pairs:,}"
            text = f"Test sources that are in the corpus: {counts}."
        yield CorpusFinding("in_test_set", "note", 0, 0.0, text)


def build_carriage_return_findings(
    count: int, examples: Mapping[str, Sequence[FindingExample]], num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding if lines contain carriage returns, which may have been line ends."""
    if count:
        share = count / num_pairs
        text = (
            f"{_format_pairs(count, share)}: carriage returns inside lines, which do not end a "
            "line; if they should, convert the files to \\n."
        )
        rows = tuple(examples["carriage_returns"])
        yield CorpusFinding("carriage_returns", "warning", count, share, text, rows)


def build_identical_and_multitarget_findings(
    statistics: PerPairStatistics,
    num_identical: int,
    examples: Mapping[str, Sequence[FindingExample]],
) -> Iterator[CorpusFinding]:
    """Yield notes on short texts that are identical on both sides, and on repeated sources."""
    if num_identical:
        share = num_identical / statistics.num_pairs
        text = (
            f"{_format_pairs(num_identical, share)}: the same short text on both sides, as is "
            "normal for names."
        )
        rows = tuple(examples["identical_short"])
        yield CorpusFinding("identical_short", "note", num_identical, share, text, rows)
    repeated, max_targets = _count_multiple_targets(statistics)
    if repeated:
        text = (
            f"{format_count(repeated, 'source')} with several targets, up to {max_targets}. This "
            "is normal; `seq2see data split` keeps all pairs of a source in one split."
        )
        share = repeated / statistics.num_pairs
        yield CorpusFinding("multiple_targets", "note", repeated, share, text)


def _count_multiple_targets(statistics: PerPairStatistics) -> tuple[int, int]:
    """Return the number of sources with several targets, and the maximum number of targets."""
    _, first = np.unique(statistics.pair_hashes, return_index=True)
    counts = np.unique(statistics.source_hashes[first], return_counts=True)[1]
    return int((counts > 1).sum()), int(counts.max(initial=0))


def build_uncovered_character_findings(
    sides: Sequence[UncoveredCharacters | None],
) -> Iterator[CorpusFinding]:
    """Yield a finding for each side with characters that its tokenizer does not cover."""
    for name, uncovered in zip(SIDE_NAMES, sides, strict=True):
        if uncovered and uncovered.num_distinct:
            shown = " ".join(character for character, _ in uncovered.most_common[:10])
            text = (
                f"{format_count(uncovered.num_distinct, 'character')} of the {name} without a "
                f"piece in its tokenizer ({_format_percent(uncovered.share)} of its text: {shown}),"
                f" {_ENCODED_AS_TEXTS[uncovered.encoded_as]}."
            )
            is_severe = uncovered.share > 0.005 or uncovered.encoded_as == "unknown"
            severity: Severity = "warning" if is_severe else "note"
            count, share = uncovered.num_occurrences, uncovered.share
            yield CorpusFinding("uncovered_characters", severity, count, share, text)


def sort_findings(findings: Iterator[CorpusFinding]) -> tuple[CorpusFinding, ...]:
    """Return findings sorted by severity, then by count, largest first."""
    return tuple(sorted(findings, key=lambda f: (_SEVERITIES.index(f.severity), -f.count)))


def _rule_severity(rule: str, share: float) -> Severity:
    if rule in _FIXED_SEVERITIES:
        return _FIXED_SEVERITIES[rule]
    if rule in _RELIABLE_RULES:
        return "fault" if share >= 0.01 else "warning"
    if share < 0.005:
        return "note"
    return "fault" if share >= 0.05 else "warning"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun, for example "1 pair" or "2,000 pairs"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _format_pairs(count: int, share: float) -> str:
    return f"{format_count(count, 'pair')} ({_format_percent(share)})"


def _format_percent(share: float) -> str:
    """Return a percentage with two significant digits."""
    if 0 < share < 0.0001:
        return "under 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
