"""The report on a corpus: statistics, and findings with their severity and text."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import numpy as np

from seq2see.data.quality.config import RULES, DoctorConfig
from seq2see.data.quality.corpus_model import SIDES, Survey
from seq2see.data.quality.languages import LanguageCheck
from seq2see.data.quality.line_shifts import Shift
from seq2see.data.quality.words import Floats, Ints
from seq2see.data.readers import Pair

_SINGULAR = {"have": "has", "seem": "seems", "are": "is"}


def counted(count: int, noun: str) -> str:
    """Say how many."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def agreeing(meaning: str, count: int) -> str:
    """Say "has" of one and "have" of more: the verb comes first."""
    verb, space, rest = meaning.partition(" ")
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


_CLEAN = "`seq2see data clean` removes"


_ORDER: Sequence[Severity] = ("fault", "warning", "note")


_MEANINGS: Mapping[str, str] = {
    "empty": "have a side without words, which teaches to say nothing",
    "damaged": "have broken characters: read the files in their right encoding, if you can",
    "too_long": "have more than {max_words}, too long to train on",
    "markup": "have tags or entities of HTML on one side only",
    "identical": "have the same text on both sides, a sentence or more than {identical_words}: "
    "untranslated, which teaches to copy",
    "duplicate": "came before, word for word",
    "held_out": "have a source that is held out (of those, {sources_folded:,} of {held_out:,} "
    "{are} here, {sources:,} to the letter): scores on them would be too good",
    "swapped": "seem to have source and target swapped",
    "language": "seem to have a side in another language",
    "ratio": "have a target much too long or too short for its source",
    "misaligned": "have words that hardly translate each other",
    "numbers": "have numbers on both sides, but none in common: other units and times, or mistakes",
}


_ALWAYS: Mapping[str, Severity] = {
    "shifted": "fault",
    "held_out": "warning",
    "numbers": "note",
}


_FATES: Mapping[str, str] = {
    "bytes": "written as bytes, which is slower to learn",
    "unknown": "lost as <unk>: train a tokenizer with byte fallback",
}


_SURE = {"empty", "damaged", "too_long", "swapped"}
"""Even a few of them are worth a warning; the other rules may err, or do little harm."""


def of_size(pairs: int) -> Iterator[Finding]:
    """Yield a finding if there is nothing."""
    if not pairs:
        yield Finding("nothing", "fault", 0, 0.0, "There are no pairs.")


def of_rules(
    counts: Mapping[str, int],
    examples: Mapping[str, Sequence[Example]],
    pairs: int,
    config: DoctorConfig,
    overlap: Overlap | None,
) -> Iterator[Finding]:
    """Yield a finding for each rule that was broken; shifts have their own."""
    numbers = _numbers(config, overlap)
    for rule in RULES:
        count = counts.get(rule, 0)
        if not count or rule == "shifted":
            continue
        share = count / pairs
        meaning = _MEANINGS[rule].format_map(numbers) + _guess(rule, share)
        advice = f"; {_CLEAN} {'them' if count > 1 else 'it'}" if rule in config.remove else ""
        text = f"{_pairs(count, share)} {agreeing(meaning, count)}{advice}."
        yield Finding(rule, _severity(rule, share), count, share, text, tuple(examples[rule]))


def _numbers(config: DoctorConfig, overlap: Overlap | None) -> dict[str, Any]:
    """Return what the meanings speak of."""
    numbers = asdict(overlap) | {"are": agreeing("are", overlap.sources_folded)} if overlap else {}
    limits = ("max_words", "identical_words")
    return numbers | {limit: counted(getattr(config, limit), "word") for limit in limits}


def _guess(rule: str, share: float) -> str:
    """Say what it may be: a few in a thousand are found in any good corpus, sayings among them."""
    if rule not in {"ratio", "misaligned"}:
        return ""
    few = _severity(rule, share) == "note"
    return ": translated very freely, or misaligned" if few else ": probably misaligned"


def of_shifts(
    shifts: Sequence[Shift], examples: Mapping[str, Sequence[Example]], pairs: int
) -> Iterator[Finding]:
    """Yield a finding for each shifted region."""
    for shift in shifts:
        count = shift.last - shift.first + 1
        to = "on" if shift.last == pairs else f"to line {shift.last:,}"
        text = (
            f"From about line {shift.first:,} {to}, the target seems to be {shift.words}: "
            "mend the files there before anything else."
        )
        inside = (e for e in examples["shifted"] if shift.first <= e.line <= shift.last)
        yield Finding("shifted", "fault", count, count / pairs, text, tuple(inside))


