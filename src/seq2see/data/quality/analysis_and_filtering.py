"""Analyze a corpus, or filter it, by the same rules; both read it twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

import numpy as np

from seq2see.data.quality.build_findings import (
    CharacterCounter,
    FindingCounter,
    build_findings,
)
from seq2see.data.quality.config import RULES, QualityConfig, RuleName
from seq2see.data.quality.languages import LINGUA_EXTRA
from seq2see.data.quality.model_suggestion import suggest_model
from seq2see.data.quality.realignment import realign_pairs
from seq2see.data.quality.report import (
    CorpusReport,
    Distribution,
    SideReport,
    TestPairsInCorpusCounts,
    format_count,
)
from seq2see.data.quality.rules import RuleViolation, find_rule_violations
from seq2see.data.quality.statistics_and_models import (
    CorpusModel,
    collect_per_pair_statistics,
    iter_numbered_blocks,
)
from seq2see.data.quality.words_and_word_ids import compute_match_key
from seq2see.data.readers import SentencePair
from seq2see.progress_callbacks import MessageCallback, StageCallback
from seq2see.text import TokenizerPair

LanguagePair = tuple[str, str] | None


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
