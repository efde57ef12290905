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
from seq2see.data.quality.config import QualityConfig, RuleName
from seq2see.data.quality.corpus_model import (
    CorpusModel,
    CorpusStatistics,
    PairChunk,
    StageCallback,
    collect_statistics,
    read_chunks,
)
from seq2see.data.quality.languages import LINGUA_EXTRA
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import (
    CorpusFinding,
    CorpusReport,
    Distribution,
    FindingExample,
    ModelSuggestion,
    SideReport,
    TestSetOverlap,
    UncoveredCharacters,
    agree_with_count,
    format_count,
)
from seq2see.data.quality.rules import RuleViolation, apply_rules
from seq2see.data.quality.words import BoolArray, compute_match_key
from seq2see.data.readers import SentencePair
from seq2see.text import Tokenizer, TokenizerPair


class TestOverlapCounter:
    """Pairs of test sets, by their hashes, and which of them were seen."""

    def __init__(self, pairs: Iterable[SentencePair]) -> None:
        self._given = pairs != ()  # an empty test set is worth a word, none at all is not
        self._rows = [_hashes(pair) for pair in pairs]
        self._wanted = [frozenset(row[kind] for row in self._rows) for kind in range(3)]
        self._seen: list[set[int]] = [set(), set(), set()]
        self.source_hashes = self._wanted[1] - {hash("")}
        """The sources, folded; one that has no words is nobody's."""

    def update(self, pairs: Iterable[SentencePair]) -> None:
        """Remember which of the held-out ones are among these."""
        if self._rows:
            for kind, hashes in enumerate(zip(*map(_hashes, pairs), strict=True)):
                self._seen[kind] |= self._wanted[kind].intersection(hashes)

    def compute_overlap(self) -> TestSetOverlap | None:
        """Count the held-out pairs that were seen; None if no test set was given."""
        if not self._given:
            return None
        counts = (sum(row[kind] in self._seen[kind] for row in self._rows) for kind in range(3))
        return TestSetOverlap(len(self._rows), *counts)


def _hashes(pair: SentencePair) -> tuple[int, int, int]:
    source = compute_match_key(pair.source)
    return hash(pair.source.strip()), hash(source), hash((source, compute_match_key(pair.target)))


_SPACE = "\u2581"


_SHOWN = 20


