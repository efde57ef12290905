"""The report on a corpus: statistics, and findings with their severity and text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np

from seq2see.data.quality.config import RULES, QualityConfig
from seq2see.data.quality.corpus_model import SIDE_NAMES, CorpusStatistics
from seq2see.data.quality.languages import LanguageChecker
from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.words import FloatArray, IntArray
from seq2see.data.readers import SentencePair

_SINGULAR = {"have": "has", "seem": "seems", "are": "is"}


def format_count(count: int, noun: str) -> str:
    """Say how many."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def agree_with_count(text: str, count: int) -> str:
    """Say "has" of one and "have" of more: the verb comes first."""
    verb, space, rest = text.partition(" ")
    return f"{_SINGULAR.get(verb, verb) if count == 1 else verb}{space}{rest}"


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
    def from_values(cls, values: IntArray | FloatArray) -> Self:
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


def _edges(values: IntArray | FloatArray) -> FloatArray:
    """Return round edges for counts, so that no bin holds more of them than its neighbour."""
    highest = float(np.percentile(values, 99.5))
    if values.dtype.kind == "i":
        width = max(1, -(-int(highest + 1) // _BINS))
        return np.arange(0, highest + 1 + width, width, dtype=float)
    return np.linspace(0.0, max(highest, 1e-9), _BINS + 1)


@dataclass(frozen=True, slots=True)
class FindingExample:
    """A pair that a finding is about."""

    line: int
    """Counted from 1."""
    source: str
    """At most 500 characters, and so are the others."""
    target: str
    reason: str

    @classmethod
    def from_pair(cls, line: int, pair: SentencePair, reason: str) -> Self:
        """Show the beginning of a pair."""
        return cls(line, _cut(pair.source), _cut(pair.target), _cut(reason))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True, slots=True)
class CorpusFinding:
    """Something that the doctor noticed."""

    name: str
    """The rule's name where it is one (see `RULES`)."""
    severity: Severity
    count: int
    share: float
    """Of all pairs, or whatever was counted."""
    text: str
    """One line: what it means and what to do."""
    examples: tuple[FindingExample, ...] = ()


@dataclass(frozen=True, slots=True)
class UncoveredCharacters:
    """Characters that a tokenizer has no piece for."""

    num_distinct: int
    """How many different ones."""
    num_occurrences: int
    share: float
    """Of all characters of this side."""
    most_common: tuple[tuple[str, int], ...]
    encoded_as: Literal["bytes", "unknown"]
    """What becomes of them: written as bytes, or lost as `<unk>`."""


@dataclass(frozen=True, slots=True)
class SideReport:
    """What is to say about one side."""

    declared_language: str | None
    """Its language, as the user said."""
    detected_language: str | None
    """The language that most of its lines are in, as far as could be told."""
    words_per_line: Distribution
    """Words a line; in scripts without spaces, characters."""
    characters_per_line: Distribution
    """Characters a line."""
    uncovered_characters: UncoveredCharacters | None
    """What the tokenizer lacks; None if no tokenizer was given."""


@dataclass(frozen=True, slots=True)
class TestSetOverlap:
    """How much of the held-out sets stands in the training text."""

    num_test_pairs: int
    """Pairs that are held out."""
    exact_sources: int
    """Those whose source is in the text, to the letter."""
    matching_sources: int
    """Those whose source is in it but for case, punctuation and spaces."""
    matching_pairs: int
    """Those of which both sides are."""


@dataclass(frozen=True, slots=True)
class ModelSuggestion:
    """What to begin with at this size."""

    preset: Literal["tiny", "small", "base", "big"]
    vocab_size: int
    reason: str


@dataclass(frozen=True, slots=True)
class CorpusReport:
    """The doctor's report on a corpus."""

    num_pairs: int
    num_accepted: int
    """Pairs that cleaning would keep."""
    source: SideReport
    target: SideReport
    length_ratio: Distribution
    """Characters of the target for one of the source, in pairs that have both."""
    findings: tuple[CorpusFinding, ...]
    """The gravest first."""
    shifts: tuple[LineShift, ...]
    overlap: TestSetOverlap | None
    """None if no test set was given."""
    suggestion: ModelSuggestion
    skipped_checks: tuple[str, ...]
    """What could not be looked at, and why."""

    @property
    def is_clean(self) -> bool:
        """There is nothing but notes."""
        return all(finding.severity == "note" for finding in self.findings)

    @property
    def faults(self) -> tuple[CorpusFinding, ...]:
        """What must be mended before training."""
        return tuple(finding for finding in self.findings if finding.severity == "fault")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain lists, dicts, texts and numbers."""
        plain: dict[str, Any] = _plain(dataclasses.asdict(self))
        return {"is_clean": self.is_clean, **plain}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


_CLEAN = "`seq2see data clean` removes"


_ORDER: Sequence[Severity] = ("fault", "warning", "note")


_MEANINGS: Mapping[str, str] = {
    "empty": "have a side without words, which teaches to say nothing",
    "broken_encoding": "have broken characters: read the files in their right encoding, if you can",
    "too_long": "have more than {max_words}, too long to train on",
    "unmatched_markup": "have tags or entities of HTML on one side only",
    "identical": "have the same text on both sides, a sentence or more than {max_identical_words}: "
    "untranslated, which teaches to copy",
    "duplicate": "came before, word for word",
    "in_test_set": "have a source that is held out (of those, {matching_sources:,} of {num_test_pairs:,} "
    "{are} here, {exact_sources:,} to the letter): scores on them would be too good",
    "swapped": "seem to have source and target swapped",
    "wrong_language": "seem to have a side in another language",
    "length_ratio": "have a target much too long or too short for its source",
    "misaligned": "have words that hardly translate each other",
    "number_mismatch": "have numbers on both sides, but none in common: other units and times, or mistakes",
}


_ALWAYS: Mapping[str, Severity] = {
    "shifted": "fault",
    "in_test_set": "warning",
    "number_mismatch": "note",
}


_FATES: Mapping[str, str] = {
    "bytes": "written as bytes, which is slower to learn",
    "unknown": "lost as <unk>: train a tokenizer with byte fallback",
}


_SURE = {"empty", "broken_encoding", "too_long", "swapped"}
"""Even a few of them are worth a warning; the other rules may err, or do little harm."""


def empty_corpus_findings(num_pairs: int) -> Iterator[CorpusFinding]:
    """Yield a finding if there is nothing."""
    if not num_pairs:
        yield CorpusFinding("nothing", "fault", 0, 0.0, "There are no pairs.")


def rule_findings(
    counts: Mapping[str, int],
    examples: Mapping[str, Sequence[FindingExample]],
    num_pairs: int,
    config: QualityConfig,
    overlap: TestSetOverlap | None,
) -> Iterator[CorpusFinding]:
    """Yield a finding for each rule that was broken; shifts have their own."""
    numbers = _numbers(config, overlap)
    for rule in RULES:
        count = counts.get(rule, 0)
        if not count or rule == "shifted":
            continue
        share = count / num_pairs
        meaning = _MEANINGS[rule].format_map(numbers) + _guess(rule, share)
        advice = f"; {_CLEAN} {'them' if count > 1 else 'it'}" if rule in config.clean_rules else ""
        text = f"{_pairs(count, share)} {agree_with_count(meaning, count)}{advice}."
        yield CorpusFinding(rule, _severity(rule, share), count, share, text, tuple(examples[rule]))


def _numbers(config: QualityConfig, overlap: TestSetOverlap | None) -> dict[str, Any]:
    """Return what the meanings speak of."""
    numbers = (
        asdict(overlap) | {"are": agree_with_count("are", overlap.matching_sources)}
        if overlap
        else {}
    )
    limits = ("max_words", "max_identical_words")
    return numbers | {limit: format_count(getattr(config, limit), "word") for limit in limits}


def _guess(rule: str, share: float) -> str:
    """Say what it may be: a few in a thousand are found in any good corpus, sayings among them."""
    if rule not in {"length_ratio", "misaligned"}:
        return ""
    few = _severity(rule, share) == "note"
    return ": translated very freely, or misaligned" if few else ": probably misaligned"


def shift_findings(
    shifts: Sequence[LineShift], examples: Mapping[str, Sequence[FindingExample]], num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding for each shifted region."""
    for shift in shifts:
        count = shift.last_line - shift.first_line + 1
        to = "on" if shift.last_line == num_pairs else f"to line {shift.last_line:,}"
        text = (
            f"From about line {shift.first_line:,} {to}, the target seems to be {shift.description}: "
            "mend the files there before anything else."
        )
        inside = (e for e in examples["shifted"] if shift.first_line <= e.line <= shift.last_line)
        yield CorpusFinding("shifted", "fault", count, count / num_pairs, text, tuple(inside))


def language_findings(checker: LanguageChecker, num_pairs: int) -> Iterator[CorpusFinding]:
    """Yield a finding if a whole side is not what was stated."""
    if checker.is_swapped:
        source, target = (side.declared for side in checker.sides)
        text = f"The source seems to be {target} and the target {source}: give them the other way."
        yield CorpusFinding("sides", "fault", num_pairs, 1.0, text)
        return
    for name, side in zip(SIDE_NAMES, checker.sides, strict=True):
        if side.is_mismatch:
            found = side.detected or f"in {' and '.join(sorted(side.scripts)).lower()} script"
            text = f"Most of the {name} seems to be {found}, but {side.declared} was stated."
            yield CorpusFinding("sides", "fault", num_pairs, 1.0, text)


def unrelated_sides_findings(is_unrelated: bool, num_pairs: int) -> Iterator[CorpusFinding]:
    """Yield a finding if the two sides have nothing to do with each other."""
    if is_unrelated:
        text = (
            "No words of the source seem to go with words of the target: "
            "are these two files translations of each other, line by line?"
        )
        yield CorpusFinding("unrelated", "fault", num_pairs, 1.0, text)


def test_overlap_findings(
    overlap: TestSetOverlap | None, num_in_test_set: int
) -> Iterator[CorpusFinding]:
    """Yield a note on a test set that no pair is counted for: it was looked for."""
    if overlap and not num_in_test_set:
        here = f"{overlap.matching_sources:,} of {format_count(overlap.num_test_pairs, 'held-out source')}"
        text = f"{here} {agree_with_count('are', overlap.matching_sources)} here."
        empty = "Nothing is held out: the test set is empty."
        yield CorpusFinding(
            "in_test_set", "note", 0, 0.0, text if overlap.num_test_pairs else empty
        )


def line_break_findings(
    count: int, examples: Mapping[str, Sequence[FindingExample]], num_pairs: int
) -> Iterator[CorpusFinding]:
    """Yield a finding if lines may have ended where none was seen to end."""
    if count:
        share = count / num_pairs
        have = agree_with_count("have carriage returns inside lines, which end no line here", count)
        text = (
            f"{_pairs(count, share)} {have}: if they were meant to, write the files anew with \\n."
        )
        yield CorpusFinding(
            "line_ends", "warning", count, share, text, tuple(examples["line_ends"])
        )


def repeated_text_findings(
    statistics: CorpusStatistics,
    num_identical: int,
    examples: Mapping[str, Sequence[FindingExample]],
) -> Iterator[CorpusFinding]:
    """Yield notes on pairs that are the same on both sides, and on sources with many targets."""
    if num_identical:
        share = num_identical / statistics.num_pairs
        have = agree_with_count(
            "have the same short text on both sides, as names should", num_identical
        )
        text = f"{_pairs(num_identical, share)} {have}."
        yield CorpusFinding("same", "note", num_identical, share, text, tuple(examples["same"]))
    repeated, most = _many_targets(statistics)
    if repeated:
        text = (
            f"{format_count(repeated, 'source')} {agree_with_count('have', repeated)} several different "
            f"targets, up to {most}: fine for training; whoever splits a test set off keeps all "
            "pairs of a source together."
        )
        yield CorpusFinding("many_targets", "note", repeated, repeated / statistics.num_pairs, text)


def _many_targets(survey: CorpusStatistics) -> tuple[int, int]:
    _, first = np.unique(survey.pair_hashes, return_index=True)
    counts = np.unique(survey.source_hashes[first], return_counts=True)[1]
    return int((counts > 1).sum()), int(counts.max(initial=0))


def uncovered_character_findings(
    sides: Sequence[UncoveredCharacters | None],
) -> Iterator[CorpusFinding]:
    """Yield a finding for each side with characters that its tokenizer lacks."""
    for name, lacking in zip(SIDE_NAMES, sides, strict=True):
        if lacking and lacking.num_distinct:
            shown = " ".join(character for character, _ in lacking.most_common[:10])
            count = lacking.num_distinct
            text = (
                f"{format_count(count, 'character')} of the {name} {agree_with_count('have', count)} no piece "
                f"in its tokenizer ({_percent(lacking.share)} of its text: {shown}); "
                f"{'it is' if count == 1 else 'they are'} {_FATES[lacking.encoded_as]}."
            )
            grave: Severity = "warning" if _is_grave(lacking) else "note"
            yield CorpusFinding("characters", grave, lacking.num_occurrences, lacking.share, text)


def _is_grave(lacking: UncoveredCharacters) -> bool:
    return lacking.share > 0.005 or lacking.encoded_as == "unknown"


def sort_findings(findings: Iterator[CorpusFinding]) -> tuple[CorpusFinding, ...]:
    """Return the gravest first, then the most frequent."""
    return tuple(sorted(findings, key=lambda f: (_ORDER.index(f.severity), -f.count)))


def _severity(rule: str, share: float) -> Severity:
    if rule in _ALWAYS:
        return _ALWAYS[rule]
    if rule in _SURE:
        return "fault" if share >= 0.01 else "warning"
    if share < 0.005:
        return "note"
    return "fault" if share >= 0.05 else "warning"


def _pairs(count: int, share: float) -> str:
    return f"{format_count(count, 'pair')} ({_percent(share)})"


def _percent(share: float) -> str:
    """Write a share so that a small one is not nothing."""
    if 0 < share < 0.0001:
        return "under 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