def of_languages(check: LanguageCheck, pairs: int) -> Iterator[Finding]:
    """Yield a finding if a whole side is not what was stated."""
    if check.swapped:
        source, target = (side.stated for side in check.sides)
        text = f"The source seems to be {target} and the target {source}: give them the other way."
        yield Finding("sides", "fault", pairs, 1.0, text)
        return
    for name, side in zip(SIDES, check.sides, strict=True):
        if side.is_other:
            found = side.found or f"in {' and '.join(sorted(side.scripts)).lower()} script"
            text = f"Most of the {name} seems to be {found}, but {side.stated} was stated."
            yield Finding("sides", "fault", pairs, 1.0, text)


def of_lexicon(unrelated: bool, pairs: int) -> Iterator[Finding]:
    """Yield a finding if the two sides have nothing to do with each other."""
    if unrelated:
        text = (
            "No words of the source seem to go with words of the target: "
            "are these two files translations of each other, line by line?"
        )
        yield Finding("unrelated", "fault", pairs, 1.0, text)


def of_overlap(overlap: Overlap | None, broken: int) -> Iterator[Finding]:
    """Yield a note on a test set that no pair is counted for: it was looked for."""
    if overlap and not broken:
        here = f"{overlap.sources_folded:,} of {counted(overlap.held_out, 'held-out source')}"
        text = f"{here} {agreeing('are', overlap.sources_folded)} here."
        empty = "Nothing is held out: the test set is empty."
        yield Finding("held_out", "note", 0, 0.0, text if overlap.held_out else empty)


def of_line_ends(
    count: int, examples: Mapping[str, Sequence[Example]], pairs: int
) -> Iterator[Finding]:
    """Yield a finding if lines may have ended where none was seen to end."""
    if count:
        share = count / pairs
        have = agreeing("have carriage returns inside lines, which end no line here", count)
        text = (
            f"{_pairs(count, share)} {have}: if they were meant to, write the files anew with \\n."
        )
        yield Finding("line_ends", "warning", count, share, text, tuple(examples["line_ends"]))


def of_copies(
    survey: Survey, same: int, examples: Mapping[str, Sequence[Example]]
) -> Iterator[Finding]:
    """Yield notes on pairs that are the same on both sides, and on sources with many targets."""
    if same:
        share = same / survey.pairs
        have = agreeing("have the same short text on both sides, as names should", same)
        text = f"{_pairs(same, share)} {have}."
        yield Finding("same", "note", same, share, text, tuple(examples["same"]))
    repeated, most = _many_targets(survey)
    if repeated:
        text = (
            f"{counted(repeated, 'source')} {agreeing('have', repeated)} several different "
            f"targets, up to {most}: fine for training; whoever splits a test set off keeps all "
            "pairs of a source together."
        )
        yield Finding("many_targets", "note", repeated, repeated / survey.pairs, text)


def _many_targets(survey: Survey) -> tuple[int, int]:
    _, first = np.unique(survey.pair_hashes, return_index=True)
    counts = np.unique(survey.source_hashes[first], return_counts=True)[1]
    return int((counts > 1).sum()), int(counts.max(initial=0))


def of_characters(sides: Sequence[Lacking | None]) -> Iterator[Finding]:
    """Yield a finding for each side with characters that its tokenizer lacks."""
    for name, lacking in zip(SIDES, sides, strict=True):
        if lacking and lacking.characters:
            shown = " ".join(character for character, _ in lacking.commonest[:10])
            count = lacking.characters
            text = (
                f"{counted(count, 'character')} of the {name} {agreeing('have', count)} no piece "
                f"in its tokenizer ({_percent(lacking.share)} of its text: {shown}); "
                f"{'it is' if count == 1 else 'they are'} {_FATES[lacking.fate]}."
            )
            grave: Severity = "warning" if _is_grave(lacking) else "note"
            yield Finding("characters", grave, lacking.occurrences, lacking.share, text)


def _is_grave(lacking: Lacking) -> bool:
    return lacking.share > 0.005 or lacking.fate == "unknown"


def ordered(findings: Iterator[Finding]) -> tuple[Finding, ...]:
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
    return f"{counted(count, 'pair')} ({_percent(share)})"


def _percent(share: float) -> str:
    """Write a share so that a small one is not nothing."""
    if 0 < share < 0.0001:
        return "under 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