class CharacterCounter:
    """Counts the characters of one side."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = Counter[str]()

    def update(self, lines: Sequence[str]) -> None:
        """Count the characters of these lines, as the tokenizer gets to see them."""
        normal = (line if line.isascii() else self.tokenizer.normalize(line) for line in lines)
        self.counts.update("".join(normal))

    def find_uncovered(self) -> UncoveredCharacters:
        """Return those without a piece. White space is always written somehow."""
        pieces = set(self.tokenizer.pieces)
        written = {*pieces, _SPACE, *filter(str.isspace, self.counts)}
        lacking = Counter({c: n for c, n in self.counts.items() if c not in written})
        return UncoveredCharacters(
            num_distinct=len(lacking),
            num_occurrences=lacking.total(),
            share=lacking.total() / max(self.counts.total(), 1),
            most_common=tuple(lacking.most_common(_SHOWN)),
            encoded_as="bytes" if "<0x00>" in pieces else "unknown",
        )


LanguagePair = tuple[str, str] | None


_LONE_RETURN = re.compile(r"\r(?!\n)")


@dataclass(frozen=True, slots=True)
class AcceptedPair:
    """A pair that passes."""

    line: int
    """Counted from 1."""
    pair: SentencePair


@dataclass(frozen=True, slots=True)
class RejectedPair:
    """A pair that does not, and why."""

    line: int
    """Counted from 1."""
    pair: SentencePair
    rule: RuleName
    reason: str


def analyze_corpus(
    pairs: Iterable[SentencePair],
    config: QualityConfig | None = None,
    languages: LanguagePair = None,
    tokenizers: TokenizerPair | None = None,
    test_pairs: Iterable[SentencePair] = (),
    on_stage: StageCallback | None = None,
) -> CorpusReport:
    """Look at a corpus and say what is wrong with it.

    `pairs` is read twice: give a list, a `Corpus`, or anything else that starts anew for each loop.
    Memory holds no text but a sample. `languages` are codes such as ("en", "de"); without them,
    what most lines are in is taken for right. `held_out` are the pairs of all test sets; `()` says
    that there are none.
    """
    config = config or QualityConfig()
    first = collect_statistics(pairs, config.max_sample_pairs, on_stage)
    tests = TestOverlapCounter(test_pairs)
    standard = CorpusModel.fit(first, config, languages, tests.source_hashes)
    notes = _Notes(config, tests, tokenizers)
    for batch in read_chunks(pairs, "judging", on_stage):
        notes.take(batch, apply_rules(batch, standard))
    return _report(first, standard, notes)


def filter_corpus(
    pairs: Iterable[SentencePair],
    config: QualityConfig | None = None,
    languages: LanguagePair = None,
    test_pairs: Iterable[SentencePair] = (),
    on_stage: StageCallback | None = None,
) -> Iterator[AcceptedPair | RejectedPair]:
    """Yield each pair in its order, as one that passes or as one that does not.

    The rules are those of `examine`, as far as the config has them in `remove`; see there for the
    arguments. The first verdict comes after one whole reading.
    """
    config = config or QualityConfig()
    first = collect_statistics(pairs, config.max_sample_pairs, on_stage)
    standard = CorpusModel.fit(
        first, config, languages, TestOverlapCounter(test_pairs).source_hashes
    )
    for batch in read_chunks(pairs, "judging", on_stage):
        verdicts = apply_rules(batch, standard, config.clean_rules)
        for line, (pair, broken) in enumerate(zip(batch.pairs, verdicts, strict=True), 1):
            yield _verdict(batch.first_index + line, pair, broken)


def _verdict(
    line: int, pair: SentencePair, broken: RuleViolation | None
) -> AcceptedPair | RejectedPair:
    return (
        RejectedPair(line, pair, broken.rule, broken.reason) if broken else AcceptedPair(line, pair)
    )


class _Notes:
    """What the second reading counts."""

    def __init__(
        self, config: QualityConfig, tests: TestOverlapCounter, tokenizers: TokenizerPair | None
    ) -> None:
        self.config = config
        self.tests = tests
        self.coverage = (
            (CharacterCounter(tokenizers.source), CharacterCounter(tokenizers.target))
            if tokenizers
            else None
        )
        self.counts = Counter[str]()
        self.passes = bytearray()
        """Of each pair, if cleaning would keep it."""
        self._examples: dict[str, list[tuple[float, float, int, FindingExample]]] = {}
        self._random = random.Random(0)  # noqa: S311 not a secret: the same corpus, the same report

    def take(self, batch: PairChunk, verdicts: list[RuleViolation | None]) -> None:
        """Count a batch."""
        for line, (pair, broken) in enumerate(zip(batch.pairs, verdicts, strict=True), 1):
            self.passes.append(broken is None or broken.rule not in self.config.clean_rules)
            self._look_at(batch.first_index + line, pair, broken)
        self.tests.update(batch.pairs)
        for coverage, lines in zip(self.coverage or (), batch.sides, strict=False):
            coverage.update(lines)

    def _look_at(self, line: int, pair: SentencePair, broken: RuleViolation | None) -> None:
        if broken:
            self._count(broken.rule, line, pair, broken.reason, broken.score)
        elif pair.source == pair.target:
            self._count("same", line, pair, "both sides are the same")
        if any("\r" in text and _LONE_RETURN.search(text) for text in pair):
            self._count("line_ends", line, pair, "it has a carriage return inside")

    def _count(
        self, name: str, line: int, pair: SentencePair, why: str, gravity: float = 0.0
    ) -> None:
        """Keep the gravest examples; of those that are alike, each is as likely as any other."""
        self.counts[name] += 1
        kept = self._examples.setdefault(name, [])
        example = gravity, self._random.random(), line, FindingExample.from_pair(line, pair, why)
        if len(kept) < self.config.num_examples:
            heapq.heappush(kept, example)
        elif kept:
            heapq.heappushpop(kept, example)

    @property
    def examples(self) -> dict[str, list[FindingExample]]:
        """By what they are of, the gravest first, else in their order."""
        ordered = {
            name: sorted(kept, key=lambda example: (-example[0], example[2]))
            for name, kept in self._examples.items()
        }
        return {name: [example for *_, example in kept] for name, kept in ordered.items()}


def _report(first: CorpusStatistics, standard: CorpusModel, notes: _Notes) -> CorpusReport:
    coverage = notes.coverage
    lacking = [side.find_uncovered() for side in coverage] if coverage else [None, None]
    sides = [
        SideReport(
            declared_language=standard.languages.sides[side].declared,
            detected_language=standard.languages.sides[side].detected,
            words_per_line=Distribution.from_values(first.word_counts[side]),
            characters_per_line=Distribution.from_values(first.character_counts[side]),
            uncovered_characters=lacking[side],
        )
        for side in (0, 1)
    ]
    real = (first.character_counts > 0).all(0)
    return CorpusReport(
        num_pairs=first.num_pairs,
        num_accepted=sum(notes.passes),
        source=sides[0],
        target=sides[1],
        length_ratio=Distribution.from_values(
            first.character_counts[1, real] / first.character_counts[0, real]
        ),
        findings=report.sort_findings(_findings(first, standard, notes, lacking)),
        shifts=standard.shifts,
        overlap=notes.tests.compute_overlap(),
        suggestion=_suggestion(first, np.frombuffer(notes.passes, np.bool_)),
        skipped_checks=tuple(_unchecked(first, standard)),
    )


def _suggestion(first: CorpusStatistics, passes: BoolArray) -> ModelSuggestion:
    """Suggest by what cleaning would keep."""
    chosen = zip(first.sample, passes[first.sample_indices], strict=True)
    sample = [pair for pair, keep in chosen if keep]
    return suggest_model(int(passes.sum()), int(first.word_counts[:, passes].sum()), sample)


def _findings(
    first: CorpusStatistics,
    standard: CorpusModel,
    notes: _Notes,
    lacking: Sequence[UncoveredCharacters | None],
) -> Iterator[CorpusFinding]:
    counts, examples = notes.counts, notes.examples
    yield from report.empty_corpus_findings(first.num_pairs)
    yield from report.language_findings(standard.languages, first.num_pairs)
    yield from report.unrelated_sides_findings(standard.is_unrelated, first.num_pairs)
    yield from report.shift_findings(standard.shifts, examples, first.num_pairs)
    if standard.languages.is_swapped:
        counts = Counter({rule: n for rule, n in counts.items() if rule != "swapped"})
    overlap = notes.tests.compute_overlap()
    yield from report.rule_findings(counts, examples, first.num_pairs, standard.config, overlap)
    yield from report.test_overlap_findings(overlap, counts["in_test_set"])
    yield from report.line_break_findings(counts["line_ends"], examples, first.num_pairs)
    same = 0 if standard.languages.is_monolingual else counts["same"]
    yield from report.repeated_text_findings(first, same, examples)
    yield from report.uncovered_character_findings(lacking)


def _unchecked(first: CorpusStatistics, standard: CorpusModel) -> Iterator[str]:
    if standard.languages.detector is None:
        yield (
            "Languages were checked by scripts and words only: "
            f"`pip install 'seq2see[{LINGUA_EXTRA}]'` finds lines in third languages too."
        )
    for language in standard.languages.unsupported_languages:
        yield f"`{language}` is not a language that the detector knows."
    if standard.lexicon is None and not standard.is_unrelated:
        few = agree_with_count(
            "are too few to learn which words translate each other", first.num_pairs
        )
        yield f"{format_count(first.num_pairs, 'pair')} {few}."
