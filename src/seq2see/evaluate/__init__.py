"""Evaluate and compare translations. Validation during training uses this package too.

EvaluationSet              sources and references of a test set or validation set
evaluate                   translates an evaluation set and computes all scores
score_translations         computes the scores of existing translations
compare_systems            tests two systems for significant differences, and lists the sentences
                           on which they differ most
score_validation_translations  BLEU, chrF and the chosen metric, for validation
HeadAlignmentScorer        alignment error rate of each attention head
with_best_alignment_head   stores the head that aligns words best in a model
"""

from __future__ import annotations

from seq2see.evaluate.alignment_error_rate import (
    AlignmentReport,
    HeadAlignmentScorer,
    with_best_alignment_head,
)
from seq2see.evaluate.comparison import (
    SentenceDifference,
    SystemComparison,
    compare_systems,
    diff_words,
)
from seq2see.evaluate.evaluation import (
    Evaluation,
    EvaluationSet,
    MetricsConfig,
    PronounAccuracy,
    compute_pronoun_accuracy,
    evaluate,
    score_translations,
    score_validation_translations,
    translate_evaluation_set,
)

__all__ = [
    "AlignmentReport",
    "Evaluation",
    "EvaluationSet",
    "HeadAlignmentScorer",
    "MetricsConfig",
    "PronounAccuracy",
    "SentenceDifference",
    "SystemComparison",
    "compare_systems",
    "compute_pronoun_accuracy",
    "diff_words",
    "evaluate",
    "score_translations",
    "score_validation_translations",
    "translate_evaluation_set",
    "with_best_alignment_head",
]
