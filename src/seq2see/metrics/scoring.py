"""Scores of a test set, confidence intervals, and significance tests between two systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import numpy as np

from seq2see.errors import InputError
from seq2see.metrics.metric import (
    Float64Array,
    Lines,
    MetricName,
    MetricOptions,
    MetricScore,
    MetricStatistics,
    References,
)

DEFAULT_SEED = 12345
"""sacrebleu's own."""


def bootstrap_scores(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return the score of each system on each resampled test set; the first are the same for any
    number of samples."""
    check_samples(samples)
    rng, lines = np.random.default_rng(seed), len(statistics.line_statistics[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [
        [statistics.compute_value(stats[draw].sum(axis=0)) for stats in statistics.line_statistics]
        for draw in draws
    ]
    return np.array(values).T


def bootstrap_differences(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return second minus first on each resampled test set."""
    first, second = bootstrap_scores(statistics, samples, seed)
    return np.array(second - first)


def center_differences(differences: Float64Array) -> Float64Array:
    """Return how much larger than usual each difference is."""
    sizes = np.abs(differences)
    return np.array(sizes - sizes.mean())


def randomization_differences(
    statistics: MetricStatistics, samples: int, seed: int
) -> Float64Array:
    """Return how much two systems differ whose outputs were swapped at random."""
    check_samples(samples)
    first, second = statistics.line_statistics
    rng = np.random.default_rng(seed)
    swaps = rng.integers(2, size=(samples, len(first)), dtype=bool)
    total, apart = (first + second).sum(axis=0), first - second
    mixed = [second.sum(axis=0) + apart[swap].sum(axis=0) for swap in swaps]
    return np.array(
        [
            abs(statistics.compute_value(part) - statistics.compute_value(total - part))
            for part in mixed
        ]
    )


def check_samples(samples: int) -> None:
    """Refuse to draw nothing."""
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")


def compute_interval_95(values: Float64Array) -> tuple[float, float]:
    """Return where the middle 95 % begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def score(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "bleu",
    samples: int = 0,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> MetricScore:
    """Score a test set. With `samples`, also resample it so often for an interval."""
    return score_statistics(
        MetricStatistics(metric, [hypotheses], references, options), samples, seed
    )


def score_statistics(
    statistics: MetricStatistics, samples: int = 0, seed: int = DEFAULT_SEED
) -> MetricScore:
    """Score the test set that a judge has counted."""
    (stats,) = statistics.line_statistics
    if not samples:
        return statistics.compute_score(stats)
    (values,) = bootstrap_scores(statistics, samples, seed)
    return statistics.compute_score(
        stats, interval=compute_interval_95(values), bs=samples, seed=seed
    )


def score_metrics(
    hypotheses: Lines,
    references: References,
    metrics: Iterable[MetricName] = get_args(MetricName),
    samples: int = 0,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> dict[MetricName, MetricScore]:
    """Score a test set by several metrics."""
    return {m: score(hypotheses, references, m, samples, seed, **options) for m in metrics}


def score_sentences(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "chrf",
    **options: Unpack[MetricOptions],
) -> list[MetricScore]:
    """Score each sentence by itself. BLEU stops at the longest n-gram that a sentence has."""
    judge = MetricStatistics(metric, [hypotheses], references, options, effective_order=True)
    (stats,) = judge.line_statistics
    return [judge.compute_score(row[None]) for row in stats]


SignificanceTest = Literal["bootstrap", "randomization"]


_TRIALS: Mapping[SignificanceTest, int] = {"bootstrap": 1000, "randomization": 10_000}


_KEYS: Mapping[SignificanceTest, str] = {"bootstrap": "bs", "randomization": "ar"}
"""In the signature."""


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """Two systems on the same sentences."""

    first: MetricScore
    second: MetricScore
    difference: float
    """Second minus first."""
    interval: tuple[float, float]
    """Of the difference on 95 % of the resampled test sets."""
    p_value: float
    """How likely a difference at least as large is if the systems are equally good."""
    test: SignificanceTest
    signature: str

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system that is better, whether or not the difference means something."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def compare_scores(
    first: Lines,
    second: Lines,
    references: References,
    metric: MetricName = "bleu",
    test: SignificanceTest = "bootstrap",
    samples: int | None = None,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> MetricComparison:
    """Tell whether two systems differ by more than the choice of sentences would explain.

    `bootstrap` draws sentences with replacement (1,000 times unless `samples` says otherwise),
    `randomization` swaps the systems' outputs at random (10,000 times).
    """
    if test not in _TRIALS:
        raise InputError(f"`test` must be one of {', '.join(_TRIALS)}, but is {test} instead")
    judge = MetricStatistics(metric, [first, second], references, options)
    return compare_statistics(judge, (test,), samples, seed)[test]


def compare_statistics(
    statistics: MetricStatistics,
    tests: Sequence[SignificanceTest] = get_args(SignificanceTest),
    samples: int | None = None,
    seed: int = DEFAULT_SEED,
) -> dict[SignificanceTest, MetricComparison]:
    """Compare the two systems that a judge has counted, by several tests on the same samples."""
    trials = {test: _trials(test, samples) for test in tests}
    most = max(counts["bs"] for counts in trials.values())
    resampled = bootstrap_differences(statistics, most, seed)
    return {
        test: _comparison(statistics, test, counts, seed, resampled[: counts["bs"]])
        for test, counts in trials.items()
    }


def _trials(test: SignificanceTest, samples: int | None) -> dict[str, int]:
    """Return how often to draw, as the signature has it. The interval is of the bootstrap's usual
    samples where the test draws others."""
    own = _TRIALS[test] if samples is None else samples
    check_samples(own)
    return {"bs": _TRIALS["bootstrap"], _KEYS[test]: own}


def _comparison(
    judge: MetricStatistics,
    test: SignificanceTest,
    trials: Mapping[str, int],
    seed: int,
    resampled: Float64Array,
) -> MetricComparison:
    ours, theirs = map(judge.compute_score, judge.line_statistics)
    difference = theirs.value - ours.value
    if test == "bootstrap":
        by_chance = center_differences(resampled)
    else:
        by_chance = randomization_differences(judge, trials["ar"], seed)
    return MetricComparison(
        ours,
        theirs,
        difference,
        compute_interval_95(resampled),
        _p_value(by_chance, difference),
        test,
        judge.format_signature(seed=seed, **trials),
    )


_ROUNDING = 1e-9
"""Differences that are the same, summed in another order."""


def _p_value(by_chance: Float64Array, difference: float) -> float:
    """Return how often chance does as much; never 0, which no number of samples can show.

    sacrebleu counts only what does more. That calls a system significantly different from itself,
    and two sentences enough to tell.
    """
    as_much = by_chance >= abs(difference) - _ROUNDING
    return (int(as_much.sum()) + 1) / (len(by_chance) + 1)
