"""Corpus quality: find faults of a parallel corpus, and remove the pairs that have them.

    report = analyze_corpus(Corpus(CorpusConfig(files=["train.tsv"])), languages=("en", "de"))
    for finding in report.findings: ...

    for result in filter_corpus(pairs): ...  # AcceptedPair or RejectedPair, in order

A corpus is read twice: `corpus_model` collects statistics and a sample, and fits models to them;
then `rules` check each pair against these models.
"""

from __future__ import annotations

from seq2see.data.quality.analysis import AcceptedPair, RejectedPair, analyze_corpus, filter_corpus
from seq2see.data.quality.config import RULES, QualityConfig, RuleName
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
    "TestSetOverlap",
    "UncoveredCharacters",
    "analyze_corpus",
    "filter_corpus",
]
