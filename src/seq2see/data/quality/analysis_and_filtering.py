"""Analyze a corpus, or filter it, by the same rules; both read it twice."""

from __future__ import annotations

import heapq
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np

from seq2see.data.quality.build_findings import build_findings
from seq2see.data.quality.config import QualityConfig
from seq2see.data.quality.languages import LINGUA_EXTRA
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.report import (
    CorpusReport,
    Distribution,
    FindingExample,
    SideReport,
    TestPairsInCorpusCounts,
    UncoveredCharacters,
    format_count,
)
from seq2see.data.quality.rules import RuleViolation, find_rule_violations
from seq2see.data.quality.statistics_and_models import (
    CorpusModel,
    PairChunk,
    collect_per_pair_statistics,
    iter_pair_chunks,
)
from seq2see.data.quality.words_and_word_ids import compute_match_key
from seq2see.data.readers import SentencePair
from seq2see.progress_callbacks import StageCallback
from seq2see.text import Tokenizer, TokenizerPair

LanguagePair = tuple[str, str] | None

_LONE_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
_SPACE_PIECE = "\u2581"
_NUM_SHOWN_CHARACTERS = 20


def analyze_corpus(
    pairs: Iterable[SentencePair],
    config: QualityConfig | None = None,
    languages: LanguagePair = None,
    tokenizers: TokenizerPair | None = None,
    test_pairs: Iterable[SentencePair] | None = None,
    on_stage: StageCallback | None = None,
) -> CorpusReport:
    """Return a report on the faults of a corpus.

    Only a sample of the text is held in memory.

    Args:
        pairs: A list, a `Corpus` or another iterable that can be read twice.
        config: Rules and limits. Default: `QualityConfig()`.
        languages: Language codes such as ("en", "de"). Default: the language of most lines.
        tokenizers: Report characters that these tokenizers do not cover.
        test_pairs: The pairs of all test sets; None means that there is none.
        on_stage: Called with the stage ("reading", "checking") and the number of lines done.
    """
    config = config or QualityConfig()
    overlap = OverlapCounter(test_pairs)
    model = _fit_model(pairs, config, languages, overlap, on_stage)
    counter = _FindingCounter(config, overlap, tokenizers)
    for chunk in iter_pair_chunks(pairs, "checking", on_stage):
        counter.update(chunk, find_rule_violations(chunk, model))
    return _build_report(model, counter)


def _fit_model(
    pairs: Iterable[SentencePair],
    config: QualityConfig,
    languages: LanguagePair,
    overlap: OverlapCounter,
    on_stage: StageCallback | None,
) -> CorpusModel:
    """Read the corpus once, and fit the models of the rules to it."""
    statistics = collect_per_pair_statistics(pairs, on_stage)
    return CorpusModel.fit(statistics, config.max_words, languages, overlap.source_hashes)


def accept_or_reject_pairs(
    pairs: Iterable[SentencePair],
    config: QualityConfig | None = None,
    languages: LanguagePair = None,
    test_pairs: Iterable[SentencePair] | None = None,
    on_stage: StageCallback | None = None,
) -> Iterator[tuple[SentencePair, RuleViolation | None]]:
    """Yield each pair in order, with the rule that it violates, or None if it is accepted.

    The rules are those of `analyze_corpus` that are in `config.clean_rules`; the arguments are the
    same too. The first result is yielded after the corpus was read once.
    """
    config = config or QualityConfig()
    model = _fit_model(pairs, config, languages, OverlapCounter(test_pairs), on_stage)
    for chunk in iter_pair_chunks(pairs, "checking", on_stage):
        violations = find_rule_violations(chunk, model, config.clean_rules)
        yield from zip(chunk.sides.iter_pairs(), violations, strict=True)


class OverlapCounter:
    """Counts the pairs of test sets that occur in a corpus."""

    def __init__(self, test_pairs: Iterable[SentencePair] | None) -> None:
        self._rows = None if test_pairs is None else [_hash_pair(*pair) for pair in test_pairs]
        self._hashes = [frozenset(row[kind] for row in self._rows or ()) for kind in range(3)]
        self._seen: list[set[int]] = [set(), set(), set()]
        self.source_hashes = self._hashes[1] - {hash("")}
        """Hashes of the match keys of the sources, without sources that have no words."""

    def update(self, chunk: PairChunk) -> None:
        """Record which test pairs occur among these pairs."""
        if self._rows:
            for kind, hashes in enumerate(zip(*map(_hash_pair, *chunk.sides), strict=True)):
                self._seen[kind] |= self._hashes[kind].intersection(hashes)

    def compute_overlap(self) -> TestPairsInCorpusCounts | None:
        """Return the number of test pairs that occur; None if there is no test set."""
        if self._rows is None:
            return None
        counts = (sum(row[kind] in self._seen[kind] for row in self._rows) for kind in range(3))
        return TestPairsInCorpusCounts(len(self._rows), *counts)


def _hash_pair(source: str, target: str) -> tuple[int, int, int]:
    """Return hashes of the exact source, the source's match key, and both match keys."""
    key = compute_match_key(source)
    return hash(source.strip()), hash(key), hash((key, compute_match_key(target)))


