"""How translations are scored: the settings, and BLEU and chrF at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from seq2see import metrics
from seq2see.config import Config
from seq2see.metrics import SEED, MetricName, Options, Score, Tokenization


class ScoringConfig(Config):
    """What a report counts, and how."""

    metrics: tuple[MetricName, ...] = Field(default=("bleu", "chrf", "ter", "exact"), min_length=1)
    """The first one decides where one must."""
    tokenize: Tokenization | None = None
    """How BLEU finds words, instead of the language's own way."""
    lowercase: bool | None = None
    """Ignore case; as usual for each metric unless given."""
    samples: int = Field(default=1000, ge=0, le=1_000_000)
    """Resampled test sets for the intervals; 0 is none."""
    seed: int = Field(default=SEED, ge=0)
    """Of the resampling."""

    def options(self, language: str | None) -> Options:
        """Return what stands in the signatures."""
        return {"language": language, "tokenize": self.tokenize, "lowercase": self.lowercase}


def scored(texts: list[str], references: list[str], language: str) -> dict[str, Score]:
    """Return BLEU and chrF, by their names: of characters, where what finds words is missing."""
    way = metrics.at_hand(language)
    found = metrics.scores(texts, references, ("bleu", "chrf"), language=language, tokenize=way)
    return {str(name): score for name, score in found.items()}


def score_record(score: Score) -> dict[str, Any]:
    """Return a score as JSON has it."""
    record: dict[str, Any] = {"value": score.value, "signature": score.signature}
    if score.interval:
        record["interval"] = list(score.interval)
    if score.details:
        details = score.details
        record |= {
            "precisions": list(details.precisions),
            "brevity_penalty": details.brevity_penalty,
            "length_ratio": details.hypothesis_length / max(1, details.reference_length),
        }
    return record


def score_records(scores: Mapping[MetricName, Score]) -> dict[str, Any]:
    """Return several, by their names."""
    return {name: score_record(score) for name, score in scores.items()}
