"""Score translations of a test set: metrics, scores by length, and pronoun accuracy."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from pydantic import Field

from seq2see import metrics
from seq2see.config import Config
from seq2see.data import fables
from seq2see.data.fables import Fable
from seq2see.evaluate.alignment import AlignmentReport
from seq2see.evaluate.evaluation_set import EvaluationSet
from seq2see.metrics import (
    DEFAULT_SEED,
    MetricName,
    MetricOptions,
    MetricScore,
    MetricStatistics,
    Tokenization,
)
from seq2see.translator import Translation, TranslationOptions, Translator


class ScoringConfig(Config):
    """What a report counts, and how."""

    metrics: tuple[MetricName, ...] = Field(default=("bleu", "chrf", "ter", "exact"), min_length=1)
    """The first one decides where one must."""
    tokenize: Tokenization | None = None
    """How BLEU finds words, instead of the language's own way."""
    lowercase: bool | None = None
    """Ignore case; as usual for each metric unless given."""
    resamples: int = Field(default=1000, ge=0, le=1_000_000)
    """Resampled test sets for the intervals; 0 is none."""
    seed: int = Field(default=DEFAULT_SEED, ge=0)
    """Of the resampling."""

    def metric_options(self, language: str | None) -> MetricOptions:
        """Return what stands in the signatures."""
        return {"language": language, "tokenize": self.tokenize, "lowercase": self.lowercase}


def compute_bleu_and_chrf(
    translations: list[str], references: list[str], language: str
) -> dict[str, MetricScore]:
    """Return BLEU and chrF, by their names: of characters, where what finds words is missing."""
    way = metrics.find_fallback_tokenization(language)
    found = metrics.score_metrics(
        translations, references, ("bleu", "chrf"), language=language, tokenize=way
    )
    return {str(name): score for name, score in found.items()}


def score_to_json(score: MetricScore) -> dict[str, Any]:
    """Return a score as JSON has it."""
    record: dict[str, Any] = {"value": score.value, "signature": score.signature}
    if score.interval:
        record["interval"] = list(score.interval)
    if score.details:
        details = score.details
        record |= {
            "precisions": list(details.precisions),
            "brevity_penalty": details.brevity_penalty,
            "length_ratio": details.hypothesis_length / max(1, details.reference_length),
        }
    return record


def scores_to_json(scores: Mapping[MetricName, MetricScore]) -> dict[str, Any]:
    """Return several, by their names."""
    return {name: score_to_json(score) for name, score in scores.items()}


MAX_LENGTH_BUCKETS = 5
"""At most so many, with about as many sentences each."""


@dataclass(frozen=True, slots=True)
class LengthBucket:
    """Sentences of similar length."""

    min_length: int
    max_length: int
    num_sentences: int
    values: Mapping[MetricName, float]


def score_by_length(
    metrics_by_name: Mapping[MetricName, MetricStatistics], lengths: Sequence[int]
) -> list[LengthBucket]:
    """Score the sentences of each bucket by themselves, from what was counted in each."""
    found = []
    for places in split_into_length_buckets(lengths):
        values = {
            metric: judge.compute_value(judge.line_statistics[0][places].sum(axis=0))
            for metric, judge in metrics_by_name.items()
        }
        span = [lengths[place] for place in places]
        found.append(LengthBucket(min(span), max(span), len(places), values))
    return found


