"""Analyze a corpus, or filter it, by the same rules; both read it twice."""

from __future__ import annotations

import heapq
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import compress

import numpy as np

from seq2see.data.quality.languages import LINGUA_EXTRA, LanguageChecker
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.realignment import realign_pairs
from seq2see.data.quality.report import (
    CorpusFinding,
    CorpusReport,
    Distribution,
    FindingExample,
    Severity,
    SideReport,
    TestPairsInCorpusCounts,
    format_count,
)
from seq2see.data.quality.rules import (
    MAX_IDENTICAL_WORDS,
    RULES,
    QualityConfig,
    RuleName,
    RuleViolation,
    find_rule_violations,
)
from seq2see.data.quality.statistics_and_models import (
    SIDE_NAMES,
    CorpusModel,
    collect_per_pair_statistics,
    iter_numbered_blocks,
)
from seq2see.data.quality.words_and_word_ids import compute_match_key
from seq2see.data.readers import SentencePair
from seq2see.progress_callbacks import MessageCallback, StageCallback
from seq2see.text import Tokenizer, TokenizerPair

LanguagePair = tuple[str, str] | None
_SEVERITIES: Sequence[Severity] = ("fault", "warning", "note")
_TEXTS: Mapping[str, str] = {
    "empty": "one side has no words",
    "header": "names of columns instead of a sentence and its translation",
    "broken_encoding": "characters with a wrong encoding; if possible, read the files in the "
    "right encoding",
    "too_long": "more than {max_words} on one side, too long for training",
    "unmatched_markup": "HTML tags or entities on one side only",
    "identical": "the same text on both sides, a sentence or more than {max_identical_words}: "
    "untranslated",
    "duplicate": "exact duplicates of an earlier pair",
    "in_test_set": "the source is in a test set, so scores on it would be too high "
    "({matching_sources:,} of {num_test_pairs:,} test sources match)",
    "swapped": "source and target seem to be swapped",
    "wrong_language": "one side seems to be in another language",
    "length_ratio": "the target is much too long or too short for its source: {cause}",
    "misaligned": "the sides are unlikely to be translations of each other: {cause}",
    "leftover_quotes": "quotation marks of a table in the text: read it with --format csv, or "
    "remove them",
    "number_mismatch": "numbers on both sides, but none in common: other units and times, or "
    "errors",
    "carriage_returns": "carriage returns inside lines, which do not end a line; if they should, "
    "convert the files to \\n",
}
"""Texts of findings that are counts of pairs; `shifted` has one finding per region instead."""
_FIXED_SEVERITIES: Mapping[str, Severity] = {
    "in_test_set": "warning",
    "leftover_quotes": "warning",
    "number_mismatch": "note",
    "carriage_returns": "warning",
}
_RELIABLE_RULES = {"empty", "header", "broken_encoding", "too_long", "swapped"}
"""A few violations are a warning; the other rules may be wrong, or do little harm."""
_LONE_CARRIAGE_RETURN = re.compile(r"\r(?!\n)")
_SPACE_PIECE = "\u2581"


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
    statistics = collect_per_pair_statistics(pairs, on_stage)
    model = CorpusModel(statistics, config.max_words, languages, overlap.source_hashes)
    counter = FindingCounter(config)
    both = (tokenizers.source, tokenizers.target) if tokenizers else ()
    characters = [CharacterCounter(tokenizer) for tokenizer in both]
    for pair, violation in _check_pairs(pairs, model, RULES, on_stage):
        counter.add(pair, violation)
        overlap.add(pair)
        for side, text in zip(characters, pair, strict=False):
            side.add(text)
    return _build_report(model, counter, overlap.compute_overlap(), characters)


def _check_pairs(
    pairs: Iterable[SentencePair],
    model: CorpusModel,
    rules: Sequence[RuleName],
    on_stage: StageCallback | None,
) -> Iterator[tuple[SentencePair, RuleViolation | None]]:
    """Yield each pair with the first of the rules that it violates, or None."""
    for first_index, block in iter_numbered_blocks(pairs, "checking", on_stage):
        violations = find_rule_violations(first_index, block, model, rules)
        yield from zip(block, violations, strict=True)


