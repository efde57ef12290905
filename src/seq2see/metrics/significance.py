"""Whether two systems differ by more than chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

from seq2see.errors import InputError
from seq2see.metrics.judge import Floats, Judge, Lines, MetricName, Options, References, Score
from seq2see.metrics.resampling import (
    SEED,
    centred,
    check_samples,
    middle,
    resampled_differences,
    swapped_differences,
)

Test = Literal["bootstrap", "randomisation"]

_TRIALS: Mapping[Test, int] = {"bootstrap": 1000, "randomisation": 10_000}
_KEYS: Mapping[Test, str] = {"bootstrap": "bs", "randomisation": "ar"}
"""In the signature."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same sentences."""

    first: Score
    second: Score
    difference: float
    """Second minus first."""
    interval: tuple[float, float]
    """Of the difference on 95 % of the resampled test sets."""
    p_value: float
    """How likely a difference at least as large is if the systems are equally good."""
    test: Test
    signature: str

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system that is better, whether or not the difference means something."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def compare(
    first: Lines,
    second: Lines,
    references: References,
    metric: MetricName = "bleu",
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = SEED,
    **options: Unpack[Options],
) -> Comparison:
    """Tell whether two systems differ by more than the choice of sentences would explain.

    `bootstrap` draws sentences with replacement (1,000 times unless `samples` says otherwise),
    `randomisation` swaps the systems' outputs at random (10,000 times).
    """
    if test not in _TRIALS:
        raise InputError(f"`test` must be one of {', '.join(_TRIALS)}, but is {test} instead")
    judge = Judge(metric, [first, second], references, options)
    return comparisons(judge, (test,), samples, seed)[test]


def comparisons(
    judge: Judge,
    tests: Sequence[Test] = get_args(Test),
    samples: int | None = None,
    seed: int = SEED,
) -> dict[Test, Comparison]:
    """Compare the two systems that a judge has counted, by several tests on the same samples."""
    trials = {test: _trials(test, samples) for test in tests}
    most = max(counts["bs"] for counts in trials.values())
    resampled = resampled_differences(judge, most, seed)
    return {
        test: _comparison(judge, test, counts, seed, resampled[: counts["bs"]])
        for test, counts in trials.items()
    }


def _trials(test: Test, samples: int | None) -> dict[str, int]:
    """Return how often to draw, as the signature has it. The interval is of the bootstrap's usual
    samples where the test draws others."""
    own = _TRIALS[test] if samples is None else samples
    check_samples(own)
    return {"bs": _TRIALS["bootstrap"], _KEYS[test]: own}


def _comparison(
    judge: Judge, test: Test, trials: Mapping[str, int], seed: int, resampled: Floats
) -> Comparison:
    ours, theirs = map(judge.score, judge.stats)
    difference = theirs.value - ours.value
    if test == "bootstrap":
        by_chance = centred(resampled)
    else:
        by_chance = swapped_differences(judge, trials["ar"], seed)
    return Comparison(
        ours,
        theirs,
        difference,
        middle(resampled),
        _p_value(by_chance, difference),
        test,
        judge.signature(seed=seed, **trials),
    )


_ROUNDING = 1e-9
"""Differences that are the same, summed in another order."""


def _p_value(by_chance: Floats, difference: float) -> float:
    """Return how often chance does as much; never 0, which no number of samples can show.

    sacrebleu counts only what does more. That calls a system significantly different from itself,
    and two sentences enough to tell.
    """
    as_much = by_chance >= abs(difference) - _ROUNDING
    return (int(as_much.sum()) + 1) / (len(by_chance) + 1)
