"""Scores of a test set, confidence intervals, and significance tests between two systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Unpack

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
from seq2see.registries import MetricName

DEFAULT_SEED = 12345
"""The seed of sacrebleu."""


def bootstrap_scores(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return the score of each system on each resampled test set, [systems, samples].

    The first samples do not depend on the number of samples.
    """
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")
    rng, lines = np.random.default_rng(seed), len(statistics.line_statistics[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [
        [statistics.compute_value(stats[draw].sum(axis=0)) for stats in statistics.line_statistics]
        for draw in draws
    ]
    return np.array(values).T


def randomization_differences(
    statistics: MetricStatistics, samples: int, seed: int
) -> Float64Array:
    """Return the absolute differences of two systems whose outputs are swapped at random."""
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


SignificanceTest = Literal["bootstrap", "randomization"]

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
    p_values: Mapping[SignificanceTest, float]
    """Probability of a difference at least as large if the systems are equally good."""
    signatures: Mapping[SignificanceTest, str]

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system with the better score, whether or not the difference is significant."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def compare_statistics(
    statistics: MetricStatistics, samples: int | None = None, seed: int = DEFAULT_SEED
) -> MetricComparison:
    """Compare two systems by a metric with two significance tests.

    `bootstrap` draws sentences with replacement, by default 1,000 times. `randomization` swaps the
    outputs of the systems at random, by default 10,000 times.

    Raises:
        InputError: If the number of samples is below 1.
    """
    num_bootstrap, num_swaps = (1000, 10_000) if samples is None else (samples, samples)
    first, second = map(statistics.compute_score, statistics.line_statistics)
    difference = second.value - first.value
    resampled_first, resampled_second = bootstrap_scores(statistics, num_bootstrap, seed)
    differences = resampled_second - resampled_first
    null_differences: dict[SignificanceTest, Float64Array] = {
        "bootstrap": np.abs(differences) - np.abs(differences).mean(),
        "randomization": randomization_differences(statistics, num_swaps, seed),
    }
    return MetricComparison(
        first,
        second,
        difference,
        compute_interval_95(differences),
        {test: _compute_p_value(null, difference) for test, null in null_differences.items()},
        {
            "bootstrap": statistics.format_signature(seed=seed, bs=num_bootstrap),
            "randomization": statistics.format_signature(seed=seed, bs=num_bootstrap, ar=num_swaps),
        },
    )


def _compute_p_value(null_differences: Float64Array, difference: float) -> float:
    """Return the share of samples with at least the same difference; it is never 0.

    sacrebleu counts only larger differences. With that definition a system differs significantly
    from itself, and two sentences are enough for a significant difference.
    """
    is_as_large = null_differences >= abs(difference) - _ROUNDING_ERROR
    return (int(is_as_large.sum()) + 1) / (len(null_differences) + 1)