def split_into_length_buckets(
    lengths: Sequence[int], num_buckets: int = MAX_LENGTH_BUCKETS
) -> list[list[int]]:
    """Return the places of each bucket, short ones first. What is as long is in the same."""
    ordered = np.sort(lengths)
    last = -(-len(ordered) * np.arange(1, num_buckets + 1) // num_buckets) - 1
    longest = np.unique(ordered[last])
    numbers = np.searchsorted(longest, lengths)
    return [np.flatnonzero(numbers == number).tolist() for number in range(len(longest))]


@dataclass(frozen=True, slots=True)
class PronounAccuracy:
    """Sentences in which the predicate decides between the pronouns."""

    total: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Of the right ones, in percent."""
        return 100 * self.correct / max(1, self.total)


def compute_pronoun_accuracy(
    test_fables: Sequence[Fable], translations: Sequence[str]
) -> PronounAccuracy:
    """Count the decisive pronouns of these translations."""
    decisive = [
        _is_right(fable, text)
        for fable, text in zip(test_fables, translations, strict=True)
        if fable.pronoun and fable.pronoun.contrastive_pair
    ]
    return PronounAccuracy(len(decisive), sum(decisive))


def _is_right(fable: Fable, text: str) -> bool:
    """Say whether the word at the pronoun's place is the expected one."""
    assert fable.pronoun
    place = fable.pronoun.target_index
    return (
        fables.split_words(text)[place : place + 1]
        == fables.split_words(fable.target)[place : place + 1]
    )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Translations of a test set, and all that was counted in them."""

    test_set: str
    translations: Sequence[str]
    scores: Mapping[MetricName, MetricScore]
    length_buckets: Sequence[LengthBucket]
    pronoun_accuracy: PronounAccuracy | None = None
    """On fables."""
    alignment: AlignmentReport | None = None
    """On fables, by a model."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """What the translator noticed, and in how many lines."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Why a line, from 1 on, has no translation."""
    seconds: float | None = None
    """How long translating took."""

    def to_json(self) -> dict[str, Any]:
        """Return it for machines, without the texts."""
        return {
            "test_set": self.test_set,
            "num_sentences": len(self.translations),
            "scores": scores_to_json(self.scores),
            "length_buckets": [asdict(bucket) for bucket in self.length_buckets],
            "pronoun_accuracy": asdict(self.pronoun_accuracy) if self.pronoun_accuracy else None,
            "alignment": self.alignment.to_json() if self.alignment else None,
            "flags": dict(self.flags),
            "errors": dict(self.errors),
            "seconds": self.seconds,
        }


def score_translations(
    translations: Sequence[str], evaluation_set: EvaluationSet, scoring: ScoringConfig | None = None
) -> Evaluation:
    """Score translations that are there already."""
    scoring = scoring or ScoringConfig()
    options = scoring.metric_options(evaluation_set.target_language)
    judges = {
        metric: MetricStatistics(metric, [translations], evaluation_set.references, options)
        for metric in scoring.metrics
    }
    scores = {
        metric: metrics.score_statistics(judge, scoring.resamples, scoring.seed)
        for metric, judge in judges.items()
    }
    said = (
        compute_pronoun_accuracy(evaluation_set.fables, translations)
        if evaluation_set.fables
        else None
    )
    return Evaluation(
        evaluation_set.name,
        translations,
        scores,
        score_by_length(judges, evaluation_set.sentence_lengths),
        said,
    )


def evaluate(
    translator: Translator,
    evaluation_set: EvaluationSet,
    options: TranslationOptions | None = None,
    scoring: ScoringConfig | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Translate every source and score the whole; `told` hears how many are done."""
    scoring = scoring or ScoringConfig()
    metrics.check_metrics(scoring.metrics, **scoring.metric_options(evaluation_set.target_language))
    began = time.perf_counter()
    found = translate_evaluation_set(translator, evaluation_set, options, on_progress)
    seconds = time.perf_counter() - began
    report = score_translations(
        [translation.text for translation in found], evaluation_set, scoring
    )
    return replace(
        report,
        flags=Counter(str(flag) for translation in found for flag in translation.flags),
        errors={line: t.error for line, t in enumerate(found, 1) if t.error is not None},
        seconds=seconds,
    )


def translate_evaluation_set(
    translator: Translator,
    evaluation_set: EvaluationSet,
    options: TranslationOptions | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Translation]:
    """Translate every source."""
    assert evaluation_set.sources is not None
    found = []
    for translation in translator.stream(evaluation_set.sources, options):
        found.append(translation)
        on_progress(len(found))
    return found
