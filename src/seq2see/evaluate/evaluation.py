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
from seq2see.evaluate.evaluation_set import HeldOut
from seq2see.metrics import SEED, Judge, MetricName, MetricScore, Options, Tokenization
from seq2see.translator import Translation, TranslationOptions, Translator


class ScoringConfig(Config):
    """What a report counts, and how."""

    metrics: tuple[MetricName, ...] = Field(default=("bleu", "chrf", "ter", "exact"), min_length=1)
    """The first one decides where one must."""
    tokenize: Tokenization | None = None
    """How BLEU finds words, instead of the language's own way."""
    lowercase: bool | None = None
    """Ignore case; as usual for each metric unless given."""
    samples: int = Field(default=1000, ge=0, le=1_000_000)
    """Resampled test sets for the intervals; 0 is none."""
    seed: int = Field(default=SEED, ge=0)
    """Of the resampling."""

    def options(self, language: str | None) -> Options:
        """Return what stands in the signatures."""
        return {"language": language, "tokenize": self.tokenize, "lowercase": self.lowercase}


def scored(texts: list[str], references: list[str], language: str) -> dict[str, MetricScore]:
    """Return BLEU and chrF, by their names: of characters, where what finds words is missing."""
    way = metrics.at_hand(language)
    found = metrics.scores(texts, references, ("bleu", "chrf"), language=language, tokenize=way)
    return {str(name): score for name, score in found.items()}


def score_record(score: MetricScore) -> dict[str, Any]:
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


def score_records(scores: Mapping[MetricName, MetricScore]) -> dict[str, Any]:
    """Return several, by their names."""
    return {name: score_record(score) for name, score in scores.items()}


BUCKETS = 5
"""At most so many, with about as many sentences each."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sentences of similar length."""

    shortest: int
    longest: int
    sentences: int
    values: Mapping[MetricName, float]


def by_length(judges: Mapping[MetricName, Judge], lengths: Sequence[int]) -> list[Bucket]:
    """Score the sentences of each bucket by themselves, from what was counted in each."""
    found = []
    for places in buckets(lengths):
        values = {
            metric: judge.value(judge.stats[0][places].sum(axis=0))
            for metric, judge in judges.items()
        }
        span = [lengths[place] for place in places]
        found.append(Bucket(min(span), max(span), len(places), values))
    return found


def buckets(lengths: Sequence[int], count: int = BUCKETS) -> list[list[int]]:
    """Return the places of each bucket, short ones first. What is as long is in the same."""
    ordered = np.sort(lengths)
    last = -(-len(ordered) * np.arange(1, count + 1) // count) - 1
    longest = np.unique(ordered[last])
    numbers = np.searchsorted(longest, lengths)
    return [np.flatnonzero(numbers == number).tolist() for number in range(len(longest))]


@dataclass(frozen=True, slots=True)
class Pronouns:
    """Sentences in which the predicate decides between the pronouns."""

    cases: int
    right: int

    @property
    def share(self) -> float:
        """Of the right ones, in percent."""
        return 100 * self.right / max(1, self.cases)


def pronouns(cases: Sequence[Fable], texts: Sequence[str]) -> Pronouns:
    """Count the decisive pronouns of these translations."""
    decisive = [
        _is_right(fable, text)
        for fable, text in zip(cases, texts, strict=True)
        if fable.pronoun and fable.pronoun.contrast
    ]
    return Pronouns(len(decisive), sum(decisive))


def _is_right(fable: Fable, text: str) -> bool:
    """Say whether the word at the pronoun's place is the expected one."""
    assert fable.pronoun
    place = fable.pronoun.target
    return fables.words(text)[place : place + 1] == fables.words(fable.target)[place : place + 1]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Translations of a test set, and all that was counted in them."""

    name: str
    texts: Sequence[str]
    scores: Mapping[MetricName, MetricScore]
    buckets: Sequence[Bucket]
    pronouns: Pronouns | None = None
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
            "test": self.name,
            "sentences": len(self.texts),
            "scores": score_records(self.scores),
            "lengths": [asdict(bucket) for bucket in self.buckets],
            "pronouns": asdict(self.pronouns) if self.pronouns else None,
            "alignment": self.alignment.to_json() if self.alignment else None,
            "flags": dict(self.flags),
            "errors": dict(self.errors),
            "seconds": self.seconds,
        }


def judged(
    texts: Sequence[str], held_out: HeldOut, scoring: ScoringConfig | None = None
) -> Evaluation:
    """Score translations that are there already."""
    scoring = scoring or ScoringConfig()
    options = scoring.options(held_out.language)
    judges = {
        metric: Judge(metric, [texts], held_out.references, options) for metric in scoring.metrics
    }
    scores = {
        metric: metrics.score_of(judge, scoring.samples, scoring.seed)
        for metric, judge in judges.items()
    }
    said = pronouns(held_out.fables, texts) if held_out.fables else None
    return Evaluation(held_out.name, texts, scores, by_length(judges, held_out.lengths), said)


def evaluate(
    translator: Translator,
    held_out: HeldOut,
    options: TranslationOptions | None = None,
    scoring: ScoringConfig | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Translate every source and score the whole; `told` hears how many are done."""
    scoring = scoring or ScoringConfig()
    metrics.refuse(scoring.metrics, **scoring.options(held_out.language))
    began = time.perf_counter()
    found = translated(translator, held_out, options, told)
    seconds = time.perf_counter() - began
    report = judged([translation.text for translation in found], held_out, scoring)
    return replace(
        report,
        flags=Counter(str(flag) for translation in found for flag in translation.flags),
        errors={line: t.error for line, t in enumerate(found, 1) if t.error is not None},
        seconds=seconds,
    )


def translated(
    translator: Translator,
    held_out: HeldOut,
    options: TranslationOptions | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> list[Translation]:
    """Translate every source."""
    assert held_out.sources is not None
    found = []
    for translation in translator.stream(held_out.sources, options):
        found.append(translation)
        told(len(found))
    return found