def accept_or_reject_pairs(
    pairs: Iterable[SentencePair],
    config: QualityConfig | None = None,
    languages: LanguagePair = None,
    test_pairs: Iterable[SentencePair] | None = None,
    on_stage: StageCallback | None = None,
    on_message: MessageCallback = lambda _: None,
) -> Iterator[tuple[SentencePair, RuleViolation | None]]:
    """Yield each pair in order, with the rule that it violates, or None if it is accepted.

    The rules are those of `analyze_corpus` that are in `config.clean_rules`; the arguments are the
    same too. Regions that are shifted by some lines are realigned before their pairs are checked;
    `on_message` is called with a line for each. The first result is yielded after the corpus was
    read once, or four times to realign it.
    """
    config = config or QualityConfig()
    statistics = collect_per_pair_statistics(pairs, on_stage)
    test_source_hashes = OverlapCounter(test_pairs).source_hashes
    model = CorpusModel(statistics, config.max_words, languages, test_source_hashes)
    for shift in model.shifts:
        lines = f"lines {shift.first_line:,} to {shift.last_line:,}"
        on_message(f"realigned about {lines}, where the target was {shift.description}")
    if realigned := realign_pairs(pairs, model):
        pairs, unmatched = realigned, realigned.unmatched
        statistics = collect_per_pair_statistics(pairs, on_stage)
        model = CorpusModel(statistics, config.max_words, languages, test_source_hashes, unmatched)
    yield from _check_pairs(pairs, model, config.clean_rules, on_stage)


class OverlapCounter:
    """Counts the sources of test sets that occur in a corpus, by their match keys."""

    def __init__(self, test_pairs: Iterable[SentencePair] | None) -> None:
        self._hashes = None if test_pairs is None else list(map(_hash_source, test_pairs))
        self._seen = set[int]()
        self.source_hashes = frozenset(self._hashes or ()) - {hash("")}
        """Hashes of the match keys of the sources, without sources that have no words."""

    def add(self, pair: SentencePair) -> None:
        """Record which test sources match that of a pair of the corpus."""
        if self.source_hashes:
            self._seen |= self.source_hashes & {_hash_source(pair)}

    def compute_overlap(self) -> TestPairsInCorpusCounts | None:
        """Return the number of test sources that occur; None if there is no test set."""
        if self._hashes is None:
            return None
        num_matching = sum(one in self._seen for one in self._hashes)
        return TestPairsInCorpusCounts(len(self._hashes), num_matching)


def _hash_source(pair: SentencePair) -> int:
    return hash(compute_match_key(pair.source))


def _build_report(
    model: CorpusModel,
    counter: FindingCounter,
    overlap: TestPairsInCorpusCounts | None,
    characters: Sequence[CharacterCounter],
) -> CorpusReport:
    statistics = model.statistics
    sides = [
        SideReport(
            declared_language=model.languages.sides[side].declared,
            detected_language=model.languages.sides[side].detected,
            words_per_line=Distribution.from_values(statistics.word_counts[side]),
            characters_per_line=Distribution.from_values(statistics.character_counts[side]),
        )
        for side in (0, 1)
    ]
    source_counts, target_counts = statistics.character_counts
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
        findings=build_findings(model, counter, overlap, characters),
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


