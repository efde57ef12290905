"""The data doctor: what is wrong with a corpus, and the same corpus without it.

    report = examine(Corpus(CorpusConfig(files=["train.tsv"])), languages=("en", "de"))
    for finding in report.findings: ...

    for verdict in clean(pairs): ...  # Kept or Rejection, each pair in its order

The way of a corpus: `survey` reads it once and keeps numbers and a sample; `standard` learns from
them what is usual here; then it is read again, and `rules` judge each pair by that standard.
"""

from __future__ import annotations

from seq2see.data.quality.analysis import AcceptedPair, RejectedPair, analyze_corpus, filter_corpus
from seq2see.data.quality.config import RULES, QualityConfig, RuleName
from seq2see.data.quality.corpus_model import StageCallback
from seq2see.data.quality.line_shifts import LineShift
from seq2see.data.quality.report import (
    CorpusFinding,
    CorpusReport,
    Distribution,
    FindingExample,
    ModelSuggestion,
    Severity,
    SideReport,
    TestSetOverlap,
    UncoveredCharacters,
)

__all__ = [
    "RULES",
    "AcceptedPair",
    "CorpusFinding",
    "CorpusReport",
    "Distribution",
    "FindingExample",
    "LineShift",
    "ModelSuggestion",
    "QualityConfig",
    "RejectedPair",
    "RuleName",
    "Severity",
    "SideReport",
    "StageCallback",
    "TestSetOverlap",
    "UncoveredCharacters",
    "analyze_corpus",
    "filter_corpus",
]
