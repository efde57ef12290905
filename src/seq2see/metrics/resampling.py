"""Test sets drawn from a test set: how much a score owes to the choice of sentences."""

from __future__ import annotations

import numpy as np

from seq2see.errors import InputError
from seq2see.metrics.judge import Floats, Judge

SEED = 12345
"""sacrebleu's own."""


def bootstrapped(judge: Judge, samples: int, seed: int) -> Floats:
    """Return the score of each system on each resampled test set; the first are the same for any
    number of samples."""
    check_samples(samples)
    rng, lines = np.random.default_rng(seed), len(judge.stats[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [[judge.value(stats[draw].sum(axis=0)) for stats in judge.stats] for draw in draws]
    return np.array(values).T


def resampled_differences(judge: Judge, samples: int, seed: int) -> Floats:
    """Return second minus first on each resampled test set."""
    first, second = bootstrapped(judge, samples, seed)
    return np.array(second - first)


def centred(differences: Floats) -> Floats:
    """Return how much larger than usual each difference is."""
    sizes = np.abs(differences)
    return np.array(sizes - sizes.mean())


def swapped_differences(judge: Judge, samples: int, seed: int) -> Floats:
    """Return how much two systems differ whose outputs were swapped at random."""
    check_samples(samples)
    first, second = judge.stats
    rng = np.random.default_rng(seed)
    swaps = rng.integers(2, size=(samples, len(first)), dtype=bool)
    total, apart = (first + second).sum(axis=0), first - second
    mixed = [second.sum(axis=0) + apart[swap].sum(axis=0) for swap in swaps]
    return np.array([abs(judge.value(part) - judge.value(total - part)) for part in mixed])


def check_samples(samples: int) -> None:
    """Refuse to draw nothing."""
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")


def middle(values: Floats) -> tuple[float, float]:
    """Return where the middle 95 % begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])