class FindingCounter:
    """Counts rule violations and other findings, and collects examples."""

    def __init__(self, config: QualityConfig) -> None:
        self.config = config
        self.counts = Counter[str]()
        """Number of pairs by rule, or by `carriage_returns`."""
        self.is_accepted = bytearray()
        """For each pair, whether cleaning would keep it."""
        self._examples: dict[str, list[tuple[float, float, FindingExample]]] = defaultdict(list)
        self._random = random.Random(0)  # noqa: S311 fixed seed, for reproducible reports

    def add(self, pair: SentencePair, violation: RuleViolation | None) -> None:
        """Count the next pair of the corpus, with the rule that it violates."""
        removed = violation is not None and violation.rule in self.config.clean_rules
        self.is_accepted.append(not removed)
        if violation:
            self._count(violation.rule, pair, violation.reason, violation.score)
        if any("\r" in text and _LONE_CARRIAGE_RETURN.search(text) for text in pair):
            self._count("carriage_returns", pair, "carriage return inside a line")

    def _count(self, name: str, pair: SentencePair, reason: str, score: float = 0.0) -> None:
        """Count a pair, and keep the examples with the highest scores; ties are random."""
        self.counts[name] += 1
        example = FindingExample.from_pair(len(self.is_accepted), pair, reason)
        examples = self._examples[name]
        heapq.heappush(examples, (score, self._random.random(), example))
        if len(examples) > self.config.num_examples:
            heapq.heappop(examples)

    def examples(self, name: str) -> list[FindingExample]:
        """Return the examples of a finding, those with the highest scores first, then by line."""
        rows = sorted(self._examples[name], key=lambda row: (-row[0], row[-1].line))
        return [example for *_, example in rows]


