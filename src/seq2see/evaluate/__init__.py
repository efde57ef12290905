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

from seq2see.evaluate.alignment_error_rate import (
    HeadAlignmentScorer as HeadAlignmentScorer,
    with_best_alignment_head as with_best_alignment_head,
)
from seq2see.evaluate.comparison import (
    SystemComparison as SystemComparison,
    compare_systems as compare_systems,
)
from seq2see.evaluate.evaluation import (
    Evaluation as Evaluation,
    EvaluationSet as EvaluationSet,
    MetricsConfig as MetricsConfig,
    compute_pronoun_accuracy as compute_pronoun_accuracy,
    evaluate as evaluate,
    score_translations as score_translations,
    score_validation_translations as score_validation_translations,
    translate_evaluation_set as translate_evaluation_set,
)
