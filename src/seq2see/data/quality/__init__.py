"""The data doctor: what is wrong with a corpus, and the same corpus without it.

    report = examine(Corpus(CorpusConfig(files=["train.tsv"])), languages=("en", "de"))
    for finding in report.findings: ...

    for verdict in clean(pairs): ...  # Kept or Rejection, each pair in its order

The way of a corpus: `survey` reads it once and keeps numbers and a sample; `standard` learns from
them what is usual here; then it is read again, and `rules` judge each pair by that standard.
"""

from __future__ import annotations

from seq2see.data.quality.analysis import Kept, Rejection, clean, examine
from seq2see.data.quality.config import RULES, DoctorConfig, RuleName
from seq2see.data.quality.corpus_model import Progress
from seq2see.data.quality.line_shifts import Shift
from seq2see.data.quality.report import (
    Distribution,
    Example,
    Finding,
    Lacking,
    Overlap,
    Report,
    Severity,
    SideReport,
    Suggestion,
)

__all__ = [
    "RULES",
    "Distribution",
    "DoctorConfig",
    "Example",
    "Finding",
    "Kept",
    "Lacking",
    "Overlap",
    "Progress",
    "Rejection",
    "Report",
    "RuleName",
    "Severity",
    "Shift",
    "SideReport",
    "Suggestion",
    "clean",
    "examine",
]