class CharacterCounter:
    """Counts the characters of one side, to find those that a tokenizer does not cover."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts = Counter[str]()

    def add(self, text: str) -> None:
        """Count the characters of a text, as normalized by the tokenizer."""
        self.counts.update(text if text.isascii() else self.tokenizer.normalize(text))

    def find_uncovered(self) -> Counter[str]:
        """Return the characters without a piece. White space is always covered."""
        covered = {*self.tokenizer.pieces, _SPACE_PIECE, *filter(str.isspace, self.counts)}
        return Counter({c: n for c, n in self.counts.items() if c not in covered})


def build_findings(
    model: CorpusModel,
    counter: FindingCounter,
    overlap: TestPairsInCorpusCounts | None,
    characters: Sequence[CharacterCounter],
) -> tuple[CorpusFinding, ...]:
    """Return the findings sorted by severity, then by count, largest first.

    Args:
        model: statistics of the corpus, and the models that are fitted to it
        counter: number of pairs that violate a rule, and examples
        overlap: number of test pairs in the corpus; None if there is no test set
        characters: characters of each side; empty without tokenizers
    """
    findings = [
        *_find_faults_of_all_pairs(model),
        *_find_shifts(model, counter),
        *_find_pairs(model, counter, overlap),
        *_find_no_overlap(counter, overlap),
        *_find_uncovered_characters(characters),
    ]
    return tuple(sorted(findings, key=lambda f: (_SEVERITIES.index(f.severity), -f.count)))


def _find_faults_of_all_pairs(model: CorpusModel) -> Iterator[CorpusFinding]:
    num_pairs = model.statistics.num_pairs
    if not num_pairs:
        yield CorpusFinding("no_pairs", "fault", 0, 0.0, "The corpus has no pairs.")
    for text in _describe_side_languages(model.languages):
        yield CorpusFinding("side_language", "fault", num_pairs, 1.0, text)
    if model.is_unrelated:
        text = (
            "The words of source and target seem to be unrelated: "
            "check that the files are translations of each other, line by line."
        )
        yield CorpusFinding("unrelated_sides", "fault", num_pairs, 1.0, text)


def _describe_side_languages(checker: LanguageChecker) -> Iterator[str]:
    """Yield a text for each side in another language than declared, or one for swapped sides."""
    if checker.is_swapped:
        source, target = (side.declared for side in checker.sides)
        yield f"The source seems to be {target} and the target {source}: swap the two sides."
        return
    for name, side in zip(SIDE_NAMES, checker.sides, strict=True):
        if side.is_mismatch:
            actual = side.detected or f"in {' and '.join(sorted(side.scripts)).lower()} script"
            yield f"Most of the {name} seems to be {actual}, but {side.declared} was declared."


def _find_shifts(model: CorpusModel, counter: FindingCounter) -> Iterator[CorpusFinding]:
    num_pairs = model.statistics.num_pairs
    for shift in model.shifts:
        count = shift.last_line - shift.first_line + 1
        end = "the end" if shift.last_line == num_pairs else f"line {shift.last_line:,}"
        text = (
            f"From about line {shift.first_line:,} to {end}, the target seems to be "
            f"{shift.description}: `seq2see data clean` realigns it."
        )
        shifted = counter.examples("shifted")  # none if all pairs violate another rule
        inside = (e for e in shifted if shift.first_line <= e.line <= shift.last_line)
        yield CorpusFinding("shifted", "fault", count, count / num_pairs, text, tuple(inside))


def _find_pairs(
    model: CorpusModel, counter: FindingCounter, overlap: TestPairsInCorpusCounts | None
) -> Iterator[CorpusFinding]:
    """Yield a finding for each violated rule, and for other pairs that are counted."""
    values = {
        "max_words": format_count(counter.config.max_words, "word"),
        "max_identical_words": format_count(MAX_IDENTICAL_WORDS, "word"),
        **(asdict(overlap) if overlap else {}),
    }
    ignored = "swapped" if model.languages.is_swapped else None  # a fault of all pairs
    for name, template in _TEXTS.items():
        if (count := counter.counts[name]) and name != ignored:
            share = count / model.statistics.num_pairs
            severity = _compute_severity(name, share)
            # even good corpora have a few such pairs in a thousand
            is_note = severity == "note"
            cause = "free translations, or misaligned" if is_note else "probably misaligned"
            meaning = template.format_map({**values, "cause": cause})
            pronoun = "it" if count == 1 else "them"
            text = f"{format_count(count, 'pair')} ({_format_percent(share)}): {meaning}."
            if name in counter.config.clean_rules:
                text += f" `seq2see data clean` removes {pronoun}."
            yield CorpusFinding(name, severity, count, share, text, tuple(counter.examples(name)))


def _compute_severity(name: str, share: float) -> Severity:
    if name in _FIXED_SEVERITIES:
        return _FIXED_SEVERITIES[name]
    if name in _RELIABLE_RULES:
        return "fault" if share >= 0.01 else "warning"
    if share < 0.005:
        return "note"
    return "fault" if share >= 0.05 else "warning"


def _find_no_overlap(
    counter: FindingCounter, overlap: TestPairsInCorpusCounts | None
) -> Iterator[CorpusFinding]:
    """Yield a note if there is a test set, but no pair is in it."""
    if overlap and not counter.counts["in_test_set"]:
        text = "The test set is empty."
        if overlap.num_test_pairs:
            ratio = f"{overlap.matching_sources:,} of {overlap.num_test_pairs:,}"
            text = f"Test sources that are in the corpus: {ratio}."
        yield CorpusFinding("in_test_set", "note", 0, 0.0, text)


def _find_uncovered_characters(sides: Sequence[CharacterCounter]) -> Iterator[CorpusFinding]:
    for name, side in zip(SIDE_NAMES, sides, strict=False):
        if uncovered := side.find_uncovered():
            share = uncovered.total() / side.counts.total()
            shown = " ".join(character for character, _ in uncovered.most_common(10))
            has_bytes = bool(side.tokenizer.byte_ids)
            effect = "encoded as bytes, which is harder to learn"
            if not has_bytes:
                effect = "replaced by <unk>: train a tokenizer with byte fallback"
            text = (
                f"{format_count(len(uncovered), 'character')} of the {name} without a piece in its "
                f"tokenizer ({_format_percent(share)} of its text: {shown}), {effect}."
            )
            severity: Severity = "note" if has_bytes and share <= 0.005 else "warning"
            count = uncovered.total()
            yield CorpusFinding("uncovered_characters", severity, count, share, text)


def _format_percent(share: float) -> str:
    """Return a percentage with two significant digits."""
    if 0 < share < 0.0001:
        return "under 0.01 %"
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"
