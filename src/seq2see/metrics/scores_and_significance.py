"""Scores of a test set, confidence intervals, and significance tests between two systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import numpy as np

from seq2see.errors import InputError
from seq2see.metrics.sacrebleu_metrics import (
    Float64Array,
    Lines,
    MetricOptions,
    MetricScore,
    MetricStatistics,
    References,
)
from seq2see.registries import METRICS, MetricName

DEFAULT_SEED = 12345
"""The seed of sacrebleu."""


def bootstrap_scores(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return the score of each system on each resampled test set, [systems, samples].

    The first samples do not depend on the number of samples.
    """
    check_num_samples(samples)
    rng, lines = np.random.default_rng(seed), len(statistics.line_statistics[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [
        [statistics.compute_value(stats[draw].sum(axis=0)) for stats in statistics.line_statistics]
        for draw in draws
    ]
    return np.array(values).T


def bootstrap_differences(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return the score of the second system minus the first on each resampled test set."""
    first, second = bootstrap_scores(statistics, samples, seed)
    return np.array(second - first)


def randomization_differences(
    statistics: MetricStatistics, samples: int, seed: int
) -> Float64Array:
    """Return the absolute differences of two systems whose outputs are swapped at random."""
    check_num_samples(samples)
    first, second = statistics.line_statistics
    rng = np.random.default_rng(seed)
    swaps = rng.integers(2, size=(samples, len(first)), dtype=bool)
    total, difference = (first + second).sum(axis=0), first - second
    mixed = [second.sum(axis=0) + difference[swap].sum(axis=0) for swap in swaps]
    return np.array(
        [
            abs(statistics.compute_value(part) - statistics.compute_value(total - part))
            for part in mixed
        ]
    )


def check_num_samples(samples: int) -> None:
    """Raise an InputError if the number of samples is below 1."""
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")


def compute_interval_95(values: Float64Array) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of the values."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def compute_metric_score(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "bleu",
    samples: int = 0,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> MetricScore:
    """Return the score of a test set.

    With `samples`, the score has a 95 % confidence interval from this number of resampled test
    sets.

    Raises:
        InputError: If the numbers of lines differ or an option is invalid.
    """
    return score_statistics(
        MetricStatistics(metric, [hypotheses], references, options), samples, seed
    )


def score_statistics(
    statistics: MetricStatistics, samples: int = 0, seed: int = DEFAULT_SEED
) -> MetricScore:
    """Return the score of the statistics of one system; see `compute_metric_score`."""
    (stats,) = statistics.line_statistics
    if not samples:
        return statistics.compute_score(stats)
    (values,) = bootstrap_scores(statistics, samples, seed)
    return statistics.compute_score(
        stats, interval=compute_interval_95(values), bs=samples, seed=seed
    )


def compute_metric_scores(
    hypotheses: Lines,
    references: References,
    metrics: Iterable[MetricName] = tuple(METRICS),
    samples: int = 0,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> dict[MetricName, MetricScore]:
    """Return the scores of a test set by several metrics; see `compute_metric_score`."""
    return {
        m: compute_metric_score(hypotheses, references, m, samples, seed, **options)
        for m in metrics
    }


SignificanceTest = Literal["bootstrap", "randomization"]

_DEFAULT_SAMPLES: Mapping[SignificanceTest, int] = {"bootstrap": 1000, "randomization": 10_000}
_ROUNDING_ERROR = 1e-9
"""Maximum difference of two sums of the same numbers in another order."""


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """Comparison of two systems on the same sentences."""

    first: MetricScore
    second: MetricScore
    difference: float
    """Score of the second system minus the first."""
    interval: tuple[float, float]
    """95 % confidence interval of the difference over resampled test sets."""
    p_value: float
    """Probability of a difference at least as large if the systems are equally good."""
    test: SignificanceTest
    signature: str

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system with the better score, whether or not the difference is significant."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def compare_statistics(
    statistics: MetricStatistics,
    tests: Sequence[SignificanceTest] = get_args(SignificanceTest),
    samples: int | None = None,
    seed: int = DEFAULT_SEED,
) -> dict[SignificanceTest, MetricComparison]:
    """Compare two systems with several significance tests on the same resampled test sets.

    `bootstrap` draws sentences with replacement, by default 1,000 times. `randomization` swaps the
    outputs of the systems at random, by default 10,000 times.

    Raises:
        InputError: If the number of samples is below 1.
    """
    counts = {test: _DEFAULT_SAMPLES[test] if samples is None else samples for test in tests}
    for count in counts.values():
        check_num_samples(count)
    first, second = map(statistics.compute_score, statistics.line_statistics)
    difference = second.value - first.value
    # The interval of a randomization test uses the default number of bootstrap samples.
    default_count = _DEFAULT_SAMPLES["bootstrap"]
    max_count = max(n if test == "bootstrap" else default_count for test, n in counts.items())
    all_differences = bootstrap_differences(statistics, max_count, seed)
    results: dict[SignificanceTest, MetricComparison] = {}
    for test, count in counts.items():
        settings = {"bs": count} if test == "bootstrap" else {"bs": default_count, "ar": count}
        differences = all_differences[: settings["bs"]]
        if test == "bootstrap":
            null_differences = np.abs(differences) - np.abs(differences).mean()
        else:
            null_differences = randomization_differences(statistics, count, seed)
        results[test] = MetricComparison(
            first,
            second,
            difference,
            compute_interval_95(differences),
            _compute_p_value(null_differences, difference),
            test,
            statistics.format_signature(seed=seed, **settings),
        )
    return results


def _compute_p_value(null_differences: Float64Array, difference: float) -> float:
    """Return the share of samples with at least the same difference; it is never 0.

    sacrebleu counts only larger differences. With that definition a system differs significantly
    from itself, and two sentences are enough for a significant difference.
    """
    is_as_large = null_differences >= abs(difference) - _ROUNDING_ERROR
    return (int(is_as_large.sum()) + 1) / (len(null_differences) + 1)
