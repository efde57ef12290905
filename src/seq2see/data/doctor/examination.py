"""To examine a corpus, and to clean it: two readings each, by the same rules."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from seq2see.data.doctor import findings
from seq2see.data.doctor.config import DoctorConfig, RuleName
from seq2see.data.doctor.corpus import Batch, Progress, batches
from seq2see.data.doctor.coverage import Coverage
from seq2see.data.doctor.languages import EXTRA
from seq2see.data.doctor.overlap import HeldOut
from seq2see.data.doctor.report import (
    Distribution,
    Example,
    Finding,
    Lacking,
    Report,
    SideReport,
)
from seq2see.data.doctor.rules import Broken, judge
from seq2see.data.doctor.standard import Standard
from seq2see.data.doctor.suggestion import suggest
from seq2see.data.doctor.survey import Survey, survey
from seq2see.data.readers import Pair
from seq2see.text import Tokenizers

Languages = tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A pair that passes."""

    line: int
    """Counted from 1."""
    pair: Pair


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pair that does not, and why."""

    line: int
    """Counted from 1."""
    pair: Pair
    rule: RuleName
    reason: str


def examine(
    pairs: Iterable[Pair],
    config: DoctorConfig | None = None,
    languages: Languages = None,
    tokenizers: Tokenizers | None = None,
    held_out: Iterable[Pair] = (),
    progress: Progress | None = None,
) -> Report:
    """Look at a corpus and say what is wrong with it.

    `pairs` is read twice: give a list, a `Corpus`, or anything else that starts anew for each loop.
    Memory holds no text but a sample. `languages` are codes such as ("en", "de"); without them,
    what most lines are in is taken for right. `held_out` are the pairs of all test sets.
    """
    config = config or DoctorConfig()
    first = survey(pairs, config.sample, progress)
    tests = HeldOut(held_out)
    standard = Standard.learn(first, config, languages, tests.sources)
    notes = _Notes(config, tests, tokenizers)
    for batch in batches(pairs, "judging", progress):
        notes.take(batch, judge(batch, standard))
    return _report(first, standard, notes)


def clean(
    pairs: Iterable[Pair],
    config: DoctorConfig | None = None,
    languages: Languages = None,
    held_out: Iterable[Pair] = (),
    progress: Progress | None = None,
) -> Iterator[Kept | Rejection]:
    """Yield each pair in its order, as one that passes or as one that does not.

    The rules are those of `examine`, as far as the config has them in `remove`; see there for the
    arguments. The first verdict comes after one whole reading.
    """
    config = config or DoctorConfig()
    first = survey(pairs, config.sample, progress)
    standard = Standard.learn(first, config, languages, HeldOut(held_out).sources)
    for batch in batches(pairs, "judging", progress):
        verdicts = judge(batch, standard, config.remove)
        for line, (pair, broken) in enumerate(zip(batch.pairs, verdicts, strict=True), 1):
            yield _verdict(batch.start + line, pair, broken)


def _verdict(line: int, pair: Pair, broken: Broken | None) -> Kept | Rejection:
    return Rejection(line, pair, broken.rule, broken.reason) if broken else Kept(line, pair)


class _Notes:
    """What the second reading counts."""

    def __init__(self, config: DoctorConfig, tests: HeldOut, tokenizers: Tokenizers | None) -> None:
        self.config = config
        self.tests = tests
        self.coverage = (
            (Coverage(tokenizers.source), Coverage(tokenizers.target)) if tokenizers else None
        )
        self.counts = Counter[str]()
        self.examples: dict[str, list[Example]] = {}
        self._random = random.Random(0)  # noqa: S311 not a secret: the same corpus, the same report

    def take(self, batch: Batch, verdicts: list[Broken | None]) -> None:
        """Count a batch."""
        for line, (pair, broken) in enumerate(zip(batch.pairs, verdicts, strict=True), 1):
            if broken:
                self._count(broken.rule, batch.start + line, pair, broken.reason)
            elif pair.source == pair.target:
                self._count("same", batch.start + line, pair, "both sides are the same")
        self.tests.look_at(batch.pairs)
        for coverage, lines in zip(self.coverage or (), batch.sides, strict=False):
            coverage.look_at(lines)

    def _count(self, name: str, line: int, pair: Pair, why: str) -> None:
        """Keep some examples from anywhere, each as likely as any other (Algorithm R)."""
        self.counts[name] += 1
        kept = self.examples.setdefault(name, [])
        example = Example(line, pair.source, pair.target, why)
        if len(kept) < self.config.examples:
            kept.append(example)
        elif (place := self._random.randrange(self.counts[name])) < self.config.examples:
            kept[place] = example


def _report(first: Survey, standard: Standard, notes: _Notes) -> Report:
    coverage = notes.coverage
    lacking = [side.lacking() for side in coverage] if coverage else [None, None]
    sides = [
        SideReport(
            stated=standard.languages.sides[side].stated,
            found=standard.languages.sides[side].found,
            words=Distribution.of(first.words[side]),
            characters=Distribution.of(first.characters[side]),
            lacking=lacking[side],
        )
        for side in (0, 1)
    ]
    overlap = notes.tests.overlap()
    passing = first.pairs - sum(notes.counts[rule] for rule in standard.config.remove)
    real = (first.characters > 0).all(0)
    return Report(
        pairs=first.pairs,
        passing=passing,
        source=sides[0],
        target=sides[1],
        ratio=Distribution.of(first.characters[1, real] / first.characters[0, real]),
        findings=findings.ordered(_findings(first, standard, notes, lacking)),
        shifts=standard.shifts,
        overlap=overlap,
        suggestion=suggest(passing, int(first.words.sum()), first.sample),
        unchecked=tuple(_unchecked(first, standard)),
    )


def _findings(
    first: Survey, standard: Standard, notes: _Notes, lacking: Sequence[Lacking | None]
) -> Iterator[Finding]:
    counts, examples = notes.counts, notes.examples
    yield from findings.of_size(first.pairs)
    yield from findings.of_languages(standard.languages, first.pairs)
    yield from findings.of_lexicon(standard.unrelated, first.pairs)
    yield from findings.of_shifts(standard.shifts, examples, first.pairs)
    if standard.languages.swapped:
        counts = Counter({rule: n for rule, n in counts.items() if rule != "swapped"})
    overlap = notes.tests.overlap()
    yield from findings.of_rules(counts, examples, first.pairs, standard.config, overlap)
    yield from findings.of_copies(first, counts["same"], examples)
    yield from findings.of_characters(lacking)


def _unchecked(first: Survey, standard: Standard) -> Iterator[str]:
    if standard.languages.detector is None:
        yield (
            "Languages were checked by scripts and words only: "
            f"`pip install 'seq2see[{EXTRA}]'` finds lines in third languages too."
        )
    for language in standard.languages.unknown:
        yield f"`{language}` is not a language that the detector knows."
    if standard.lexicon is None and not standard.unrelated:
        yield f"{first.pairs:,} pairs are too few to learn which words translate each other."
