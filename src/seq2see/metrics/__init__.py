"""BLEU, chrF, TER and exact match, each with the signature that says how it was counted. No torch.

The numbers are sacrebleu's, and this is its only importer. Only the resampling is our own: there it
takes its seed from the environment, needs memory for all samples at once, and gives no interval for
a difference. Intervals are the same as there, and p-values where chance never does just as much.

Papers on multi30k count tokenised, lower-cased BLEU: `tokenize="none", lowercase=True` on text that
is tokenised already.
"""

from __future__ import annotations

from seq2see.metrics.metric import (
    BleuDetails,
    Lines,
    MetricName,
    MetricOptions,
    MetricScore,
    MetricStatistics,
    References,
    Tokenization,
    check_metrics,
    find_fallback_tokenization,
)
from seq2see.metrics.scoring import (
    DEFAULT_SEED,
    MetricComparison,
    SignificanceTest,
    compare_scores,
    compare_statistics,
    score,
    score_metrics,
    score_sentences,
    score_statistics,
)

__all__ = [
    "DEFAULT_SEED",
    "BleuDetails",
    "Lines",
    "MetricComparison",
    "MetricName",
    "MetricOptions",
    "MetricScore",
    "MetricStatistics",
    "References",
    "SignificanceTest",
    "Tokenization",
    "check_metrics",
    "compare_scores",
    "compare_statistics",
    "find_fallback_tokenization",
    "score",
    "score_metrics",
    "score_sentences",
    "score_statistics",
]
