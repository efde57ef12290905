"""Evaluation sets and the scores of their translations: metrics, by length, and of pronouns."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, cast

import numpy as np
from pydantic import Field

from seq2see import metrics
from seq2see.config import Config
from seq2see.data import fables
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.fables import FableSentencePair
from seq2see.data.readers import SplitName
from seq2see.errors import InputError
from seq2see.evaluate.alignment_error_rate import AlignmentReport, HeadAlignmentScorer
from seq2see.metrics import (
    DEFAULT_SEED,
    MetricOptions,
    MetricScore,
    MetricStatistics,
)
from seq2see.progress_callbacks import ProgressCallback
from seq2see.registries import METRICS, MetricName, Tokenization
from seq2see.text.languages import is_written_without_spaces
from seq2see.translator import Translation, TranslationOptions, Translator

NUM_HEAD_SELECTION_FABLES = 500
"""Number of fables on which the best attention head is selected."""


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A test set or validation set: sentences with one or more references.

    Raises InputError if it is empty or if its parts differ in length.
    """

    name: str
    references: tuple[Sequence[str], ...]
    """One or more lists with one reference per sentence."""
    sources: Sequence[str] | None = None
    """Source sentences; not needed to score existing translations."""
    languages: tuple[str | None, str | None] = (None, None)
    """Languages of sources and references, or None if unknown."""
    fables: Sequence[FableSentencePair] = ()
    """The fables of a built-in set, with gold alignments and pronouns."""
    head_selection_fables: Sequence[FableSentencePair] = ()
    """Fables of another split, on which an attention head is selected."""

    def __post_init__(self) -> None:
        sides = ((self.sources,) if self.sources is not None else ()) + self.references
        num_lines = [len(side) for side in sides]
        if len(set(num_lines)) > 1:
            counts = " and ".join(map(str, num_lines))
            raise InputError(
                f"all files of {self.name} must have the same number of lines, but have {counts}"
            )
        if not num_lines[0]:
            raise InputError(f"{self.name} must have at least one sentence, but is empty")

    @classmethod
    def from_corpus(cls, corpus: Corpus, extra_references: Sequence[Sequence[str]] = ()) -> Self:
        """Read a corpus, whose targets are the first references."""
        pairs = list(corpus)
        return cls(
            corpus.name,
            ([pair.target for pair in pairs], *extra_references),
            [pair.source for pair in pairs],
            corpus.languages or (None, None),
            *_load_fables(corpus.config),
        )

    def __len__(self) -> int:
        return len(self.references[0])

    @property
    def target_language(self) -> str | None:
        """Language of the references."""
        return self.languages[1]

    @property
    def sentence_lengths(self) -> list[int]:
        """Lengths of the sources or, if there are none, of the first references.

        Lengths are in words, or in characters for languages without spaces between words.
        """
        has_sources = self.sources is not None
        language = self.languages[0] if has_sources else self.languages[1]
        split = list if is_written_without_spaces(language) else str.split
        return [len(split(text)) for text in self.sources or self.references[0]]


def _load_fables(config: CorpusConfig) -> tuple[list[FableSentencePair], list[FableSentencePair]]:
    """Return the fables of a built-in corpus and some of another split; both empty for others."""
    builtin = config.builtin
    if builtin is None or not builtin.is_fables:
        return [], []
    other: SplitName = "train" if builtin.split == "valid" else "valid"
    short = builtin.corpus == "fables-short"
    own = fables.load_fables_split(cast("SplitName", builtin.split), short)
    return own, fables.load_fables_split(other, short)[:NUM_HEAD_SELECTION_FABLES]


MAX_LENGTH_BUCKETS = 5
"""Maximum number of buckets, which have about the same number of sentences."""


