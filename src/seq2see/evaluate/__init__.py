"""A test set in, a report out. Validation during training goes this way too.

HeldOut       what to be judged by: sources, references, and the fables behind them
evaluate      a translator's translations of it, with every score
judged        the same for translations that are there already
compared      two systems: significance, and the sentences on which they differ most
scored        BLEU and chrF alone, for a look in between
best_head     which head's attention aligns words best
"""

from __future__ import annotations

from seq2see.evaluate.alignment import (
    Aligner,
    AlignmentReport,
    aligned_by_best_head,
    alignment_report,
)
from seq2see.evaluate.comparison import SystemComparison, compared
from seq2see.evaluate.evaluation import (
    Evaluation,
    Pronouns,
    ScoringConfig,
    evaluate,
    judged,
    pronouns,
    scored,
)
from seq2see.evaluate.evaluation_set import HeldOut

__all__ = [
    "Aligner",
    "AlignmentReport",
    "Evaluation",
    "HeldOut",
    "Pronouns",
    "ScoringConfig",
    "SystemComparison",
    "aligned_by_best_head",
    "alignment_report",
    "compared",
    "evaluate",
    "judged",
    "pronouns",
    "scored",
]
