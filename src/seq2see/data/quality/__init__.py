"""Corpus quality: find faults of a parallel corpus, and remove the pairs that have them.

    report = analyze_corpus(Corpus(CorpusConfig(files=["train.tsv"])), languages=("en", "de"))
    for finding in report.findings: ...

    for result in accept_or_reject_pairs(pairs): ...  # AcceptedPair or RejectedPair, in order

A corpus is read twice: `statistics_and_models` collects statistics and a sample, and fits models to
them; then `rules` check each pair against these models.
"""

from __future__ import annotations

from seq2see.data.quality.analysis_and_filtering import (
    AcceptedPair,
    RejectedPair,
    accept_or_reject_pairs,
    analyze_corpus,
)
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
    TestPairsInCorpusCounts,
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
    "TestPairsInCorpusCounts",
    "UncoveredCharacters",
    "accept_or_reject_pairs",
    "analyze_corpus",
]
