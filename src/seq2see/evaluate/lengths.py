"""Scores by length: short sentences and long ones are often another story."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from seq2see import metrics
from seq2see.evaluate.held_out import HeldOut
from seq2see.evaluate.scoring import ScoringConfig
from seq2see.metrics import MetricName

BUCKETS = 5
"""At most so many, with about as many sentences each."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Sentences of similar length."""

    shortest: int
    longest: int
    sentences: int
    values: Mapping[MetricName, float]


def by_length(texts: Sequence[str], held_out: HeldOut, scoring: ScoringConfig) -> list[Bucket]:
    """Score the sentences of each bucket by themselves."""
    lengths, options = held_out.lengths, scoring.options(held_out.language)
    found = []
    for places in buckets(lengths):
        references = [[lines[place] for place in places] for lines in held_out.references]
        chosen = [texts[place] for place in places]
        scores = metrics.scores(chosen, references, scoring.metrics, **options)
        values = {metric: score.value for metric, score in scores.items()}
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
