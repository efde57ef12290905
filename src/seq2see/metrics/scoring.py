"""Scores of a test set, and of each of its sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Unpack, get_args

from seq2see.metrics.judge import Judge, Lines, MetricName, Options, References, Score
from seq2see.metrics.resampling import SEED, bootstrapped, middle


def score(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "bleu",
    samples: int = 0,
    seed: int = SEED,
    **options: Unpack[Options],
) -> Score:
    """Score a test set. With `samples`, also resample it so often for an interval."""
    return score_of(Judge(metric, [hypotheses], references, options), samples, seed)


def score_of(judge: Judge, samples: int = 0, seed: int = SEED) -> Score:
    """Score the test set that a judge has counted."""
    (stats,) = judge.stats
    if not samples:
        return judge.score(stats)
    (values,) = bootstrapped(judge, samples, seed)
    return judge.score(stats, interval=middle(values), bs=samples, seed=seed)


def scores(
    hypotheses: Lines,
    references: References,
    metrics: Iterable[MetricName] = get_args(MetricName),
    samples: int = 0,
    seed: int = SEED,
    **options: Unpack[Options],
) -> dict[MetricName, Score]:
    """Score a test set by several metrics."""
    return {m: score(hypotheses, references, m, samples, seed, **options) for m in metrics}


def sentence_scores(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "chrf",
    **options: Unpack[Options],
) -> list[Score]:
    """Score each sentence by itself. BLEU stops at the longest n-gram that a sentence has."""
    judge = Judge(metric, [hypotheses], references, options, effective_order=True)
    (stats,) = judge.stats
    return [judge.score(row[None]) for row in stats]
