"""Compare two systems on the same sentences: significance tests, and a word diff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from seq2see import metrics
from seq2see.evaluate.evaluation import EvaluationSet, MetricsConfig
from seq2see.metrics import MetricComparison, MetricStatistics
from seq2see.registries import MetricName

SIGNIFICANCE_LEVEL = 0.05
SENTENCE_METRIC: MetricName = "chrf"
"""Metric of single sentences, for which BLEU is not meaningful."""


@dataclass(frozen=True, slots=True)
class SentenceDifference:
    """A sentence that the two systems translate differently."""

    line: int
    """Line number, which starts at 1."""
    source: str | None
    reference: str
    first: str
    second: str
    gain: float
    """Score of the second system minus that of the first."""


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """The scores of two systems, with significance tests and differing sentences."""

    systems: tuple[str, str]
    """Names of the systems."""
    num_sentences: int
    metrics: Mapping[MetricName, MetricComparison]
    """Scores and significance tests of each metric."""
    differences: Sequence[SentenceDifference]
    """Sentences that are translated differently, largest difference first."""

    @property
    def wins(self) -> int:
        """Number of sentences that the second system translates better."""
        return sum(difference.gain > 0 for difference in self.differences)

    @property
    def losses(self) -> int:
        """Number of sentences that the first system translates better."""
        return sum(difference.gain < 0 for difference in self.differences)

    @property
    def identical(self) -> int:
        """Number of sentences with the same translation."""
        return self.num_sentences - len(self.differences)

    @property
    def verdict(self) -> str:
        """A sentence that names the better system, by the first metric and both tests."""
        first, second = self.systems
        if not self.differences:
            return f"{first} and {second} translate all {self.num_sentences:,} sentences the same."
        decisive, *others = self.metrics.values()
        better = _find_better(decisive)
        if better is None:
            return f"No significant difference: {_format_evidence(decisive)}."
        winner, loser = (first, second) if better == "first" else (second, first)
        opposite = [one.first.name for one in others if _find_better(one) not in {better, None}]
        but = f", but {' and '.join(opposite)} shows the opposite" if opposite else ""
        return f"{winner} is better than {loser}: {_format_evidence(decisive)}{but}."

    def to_json(self, max_differences: int) -> dict[str, Any]:
        """Return the comparison as JSON, with at most this number of differing sentences."""
        return {
            "systems": list(self.systems),
            "num_sentences": self.num_sentences,
            "verdict": self.verdict,
            "metrics": {
                name: {**asdict(one), "better": one.better} for name, one in self.metrics.items()
            },
            "wins": self.wins,
            "losses": self.losses,
            "identical": self.identical,
            "differences": [asdict(one) for one in self.differences[:max_differences]],
        }


def compare_systems(
    systems: tuple[str, str],
    first: Sequence[str],
    second: Sequence[str],
    evaluation_set: EvaluationSet,
    scoring: MetricsConfig | None = None,
    resamples: int | None = None,
) -> SystemComparison:
    """Compare the translations of two systems by every metric and both significance tests.

    `systems` are the names of the systems, `first` and `second` their translations. `resamples` is
    the number of resamples per test, by default 1,000 (bootstrap) and 10,000 (randomization).
    """
    scoring = scoring or MetricsConfig()
    options = scoring.metric_options(evaluation_set.target_language)
    statistics = {
        metric: MetricStatistics(metric, [first, second], evaluation_set.references, options)
        for metric in dict.fromkeys((*scoring.metrics, SENTENCE_METRIC))
    }
    results = {
        metric: metrics.compare_statistics(statistics[metric], resamples, scoring.seed)
        for metric in scoring.metrics
    }
    differences = find_differences(first, second, evaluation_set, statistics[SENTENCE_METRIC])
    return SystemComparison(systems, len(evaluation_set), results, differences)


def find_differences(
    first: Sequence[str],
    second: Sequence[str],
    evaluation_set: EvaluationSet,
    statistics: MetricStatistics,
) -> list[SentenceDifference]:
    """Return the sentences with different translations, largest difference of the metric first."""
    second_values = statistics.compute_sentence_values(1)
    gains = (second_values - statistics.compute_sentence_values(0)).tolist()
    sources: Sequence[str | None] = evaluation_set.sources or [None] * len(evaluation_set)
    rows = zip(sources, evaluation_set.references[0], first, second, gains, strict=True)
    differences = [SentenceDifference(line, *row) for line, row in enumerate(rows, 1)]
    return sorted(
        (each for each in differences if each.first != each.second),
        key=lambda difference: -abs(difference.gain),
    )


def _find_better(comparison: MetricComparison) -> str | None:
    """Return the better system if the difference is significant in both tests, otherwise None.

    The confidence interval must not contain 0 either. It is computed in another way than the
    p-value of the bootstrap, and a difference that may be 0 would not be convincing.
    """
    low, high = comparison.interval
    is_significant = max(comparison.p_values.values()) < SIGNIFICANCE_LEVEL
    return comparison.better if is_significant and not low <= 0 <= high else None


def _format_evidence(comparison: MetricComparison) -> str:
    first, second = comparison.first, comparison.second
    low, high = comparison.interval
    p_values = " and ".join(f"{p:.4f} by {test}" for test, p in comparison.p_values.items())
    return (
        f"{first.name} {first.value:.2f} and {second.value:.2f}, a difference of "
        f"{comparison.difference:+.2f} (95 % from {low:+.2f} to {high:+.2f}), p = {p_values}"
    )


DiffSide = Literal["both", "first", "second"]
_DIFF_TOKEN = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\s+|[^\w\s]"
)
"""A word, a punctuation mark or white space; Chinese and Japanese are split into characters."""


class DiffSpan(NamedTuple):
    """Text that occurs in both texts, or only in the first or the second."""

    side: DiffSide
    text: str


def diff_words(first: str, second: str) -> list[DiffSpan]:
    """Return the differences between two texts.

    All spans except those of side `second` are the first text, and the other way round.
    """
    spans = diff_tokens(_DIFF_TOKEN.findall(first), _DIFF_TOKEN.findall(second))
    return [DiffSpan(side, "".join(tokens)) for side, tokens in spans]


def diff_tokens(
    first: Sequence[str], second: Sequence[str]
) -> Iterator[tuple[DiffSide, Sequence[str]]]:
    """Yield runs of tokens that occur in both sequences, or only in the first or the second."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for operation, i1, i2, j1, j2 in matcher.get_opcodes():
        if operation == "equal":
            yield "both", first[i1:i2]
            continue
        if i1 < i2:
            yield "first", first[i1:i2]
        if j1 < j2:
            yield "second", second[j1:j2]
