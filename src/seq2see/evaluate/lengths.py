"""Scores by length: short sentences and long ones are often another story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seq2see.metrics import Judge, MetricName

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
