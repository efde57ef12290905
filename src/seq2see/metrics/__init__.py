"""BLEU, chrF, TER and exact match, each with a signature of its computation. No torch.

The scores are computed by sacrebleu, which is imported only here. Resampling is implemented here:
sacrebleu takes the seed from the environment, needs memory for all samples at once, and has no
confidence interval of a difference. Intervals are equal to those of sacrebleu, and so
are p-values unless a sample has exactly the same difference.

Papers on multi30k report tokenized, lower-cased BLEU: `tokenize="none", lowercase=True` on
tokenized text.
"""

from seq2see.metrics.sacrebleu_metrics import (
    MetricOptions as MetricOptions,
    MetricScore as MetricScore,
    MetricStatistics as MetricStatistics,
    check_metrics_and_options as check_metrics_and_options,
    find_fallback_tokenization as find_fallback_tokenization,
)
from seq2see.metrics.scores_and_significance import (
    DEFAULT_SEED as DEFAULT_SEED,
    MetricComparison as MetricComparison,
    compare_statistics as compare_statistics,
    compute_metric_score as compute_metric_score,
    score_statistics as score_statistics,
)
