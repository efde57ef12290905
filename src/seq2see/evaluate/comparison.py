"""Compare two systems on the same sentences: significance tests, and a word diff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from seq2see import metrics
from seq2see.evaluate.evaluation import ScoringConfig, score_to_json
from seq2see.evaluate.evaluation_set import EvaluationSet
from seq2see.metrics import (
    MetricComparison,
    MetricName,
    MetricScore,
    MetricStatistics,
    SignificanceTest,
)

SIGNIFICANCE_LEVEL = 0.05


SENTENCE_METRIC: MetricName = "chrf"
"""What single sentences are compared by: BLEU says little about one."""


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """A sentence that the systems translate differently."""

    line: int
    """From 1 on."""
    source: str | None
    reference: str
    first: str
    second: str
    gain: float
    """What the second has more of the metric; negative where the first is better."""


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """What can be said about two systems."""

    systems: tuple[str, str]
    num_sentences: int
    metrics: Mapping[MetricName, Mapping[SignificanceTest, MetricComparison]]
    differences: Sequence[SentenceDifference]
    """Of all sentences with other words, the largest first."""

    @property
    def wins(self) -> int:
        """Sentences that the second translates better."""
        return sum(difference.gain > 0 for difference in self.differences)

    @property
    def losses(self) -> int:
        """Sentences that the first translates better."""
        return sum(difference.gain < 0 for difference in self.differences)

    @property
    def identical(self) -> int:
        """Sentences with the same words."""
        return self.num_sentences - len(self.differences)

    @property
    def verdict(self) -> str:
        """One sentence that says who is better, by the first metric and both tests."""
        first, second = self.systems
        if not self.differences:
            return f"{first} and {second} translate all {self.num_sentences:,} sentences alike."
        decisive, *others = self.metrics.values()
        better = _better(decisive)
        if better is None:
            return f"No difference can be shown: {_evidence(decisive)}."
        winner, loser = (first, second) if better == "first" else (second, first)
        contrary = [
            _any(tests).first.name for tests in others if _better(tests) not in {better, None}
        ]
        but = f", but {' and '.join(contrary)} says the contrary" if contrary else ""
        return f"{winner} is better than {loser}: {_evidence(decisive)}{but}."

    def to_json(self, max_differences: int) -> dict[str, Any]:
        """Return it for machines, with so many of the differences."""
        return {
            "systems": list(self.systems),
            "num_sentences": self.num_sentences,
            "verdict": self.verdict,
            "metrics": {name: _record(tests) for name, tests in self.metrics.items()},
            "wins": self.wins,
            "losses": self.losses,
            "identical": self.identical,
            "differences": [asdict(d) for d in self.differences[:max_differences]],
        }


def compare_systems(
    systems: tuple[str, str],
    first: Sequence[str],
    second: Sequence[str],
    evaluation_set: EvaluationSet,
    scoring: ScoringConfig | None = None,
    resamples: int | None = None,
) -> SystemComparison:
    """Compare the translations of two systems by every metric and both tests.

    `trials` is how often each test draws, instead of as often as it usually does.
    """
    scoring = scoring or ScoringConfig()
    options, references = (
        scoring.metric_options(evaluation_set.target_language),
        evaluation_set.references,
    )
    judges = {
        metric: MetricStatistics(metric, [first, second], references, options)
        for metric in dict.fromkeys((*scoring.metrics, SENTENCE_METRIC))
    }
    tests = {
        metric: metrics.compare_statistics(judges[metric], samples=resamples, seed=scoring.seed)
        for metric in scoring.metrics
    }
    found = find_differences(first, second, evaluation_set, judges[SENTENCE_METRIC])
    return SystemComparison(systems, len(evaluation_set), tests, found)


def find_differences(
    first: Sequence[str],
    second: Sequence[str],
    evaluation_set: EvaluationSet,
    metric: MetricStatistics,
) -> list[SentenceDifference]:
    """Return the sentences with other words, those with the largest difference first."""
    gains = (metric.compute_sentence_values(1) - metric.compute_sentence_values(0)).tolist()
    found = [
        SentenceDifference(
            place + 1,
            None if evaluation_set.sources is None else evaluation_set.sources[place],
            evaluation_set.references[0][place],
            first[place],
            second[place],
            gains[place],
        )
        for place in range(len(evaluation_set))
        if first[place] != second[place]
    ]
    return sorted(found, key=lambda difference: -abs(difference.gain))


def _any(tests: Mapping[SignificanceTest, MetricComparison]) -> MetricComparison:
    return next(iter(tests.values()))


def _better(tests: Mapping[SignificanceTest, MetricComparison]) -> str | None:
    """Return who is better, if both tests say that it is no chance.

    The interval must say so too: it is drawn otherwise than the p-value of the bootstrap, and a
    reader would not believe in a difference that may be 0.
    """
    low, high = _any(tests).interval
    shown = all(comparison.p_value < SIGNIFICANCE_LEVEL for comparison in tests.values())
    return _any(tests).better if shown and not low <= 0 <= high else None


def _evidence(tests: Mapping[SignificanceTest, MetricComparison]) -> str:
    one = _any(tests)
    low, high = one.interval
    p_values = " and ".join(f"{c.p_value:.4f} by {test}" for test, c in tests.items())
    return (
        f"{one.first.name} {one.first.value:.2f} and {one.second.value:.2f}, a difference of "
        f"{one.difference:+.2f} (95 % from {low:+.2f} to {high:+.2f}), p = {p_values}"
    )


def _record(tests: Mapping[SignificanceTest, MetricComparison]) -> dict[str, Any]:
    one = _any(tests)
    sides: dict[str, MetricScore] = {"first": one.first, "second": one.second}
    return {
        **{side: score_to_json(score) for side, score in sides.items()},
        "difference": one.difference,
        "interval": list(one.interval),
        "better": one.better,
        "tests": {
            test: {"p_value": comparison.p_value, "signature": comparison.signature}
            for test, comparison in tests.items()
        },
    }


DiffSide = Literal["both", "first", "second"]


_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\s+|[^\w\s]")
"""A word, a mark, white space; where words have no spaces between them, a character."""


class DiffSpan(NamedTuple):
    """Words that both texts have, or one of them."""

    side: DiffSide
    text: str


def diff_words(first: str, second: str) -> list[DiffSpan]:
    """Return both texts as one. What is not of `second` alone adds up to the first, and so on."""
    return list(_stretches(_UNIT.findall(first), _UNIT.findall(second)))


def _stretches(first: list[str], second: list[str]) -> Iterator[DiffSpan]:
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield DiffSpan("both", "".join(first[a:b]))
            continue
        if a < b:
            yield DiffSpan("first", "".join(first[a:b]))
        if c < d:
            yield DiffSpan("second", "".join(second[c:d]))
