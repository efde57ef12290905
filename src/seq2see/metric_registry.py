"""The metrics: one entry per metric, read by configs, the command line and reports.

This module imports nothing slow: the constructor of a metric is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

Tokenization = Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"]
"""Tokenizers of BLEU. sacrebleu has more, but those download their models."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """How a metric is computed and shown."""

    label: str
    """Name for display."""
    constructor: str
    """Function that returns the sacrebleu metric for `MetricOptions`, as module:function."""
    higher_is_better: bool = True
    is_compared: bool = True
    """Whether it is one of the default metrics of a comparison of two systems."""


_MODULE = "seq2see.metrics.sacrebleu_metrics"
METRICS: Mapping[str, MetricDefinition] = {
    "bleu": MetricDefinition("BLEU", f"{_MODULE}:build_bleu"),
    "chrf": MetricDefinition("chrF2", f"{_MODULE}:build_chrf"),
    "ter": MetricDefinition("TER", f"{_MODULE}:build_ter", higher_is_better=False),
    "exact": MetricDefinition("exact match", f"{_MODULE}:ExactMatch", is_compared=False),
}

if TYPE_CHECKING:
    MetricName = str
    ValidationMetric = str
else:
    MetricName = Literal[tuple(METRICS)]
    ValidationMetric = Literal["loss", *METRICS]
