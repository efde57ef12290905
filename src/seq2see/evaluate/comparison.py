"""Compare two systems on the same sentences: significance tests, and a word diff."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from seq2see import metrics
from seq2see.evaluate.evaluation import ScoringConfig, score_record
from seq2see.evaluate.evaluation_set import HeldOut
from seq2see.metrics import Comparison, Judge, MetricName, MetricScore, Test

SIGNIFICANT = 0.05


PER_SENTENCE: MetricName = "chrf"
"""What single sentences are compared by: BLEU says little about one."""


@dataclass(frozen=True, slots=True)
class Difference:
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

    names: tuple[str, str]
    sentences: int
    tests: Mapping[MetricName, Mapping[Test, Comparison]]
    differences: Sequence[Difference]
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
    def alike(self) -> int:
        """Sentences with the same words."""
        return self.sentences - len(self.differences)

    @property
    def verdict(self) -> str:
        """One sentence that says who is better, by the first metric and both tests."""
        first, second = self.names
        if not self.differences:
            return f"{first} and {second} translate all {self.sentences:,} sentences alike."
        decisive, *others = self.tests.values()
        better = _better(decisive)
        if better is None:
            return f"No difference can be shown: {_evidence(decisive)}."
        winner, loser = (first, second) if better == "first" else (second, first)
        contrary = [
            _any(tests).first.name for tests in others if _better(tests) not in {better, None}
        ]
        but = f", but {' and '.join(contrary)} says the contrary" if contrary else ""
        return f"{winner} is better than {loser}: {_evidence(decisive)}{but}."

    def to_json(self, differences: int) -> dict[str, Any]:
        """Return it for machines, with so many of the differences."""
        return {
            "systems": list(self.names),
            "sentences": self.sentences,
            "verdict": self.verdict,
            "metrics": {name: _record(tests) for name, tests in self.tests.items()},
            "wins": self.wins,
            "losses": self.losses,
            "alike": self.alike,
            "differences": [asdict(d) for d in self.differences[:differences]],
        }


def compared(
    names: tuple[str, str],
    first: Sequence[str],
    second: Sequence[str],
    held_out: HeldOut,
    scoring: ScoringConfig | None = None,
    trials: int | None = None,
) -> SystemComparison:
    """Compare the translations of two systems by every metric and both tests.

    `trials` is how often each test draws, instead of as often as it usually does.
    """
    scoring = scoring or ScoringConfig()
    options, references = scoring.options(held_out.language), held_out.references
    judges = {
        metric: Judge(metric, [first, second], references, options)
        for metric in dict.fromkeys((*scoring.metrics, PER_SENTENCE))
    }
    tests = {
        metric: metrics.comparisons(judges[metric], samples=trials, seed=scoring.seed)
        for metric in scoring.metrics
    }
    found = differences(first, second, held_out, judges[PER_SENTENCE])
    return SystemComparison(names, len(held_out), tests, found)


def differences(
    first: Sequence[str], second: Sequence[str], held_out: HeldOut, judge: Judge
) -> list[Difference]:
    """Return the sentences with other words, those with the largest difference first."""
    gains = (judge.sentence_values(1) - judge.sentence_values(0)).tolist()
    found = [
        Difference(
            place + 1,
            None if held_out.sources is None else held_out.sources[place],
            held_out.references[0][place],
            first[place],
            second[place],
            gains[place],
        )
        for place in range(len(held_out))
        if first[place] != second[place]
    ]
    return sorted(found, key=lambda difference: -abs(difference.gain))


def _any(tests: Mapping[Test, Comparison]) -> Comparison:
    return next(iter(tests.values()))


def _better(tests: Mapping[Test, Comparison]) -> str | None:
    """Return who is better, if both tests say that it is no chance.

    The interval must say so too: it is drawn otherwise than the p-value of the bootstrap, and a
    reader would not believe in a difference that may be 0.
    """
    low, high = _any(tests).interval
    shown = all(comparison.p_value < SIGNIFICANT for comparison in tests.values())
    return _any(tests).better if shown and not low <= 0 <= high else None


def _evidence(tests: Mapping[Test, Comparison]) -> str:
    one = _any(tests)
    low, high = one.interval
    p_values = " and ".join(f"{c.p_value:.4f} by {test}" for test, c in tests.items())
    return (
        f"{one.first.name} {one.first.value:.2f} and {one.second.value:.2f}, a difference of "
        f"{one.difference:+.2f} (95 % from {low:+.2f} to {high:+.2f}), p = {p_values}"
    )


def _record(tests: Mapping[Test, Comparison]) -> dict[str, Any]:
    one = _any(tests)
    sides: dict[str, MetricScore] = {"first": one.first, "second": one.second}
    return {
        **{side: score_record(score) for side, score in sides.items()},
        "difference": one.difference,
        "interval": list(one.interval),
        "better": one.better,
        "tests": {
            test: {"p_value": comparison.p_value, "signature": comparison.signature}
            for test, comparison in tests.items()
        },
    }


Side = Literal["both", "first", "second"]


_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\s+|[^\w\s]")
"""A word, a mark, white space; where words have no spaces between them, a character."""


class Stretch(NamedTuple):
    """Words that both texts have, or one of them."""

    side: Side
    text: str


def word_diff(first: str, second: str) -> list[Stretch]:
    """Return both texts as one. What is not of `second` alone adds up to the first, and so on."""
    return list(_stretches(_UNIT.findall(first), _UNIT.findall(second)))


def _stretches(first: list[str], second: list[str]) -> Iterator[Stretch]:
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield Stretch("both", "".join(first[a:b]))
            continue
        if a < b:
            yield Stretch("first", "".join(first[a:b]))
        if c < d:
            yield Stretch("second", "".join(second[c:d]))