class CharacterCounter:
    """Counts the characters of one side, to find those that a tokenizer does not cover."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = Counter[str]()

    def update(self, lines: Sequence[str]) -> None:
        """Count the characters of lines, as normalized by the tokenizer."""
        normalized = (line if line.isascii() else self.tokenizer.normalize(line) for line in lines)
        self.counts.update("".join(normalized))

    def find_uncovered(self) -> UncoveredCharacters:
        """Return the characters without a piece. White space is always covered."""
        pieces = set(self.tokenizer.pieces)
        covered = {*pieces, _SPACE_PIECE, *filter(str.isspace, self.counts)}
        uncovered = Counter({c: n for c, n in self.counts.items() if c not in covered})
        return UncoveredCharacters(
            num_distinct=len(uncovered),
            num_occurrences=uncovered.total(),
            share=uncovered.total() / max(self.counts.total(), 1),
            most_common=tuple(uncovered.most_common(_NUM_SHOWN_CHARACTERS)),
            encoded_as="bytes" if "<0x00>" in pieces else "unknown",
        )


class _FindingCounter:
    """Counts rule violations and other findings, and collects examples, in the second pass."""

    def __init__(
        self, config: QualityConfig, overlap: OverlapCounter, tokenizers: TokenizerPair | None
    ) -> None:
        self.config = config
        self.overlap = overlap
        both = (tokenizers.source, tokenizers.target) if tokenizers else ()
        self.characters = list(map(CharacterCounter, both))
        """One counter per side; none if no tokenizers are given."""
        self.counts = Counter[str]()
        self.is_accepted = bytearray()
        """For each pair, whether cleaning would keep it."""
        self._examples: dict[str, list[tuple[float, float, int, FindingExample]]] = {}
        self._random = random.Random(0)  # noqa: S311 fixed seed, for reproducible reports

    def update(self, chunk: PairChunk, violations: list[RuleViolation | None]) -> None:
        """Count the pairs of a chunk."""
        rows = zip(chunk.sides.iter_pairs(), violations, strict=True)
        for line, (pair, violation) in enumerate(rows, chunk.first_index + 1):
            removed = violation is not None and violation.rule in self.config.clean_rules
            self.is_accepted.append(not removed)
            self._count_pair(line, pair, violation)
        self.overlap.update(chunk)
        for counter, lines in zip(self.characters, chunk.sides, strict=False):
            counter.update(lines)

    def _count_pair(self, line: int, pair: SentencePair, violation: RuleViolation | None) -> None:
        if violation:
            self._count(violation.rule, line, pair, violation.reason, violation.score)
        elif pair.source == pair.target:
            self._count("identical_short", line, pair, "both sides are identical")
        if any("\r" in text and _LONE_CARRIAGE_RETURN.search(text) for text in pair):
            self._count("carriage_returns", line, pair, "carriage return inside a line")

    def _count(
        self, name: str, line: int, pair: SentencePair, reason: str, score: float = 0.0
    ) -> None:
        """Count a pair, and keep the examples with the highest scores; ties are random."""
        self.counts[name] += 1
        examples = self._examples.setdefault(name, [])
        example = score, self._random.random(), line, FindingExample.from_pair(line, pair, reason)
        heapq.heappush(examples, example)
        if len(examples) > self.config.num_examples:
            heapq.heappop(examples)

    @property
    def examples(self) -> dict[str, list[FindingExample]]:
        """Examples by finding, those with the highest scores first, then by line."""
        return {
            name: [example for *_, example in sorted(rows, key=lambda row: (-row[0], row[2]))]
            for name, rows in self._examples.items()
        }


def _build_report(model: CorpusModel, counter: _FindingCounter) -> CorpusReport:
    statistics = model.statistics
    characters = counter.characters or (None, None)
    uncovered = [side.find_uncovered() if side else None for side in characters]
    sides = [
        SideReport(
            declared_language=model.languages.sides[side].declared,
            detected_language=model.languages.sides[side].detected,
            words_per_line=Distribution.from_values(statistics.word_counts[side]),
            characters_per_line=Distribution.from_values(statistics.character_counts[side]),
            uncovered_characters=uncovered[side],
        )
        for side in (0, 1)
    ]
    source_counts, target_counts = statistics.character_counts
    overlap = counter.overlap.compute_overlap()
    is_accepted = np.frombuffer(counter.is_accepted, np.bool_)
    num_accepted = int(is_accepted.sum())
    num_words = int(statistics.word_counts[:, is_accepted].sum())
    sample = list(compress(statistics.sample, is_accepted[statistics.sample_indices]))
    has_both = (source_counts > 0) & (target_counts > 0)
    return CorpusReport(
        num_pairs=statistics.num_pairs,
        num_accepted=num_accepted,
        source=sides[0],
        target=sides[1],
        length_ratio=Distribution.from_values(target_counts[has_both] / source_counts[has_both]),
        findings=build_findings(
            model, counter.counts, counter.examples, counter.config, overlap, uncovered
        ),
        shifts=model.shifts,
        overlap=overlap,
        suggestion=suggest_model(num_accepted, num_words, sample),
        skipped_checks=tuple(_skipped_checks(model)),
        sample=statistics.sample,
    )


def _skipped_checks(model: CorpusModel) -> Iterator[str]:
    if model.languages.detector is None:
        yield (
            "Languages were checked by scripts and words only: "
            f"`pip install 'seq2see[{LINGUA_EXTRA}]'` also finds lines in third languages."
        )
    for language in model.languages.unsupported_languages:
        yield f"The language detector does not support `{language}`."
    if model.lexicon is None and not model.is_unrelated:
        size = format_count(model.statistics.num_pairs, "pair")
        yield f"Misaligned pairs were not searched: the corpus is too small ({size})."
