"""Analyze a corpus, or filter it, by the same rules; both read it twice."""

from __future__ import annotations

import heapq
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from seq2see.data.quality import report
from seq2see.data.quality.config import DoctorConfig, RuleName
from seq2see.data.quality.corpus_model import Batch, Progress, Standard, Survey, batches, survey
from seq2see.data.quality.languages import EXTRA
from seq2see.data.quality.model_suggestion import suggest
from seq2see.data.quality.report import (
    Distribution,
    Example,
    Finding,
    Lacking,
    Overlap,
    Report,
    SideReport,
    Suggestion,
    agreeing,
    counted,
)
from seq2see.data.quality.rules import Broken, judge
from seq2see.data.quality.words import Bools, fold
from seq2see.data.readers import Pair
from seq2see.text import Tokenizer, Tokenizers


class HeldOut:
    """Pairs of test sets, by their hashes, and which of them were seen."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._given = pairs != ()  # an empty test set is worth a word, none at all is not
        self._rows = [_hashes(pair) for pair in pairs]
        self._wanted = [frozenset(row[kind] for row in self._rows) for kind in range(3)]
        self._seen: list[set[int]] = [set(), set(), set()]
        self.sources = self._wanted[1] - {hash("")}
        """The sources, folded; one that has no words is nobody's."""

    def look_at(self, pairs: Iterable[Pair]) -> None:
        """Remember which of the held-out ones are among these."""
        if self._rows:
            for kind, hashes in enumerate(zip(*map(_hashes, pairs), strict=True)):
                self._seen[kind] |= self._wanted[kind].intersection(hashes)

    def overlap(self) -> Overlap | None:
        """Count the held-out pairs that were seen; None if no test set was given."""
        if not self._given:
            return None
        counts = (sum(row[kind] in self._seen[kind] for row in self._rows) for kind in range(3))
        return Overlap(len(self._rows), *counts)


def _hashes(pair: Pair) -> tuple[int, int, int]:
    source = fold(pair.source)
    return hash(pair.source.strip()), hash(source), hash((source, fold(pair.target)))


_SPACE = "\u2581"


_SHOWN = 20


class Coverage:
    """Counts the characters of one side."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = Counter[str]()

    def look_at(self, lines: Sequence[str]) -> None:
        """Count the characters of these lines, as the tokenizer gets to see them."""
        normal = (line if line.isascii() else self.tokenizer.normalise(line) for line in lines)
        self.counts.update("".join(normal))

    def lacking(self) -> Lacking:
        """Return those without a piece. White space is always written somehow."""
        pieces = set(self.tokenizer.pieces)
        written = {*pieces, _SPACE, *filter(str.isspace, self.counts)}
        lacking = Counter({c: n for c, n in self.counts.items() if c not in written})
        return Lacking(
            characters=len(lacking),
            occurrences=lacking.total(),
            share=lacking.total() / max(self.counts.total(), 1),
            commonest=tuple(lacking.most_common(_SHOWN)),
            fate="bytes" if "<0x00>" in pieces else "unknown",
        )


Languages = tuple[str, str] | None


_LONE_RETURN = re.compile(r"\r(?!\n)")


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
    what most lines are in is taken for right. `held_out` are the pairs of all test sets; `()` says
    that there are none.
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
        self.passes = bytearray()
        """Of each pair, if cleaning would keep it."""
        self._examples: dict[str, list[tuple[float, float, int, Example]]] = {}
        self._random = random.Random(0)  # noqa: S311 not a secret: the same corpus, the same report

    def take(self, batch: Batch, verdicts: list[Broken | None]) -> None:
        """Count a batch."""
        for line, (pair, broken) in enumerate(zip(batch.pairs, verdicts, strict=True), 1):
            self.passes.append(broken is None or broken.rule not in self.config.remove)
            self._look_at(batch.start + line, pair, broken)
        self.tests.look_at(batch.pairs)
        for coverage, lines in zip(self.coverage or (), batch.sides, strict=False):
            coverage.look_at(lines)

    def _look_at(self, line: int, pair: Pair, broken: Broken | None) -> None:
        if broken:
            self._count(broken.rule, line, pair, broken.reason, broken.gravity)
        elif pair.source == pair.target:
            self._count("same", line, pair, "both sides are the same")
        if any("\r" in text and _LONE_RETURN.search(text) for text in pair):
            self._count("line_ends", line, pair, "it has a carriage return inside")

    def _count(self, name: str, line: int, pair: Pair, why: str, gravity: float = 0.0) -> None:
        """Keep the gravest examples; of those that are alike, each is as likely as any other."""
        self.counts[name] += 1
        kept = self._examples.setdefault(name, [])
        example = gravity, self._random.random(), line, Example.of(line, pair, why)
        if len(kept) < self.config.examples:
            heapq.heappush(kept, example)
        elif kept:
            heapq.heappushpop(kept, example)

    @property
    def examples(self) -> dict[str, list[Example]]:
        """By what they are of, the gravest first, else in their order."""
        ordered = {
            name: sorted(kept, key=lambda example: (-example[0], example[2]))
            for name, kept in self._examples.items()
        }
        return {name: [example for *_, example in kept] for name, kept in ordered.items()}


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
    real = (first.characters > 0).all(0)
    return Report(
        pairs=first.pairs,
        passing=sum(notes.passes),
        source=sides[0],
        target=sides[1],
        ratio=Distribution.of(first.characters[1, real] / first.characters[0, real]),
        findings=report.ordered(_findings(first, standard, notes, lacking)),
        shifts=standard.shifts,
        overlap=notes.tests.overlap(),
        suggestion=_suggestion(first, np.frombuffer(notes.passes, np.bool_)),
        unchecked=tuple(_unchecked(first, standard)),
    )


def _suggestion(first: Survey, passes: Bools) -> Suggestion:
    """Suggest by what cleaning would keep."""
    chosen = zip(first.sample, passes[first.sampled], strict=True)
    sample = [pair for pair, keep in chosen if keep]
    return suggest(int(passes.sum()), int(first.words[:, passes].sum()), sample)


def _findings(
    first: Survey, standard: Standard, notes: _Notes, lacking: Sequence[Lacking | None]
) -> Iterator[Finding]:
    counts, examples = notes.counts, notes.examples
    yield from report.of_size(first.pairs)
    yield from report.of_languages(standard.languages, first.pairs)
    yield from report.of_lexicon(standard.unrelated, first.pairs)
    yield from report.of_shifts(standard.shifts, examples, first.pairs)
    if standard.languages.swapped:
        counts = Counter({rule: n for rule, n in counts.items() if rule != "swapped"})
    overlap = notes.tests.overlap()
    yield from report.of_rules(counts, examples, first.pairs, standard.config, overlap)
    yield from report.of_overlap(overlap, counts["held_out"])
    yield from report.of_line_ends(counts["line_ends"], examples, first.pairs)
    same = 0 if standard.languages.is_one else counts["same"]
    yield from report.of_copies(first, same, examples)
    yield from report.of_characters(lacking)


def _unchecked(first: Survey, standard: Standard) -> Iterator[str]:
    if standard.languages.detector is None:
        yield (
            "Languages were checked by scripts and words only: "
            f"`pip install 'seq2see[{EXTRA}]'` finds lines in third languages too."
        )
    for language in standard.languages.unknown:
        yield f"`{language}` is not a language that the detector knows."
    if standard.lexicon is None and not standard.unrelated:
        few = agreeing("are too few to learn which words translate each other", first.pairs)
        yield f"{counted(first.pairs, 'pair')} {few}."