class MetricsConfig(Config):
    """Metrics of an evaluation and their settings."""

    metrics: tuple[MetricName, ...] = Field(default=tuple(METRICS), min_length=1)
    """Metrics to compute. A comparison of systems is decided by the first one."""
    tokenize: Tokenization | None = None
    """Tokenizer of BLEU. Default: by language."""
    lowercase: bool | None = None
    """Ignore case. Default: the metric's own (only TER ignores case)."""
    resamples: int = Field(default=1000, ge=0, le=1_000_000)
    """Number of bootstrap samples for confidence intervals; 0 disables them."""
    seed: int = Field(default=DEFAULT_SEED, ge=0)
    """Random seed of the bootstrap."""

    def metric_options(self, language: str | None) -> MetricOptions:
        """Return the options of the metrics for references in a language."""
        return {"language": language, "tokenize": self.tokenize, "lowercase": self.lowercase}


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Scores of the sentences with a length in a range."""

    min_length: int
    max_length: int
    num_sentences: int
    values: Mapping[MetricName, float]


@dataclass(frozen=True, slots=True)
class PronounAccuracy:
    """Number of contrastive pronouns, and how many of them are translated correctly."""

    total: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Correct pronouns in percent."""
        return 100 * self.correct / max(1, self.total)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Translations of a test set with their scores."""

    test_set: str
    """Name of the test set."""
    translations: Sequence[str]
    scores: Mapping[MetricName, MetricScore]
    length_buckets: Sequence[LengthBucket]
    pronoun_accuracy: PronounAccuracy | None = None
    """Only for fables."""
    alignment: AlignmentReport | None = None
    """Only for fables that were translated by a model."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """Number of translations with each flag."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Error messages by line number, which starts at 1."""
    seconds: float | None = None
    """Duration of the translation."""

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as JSON, with the number of translations instead of their text."""
        fields = asdict(self)
        return {"num_sentences": len(fields.pop("translations")), **fields}


def evaluate(
    translator: Translator,
    evaluation_set: EvaluationSet,
    options: TranslationOptions | None = None,
    scoring: MetricsConfig | None = None,
    on_progress: ProgressCallback = lambda _done, _total: None,
) -> Evaluation:
    """Translate the sources of an evaluation set and score the translations.

    For fables, the word alignment of the model is scored too. If lines were translated sentence by
    sentence, the signatures say so (`split:auto`).
    `on_progress` is called with the number of translated sentences and their total number.
    Raises InputError before the translation if a metric cannot be computed.
    """
    scoring = scoring or MetricsConfig()
    metrics.check_metrics_and_options(
        scoring.metrics, **scoring.metric_options(evaluation_set.target_language)
    )
    start = time.perf_counter()
    translations = translate_evaluation_set(translator, evaluation_set, options, on_progress)
    seconds = time.perf_counter() - start
    texts = [translation.text for translation in translations]
    report = score_translations(texts, evaluation_set, scoring)
    if any(len(translation.sentences) > 1 for translation in translations):
        split = (options or TranslationOptions()).split
        scores = {
            metric: replace(score, signature=f"{score.signature}|split:{split}")
            for metric, score in report.scores.items()
        }
        report = replace(report, scores=scores)
    alignment = None
    if evaluation_set.fables:
        scorer = HeadAlignmentScorer.from_bundle(translator.bundle)
        alignment = scorer.build_report(evaluation_set.fables, evaluation_set.head_selection_fables)
    return replace(
        report,
        alignment=alignment,
        flags=dict(Counter(str(flag) for one in translations for flag in one.flags)),
        errors={line: t.error for line, t in enumerate(translations, 1) if t.error is not None},
        seconds=seconds,
    )


def translate_evaluation_set(
    translator: Translator,
    evaluation_set: EvaluationSet,
    options: TranslationOptions | None = None,
    on_progress: ProgressCallback = lambda _done, _total: None,
) -> list[Translation]:
    """Translate the sources of an evaluation set."""
    assert evaluation_set.sources is not None
    translations: list[Translation] = []
    for translation in translator.stream(evaluation_set.sources, options):
        translations.append(translation)
        on_progress(len(translations), len(evaluation_set))
    return translations


def score_translations(
    translations: Sequence[str], evaluation_set: EvaluationSet, scoring: MetricsConfig | None = None
) -> Evaluation:
    """Score existing translations of an evaluation set."""
    scoring = scoring or MetricsConfig()
    options = scoring.metric_options(evaluation_set.target_language)
    statistics = {
        metric: MetricStatistics(metric, [translations], evaluation_set.references, options)
        for metric in scoring.metrics
    }
    scores = {
        metric: one.compute_score(0, scoring.resamples, scoring.seed)
        for metric, one in statistics.items()
    }
    length_buckets = score_by_length(statistics, evaluation_set.sentence_lengths)
    pronoun_accuracy = None
    if evaluation_set.fables:
        pronoun_accuracy = compute_pronoun_accuracy(evaluation_set.fables, translations)
    return Evaluation(evaluation_set.name, translations, scores, length_buckets, pronoun_accuracy)


def score_validation_translations(
    translations: list[str], references: list[str], language: str, metric: str = "loss"
) -> dict[MetricName, MetricScore]:
    """Return BLEU, chrF and a further metric, unless that is `loss`.

    BLEU counts characters if the tokenizer is not installed.
    """
    tokenize = metrics.find_fallback_tokenization(language)
    names = [name for name in dict.fromkeys(("bleu", "chrf", metric)) if name != "loss"]
    return {
        name: metrics.compute_metric_score(
            translations, references, name, language=language, tokenize=tokenize
        )
        for name in names
    }


def score_by_length(
    statistics: Mapping[MetricName, MetricStatistics], lengths: Sequence[int]
) -> list[LengthBucket]:
    """Score the sentences of each length bucket; the first system of the statistics is scored."""
    buckets = []
    for indices in split_into_length_buckets(lengths):
        values = {
            metric: one.compute_value(one.line_statistics[0][indices].sum(axis=0))
            for metric, one in statistics.items()
        }
        own = [lengths[index] for index in indices]
        buckets.append(LengthBucket(min(own), max(own), len(own), values))
    return buckets


def split_into_length_buckets(lengths: Sequence[int]) -> list[list[int]]:
    """Return the indices of the sentences in each bucket, shortest sentences first.

    Sentences of the same length are in the same bucket, so there may be fewer buckets.
    """
    ordered, numbers = np.sort(lengths), np.arange(1, MAX_LENGTH_BUCKETS + 1)
    last_indices = -(-len(ordered) * numbers // MAX_LENGTH_BUCKETS) - 1
    max_lengths = np.unique(ordered[last_indices])
    buckets = np.searchsorted(max_lengths, lengths)
    return [np.flatnonzero(buckets == bucket).tolist() for bucket in range(len(max_lengths))]


def compute_pronoun_accuracy(
    test_fables: Sequence[FableSentencePair], translations: Sequence[str]
) -> PronounAccuracy:
    """Count the correct pronouns, in fables in which the predicate determines the pronoun."""
    is_correct = []
    for fable, translation in zip(test_fables, translations, strict=True):
        if fable.pronoun and fable.pronoun.contrastive_pair:
            index = fable.pronoun.target_index
            words, expected = fables.split_words(translation), fables.split_words(fable.target)
            is_correct.append(words[index : index + 1] == expected[index : index + 1])
    return PronounAccuracy(len(is_correct), sum(is_correct))
