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
    Judge,
    Lines,
    MetricName,
    MetricScore,
    Options,
    References,
    Tokenization,
    at_hand,
    refuse,
)
from seq2see.metrics.scoring import (
    SEED,
    Comparison,
    Test,
    compare,
    comparisons,
    score,
    score_of,
    scores,
    sentence_scores,
)

__all__ = [
    "SEED",
    "BleuDetails",
    "Comparison",
    "Judge",
    "Lines",
    "MetricName",
    "MetricScore",
    "Options",
    "References",
    "Test",
    "Tokenization",
    "at_hand",
    "compare",
    "comparisons",
    "refuse",
    "score",
    "score_of",
    "scores",
    "sentence_scores",
]
