"""Describes the statistics of a training text in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2see.text.training_text_statistics import (
        LengthRatioBucket,
        SideStatistics,
        TrainingTextStatistics,
    )

NOT_MEASURED = "Not measured: the model counts as trained on 1 sentence per line."


def format_training_text(statistics: TrainingTextStatistics | None) -> str:
    """Return a Markdown list of the statistics, or a sentence if there are none."""
    if statistics is None:
        return NOT_MEASURED
    return "\n".join(f"- {line}" for line in _describe(statistics))


def _describe(statistics: TrainingTextStatistics) -> Iterator[str]:
    sides = {"source": statistics.source, "target": statistics.target}
    yield f"measured: {statistics.num_pairs:,} pairs"
    yield (
        f"sentences per line: up to {statistics.max_sentences_per_line} in at least 5 % of the "
        "source lines"
    )
    for name, side in sides.items():
        yield f"{name} lines by number of sentences: {_format_sentence_shares(side)}"
    for name, side in sides.items():
        mean = f"{side.mean_tokens:.1f}"
        yield f"tokens per {name} line: {mean} on average, at most {side.max_tokens}"
    for bucket, following in zip_longest(statistics.length_ratios, statistics.length_ratios[1:]):
        yield _format_length_ratio(bucket, following)
    for name, side in sides.items():
        yield f"scripts of the {name}: {_format_scripts(side.scripts)}"


def _format_sentence_shares(side: SideStatistics) -> str:
    shares = {number: share for number, share in enumerate(side.sentence_shares, 1) if share}
    last = len(side.sentence_shares)
    return ", ".join(
        f"{number}{' or more' * (number == last > 1)}: {share:.2%}"
        for number, share in shares.items()
    )


def _format_length_ratio(bucket: LengthRatioBucket, following: LengthRatioBucket | None) -> str:
    """Return the usual ratio of a range of source lengths, two standard deviations around it."""
    limit = f" to {following.min_source_tokens - 1}" if following else " or more"
    low, high = (math.exp(bucket.mean + number * bucket.deviation) for number in (-2, 2))
    return (
        f"target/source tokens for {bucket.min_source_tokens}{limit} source tokens: "
        f"{math.exp(bucket.mean):.2f}, usually {low:.2f} to {high:.2f} ({bucket.num_pairs:,} pairs)"
    )


def _format_scripts(scripts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in scripts.items()) or "no letters"
