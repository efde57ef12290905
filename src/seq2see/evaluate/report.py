"""What translations of a test set are worth."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from seq2see import metrics
from seq2see.evaluate.alignment import AlignmentReport
from seq2see.evaluate.held_out import HeldOut
from seq2see.evaluate.lengths import Bucket, by_length
from seq2see.evaluate.pronouns import Pronouns, pronouns
from seq2see.evaluate.scoring import ScoringConfig, score_records
from seq2see.metrics import Judge, MetricName, Score
from seq2see.translator import Translation, TranslationOptions, Translator


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Translations of a test set, and all that was counted in them."""

    name: str
    texts: Sequence[str]
    scores: Mapping[MetricName, Score]
    buckets: Sequence[Bucket]
    pronouns: Pronouns | None = None
    """On fables."""
    alignment: AlignmentReport | None = None
    """On fables, by a model."""
    flags: Mapping[str, int] = field(default_factory=dict)
    """What the translator noticed, and in how many lines."""
    errors: Mapping[int, str] = field(default_factory=dict)
    """Why a line, from 1 on, has no translation."""
    seconds: float | None = None
    """How long translating took."""

    def to_json(self) -> dict[str, Any]:
        """Return it for machines, without the texts."""
        return {
            "test": self.name,
            "sentences": len(self.texts),
            "scores": score_records(self.scores),
            "lengths": [asdict(bucket) for bucket in self.buckets],
            "pronouns": asdict(self.pronouns) if self.pronouns else None,
            "alignment": self.alignment.to_json() if self.alignment else None,
            "flags": dict(self.flags),
            "errors": dict(self.errors),
            "seconds": self.seconds,
        }


def judged(
    texts: Sequence[str], held_out: HeldOut, scoring: ScoringConfig | None = None
) -> Evaluation:
    """Score translations that are there already."""
    scoring = scoring or ScoringConfig()
    options = scoring.options(held_out.language)
    judges = {
        metric: Judge(metric, [texts], held_out.references, options) for metric in scoring.metrics
    }
    scores = {
        metric: metrics.score_of(judge, scoring.samples, scoring.seed)
        for metric, judge in judges.items()
    }
    said = pronouns(held_out.fables, texts) if held_out.fables else None
    return Evaluation(held_out.name, texts, scores, by_length(judges, held_out.lengths), said)


def evaluate(
    translator: Translator,
    held_out: HeldOut,
    options: TranslationOptions | None = None,
    scoring: ScoringConfig | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> Evaluation:
    """Translate every source and score the whole; `told` hears how many are done."""
    scoring = scoring or ScoringConfig()
    metrics.refuse(scoring.metrics, **scoring.options(held_out.language))
    began = time.perf_counter()
    found = translated(translator, held_out, options, told)
    seconds = time.perf_counter() - began
    report = judged([translation.text for translation in found], held_out, scoring)
    return replace(
        report,
        flags=Counter(str(flag) for translation in found for flag in translation.flags),
        errors={line: t.error for line, t in enumerate(found, 1) if t.error is not None},
        seconds=seconds,
    )


def translated(
    translator: Translator,
    held_out: HeldOut,
    options: TranslationOptions | None = None,
    told: Callable[[int], None] = lambda _: None,
) -> list[Translation]:
    """Translate every source."""
    assert held_out.sources is not None
    found = []
    for translation in translator.stream(held_out.sources, options):
        found.append(translation)
        told(len(found))
    return found
