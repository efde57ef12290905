"""Experiments: measurements over seeds, rules that turn them into verdicts, and registration.

An experiment is a function from a `Context` (one seed) to numbers. The runner calls it once per
seed. `Part.decide` computes the verdict of each statement of the claim from all measurements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from seq2see.lab.texts import ExperimentTexts, PartTexts, Text, load_all_texts, word

if TYPE_CHECKING:
    import torch
    from torch import Generator, Tensor

    from seq2see.bundle import Bundle
    from seq2see.lab.figures import DeclaredFigure
    from seq2see.lab.training import TrainedModel, TrainingSpec

T_95 = (6.3138, 2.92, 2.3534, 2.1318, 2.015, 1.9432, 1.8946, 1.8595, 1.8331)
"""95 % quantiles of Student's t-distribution by degrees of freedom from 1."""
MAX_SEEDS = len(T_95) + 1

Numbers = Mapping[str, Any]
"""What an experiment returns: a float for each quantity of its TOML file; other names are arrays
(tensors, lists) that figures refer to."""


class Verdict(StrEnum):
    """What the measurements say about a statement."""

    HOLDS = "holds"
    HOLDS_IF = "holds if"
    PARTLY = "partly"
    """Only of a claim whose parts have different verdicts."""
    FALSE = "false"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A quantity, measured once per seed; `{name:.2f}` and `{name.low:.2f}` in sentences."""

    name: str
    values: tuple[float, ...]
    is_log: bool = False
    """Ratios and losses: the geometric mean, and the interval of the logarithm."""

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        if len(set(self.values)) == 1:
            return self.values[0]
        if self.is_log:
            return _exp(fmean(_log(value) for value in self.values))
        return fmean(self.values)

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % t-interval of the mean; the value itself if all values are equal.

        NaN if a value is not finite (a diverged training), so that no check is met.
        """
        if len(set(self.values)) == 1:
            return self.values[0], self.values[0]
        values = [_log(value) for value in self.values] if self.is_log else list(self.values)
        if not all(map(math.isfinite, values)):
            return math.nan, math.nan
        mean, half = fmean(values), T_95[len(values) - 2] * stdev(values) / len(values) ** 0.5
        return (_exp(mean - half), _exp(mean + half)) if self.is_log else (mean - half, mean + half)

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.interval[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.interval[1]

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec) if spec else format_number(self.mean)

    def __str__(self) -> str:
        if self.low == self.high:
            return format_number(self.mean)
        low, high = map(format_number, self.interval)
        return f"{format_number(self.mean)} ({low} … {high})"


def _log(value: float) -> float:
    return math.log(value) if value > 0 else (-math.inf if value == 0 else math.nan)


def _exp(value: float) -> float:
    return math.exp(value) if value < 709 else math.inf


def format_number(value: float) -> str:
    """Return integers in full and other numbers with four digits."""
    if not math.isfinite(value):
        return str(value).replace("inf", "∞")
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    digits = 6 if 0.99 < abs(value) < 1.01 else 4
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e")


@dataclass(frozen=True, slots=True)
class Check:
    """Bounds of a measurement. It is met if the whole interval over seeds lies inside."""

    name: str
    low: float = -math.inf
    high: float = math.inf

    def is_met(self, found: Mapping[str, Measurement]) -> bool:
        """Return whether the measurement with this name is inside the bounds; NaN never is."""
        low, high = found[self.name].interval
        return self.low <= low and high <= self.high

    def __str__(self) -> str:
        low, high = format_number(self.low), format_number(self.high)
        if self.low == self.high:
            return f"{self.name} = {low}"
        if math.isinf(self.high):
            return f"{self.name} ≥ {low}"
        return f"{self.name} ≤ {high}" if math.isinf(self.low) else f"{low} ≤ {self.name} ≤ {high}"


def at_least(name: str, value: float) -> Check:
    """Require this value or more."""
    return Check(name, low=value)


def at_most(name: str, value: float) -> Check:
    """Require this value or less."""
    return Check(name, high=value)


def between(name: str, low: float, high: float) -> Check:
    """Require a value from `low` to `high`."""
    return Check(name, low, high)


def near(name: str, value: float, tolerance: float) -> Check:
    """Require a value that differs by at most `tolerance`."""
    return Check(name, value - tolerance, value + tolerance)


@dataclass(frozen=True, slots=True)
class Case:
    """A verdict and the checks that lead to it, all of which must be met."""

    verdict: Verdict
    checks: tuple[Check, ...]
    text: str
    """Name of its sentence in the TOML file."""

    def is_met(self, found: Mapping[str, Measurement]) -> bool:
        """Return whether all checks are met."""
        return all(check.is_met(found) for check in self.checks)


def holds(*checks: Check, text: str = "holds") -> Case:
    """Return a case in which the statement holds."""
    return Case(Verdict.HOLDS, checks, text)


def holds_if(*checks: Check, text: str = "holds_if") -> Case:
    """Return a case in which the statement holds under a condition, which was varied."""
    return Case(Verdict.HOLDS_IF, checks, text)


def false(*checks: Check, text: str = "false") -> Case:
    """Return a case in which the statement is false."""
    return Case(Verdict.FALSE, checks, text)


def undecided(*checks: Check, text: str = "undecided") -> Case:
    """Return a published "undecided" with its own sentence; it applies only if no other case does.

    Without checks it applies to all numbers that meet no other case.
    """
    return Case(Verdict.UNDECIDED, checks, text)


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict on one part."""

    part: str
    verdict: Verdict
    text: Text
    as_published: bool


class Part:
    """One statement of a claim: its cases (the first is the published one), and its controls.

    Controls are checks without which nothing is decided, such as that the model learned its task.
    """

    def __init__(
        self, name: str, *cases: Case, controls: Sequence[Check] = (), needs_full: bool = False
    ) -> None:
        self.name = name
        self.cases = cases
        self.controls = tuple(controls)
        self.needs_full = needs_full

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks of cases and controls."""
        return (*self.controls, *(check for case in self.cases for check in case.checks))

    def decide(
        self, found: Mapping[str, Measurement], texts: PartTexts, full: bool = True
    ) -> Conclusion:
        """Return the conclusion of the first case that is met; UNDECIDED if there is none."""
        if self.needs_full and not full:
            return Conclusion(self.name, Verdict.UNDECIDED, word("needs_full"), True)
        for check in self.controls:
            if not check.is_met(found):
                text = word("control").format(check=check, numbers=_list_numbers([check], found))
                return Conclusion(self.name, Verdict.UNDECIDED, text, False)
        for case in sorted(self.cases, key=lambda case: case.verdict == Verdict.UNDECIDED):
            if case.is_met(found):
                text = texts.sentences[case.text].format(**found)
                return Conclusion(self.name, case.verdict, text, case is self.cases[0])
        text = word("no_rule").format(numbers=_list_numbers(self.checks, found))
        return Conclusion(self.name, Verdict.UNDECIDED, text, False)


def _list_numbers(checks: Sequence[Check], found: Mapping[str, Measurement]) -> str:
    names = dict.fromkeys(check.name for check in checks)
    return ", ".join(f"{name} = {found[name]}" for name in names)


@dataclass(frozen=True)
class Context:
    """What an experiment may use for one seed."""

    number: int
    seed: int
    full: bool = False
    """Whether larger sizes may be used; it must not change a rule."""
    trained: Mapping[str, TrainedModel] = field(default_factory=dict)
    """The models of the declared trainings by name, loaded from their files."""
    load_translator: Callable[[], Bundle] | None = None

    @cached_property
    def translator(self) -> Bundle:
        """The English–French translator of fables; the experiment has `needs_translator`."""
        assert self.load_translator, f"experiment {self.number} needs `needs_translator=True`"
        return self.load_translator()

    def mix_seed(self, name: str) -> int:
        """Return a seed that depends on the experiment, the seed and a name."""
        digest = sha256(f"{self.number} {self.seed} {name}".encode()).digest()
        return int.from_bytes(digest[:7])

    def rng(self, name: str) -> Generator:
        """Return a generator of random numbers that are independent of those of other names."""
        import torch  # noqa: PLC0415 listing experiments does not need torch

        return torch.Generator().manual_seed(self.mix_seed(name))

    def normal(self, name: str, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Draw from N(0, 1), by default in float32."""
        import torch  # noqa: PLC0415 listing experiments does not need torch

        return torch.randn(shape, dtype=dtype, generator=self.rng(name))


Measure = Callable[[Context], Numbers]
Trainings = Mapping[str, "TrainingSpec"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment with its rules and texts."""

    number: int
    measure: Measure
    parts: tuple[Part, ...]
    texts: ExperimentTexts
    figures: tuple[DeclaredFigure, ...]
    log: frozenset[str]
    needs_translator: bool
    trainings: Trainings | Callable[[bool], Trainings]

    def get_trainings(self, full: bool) -> Trainings:
        """Return the trainings by name."""
        return self.trainings(full) if callable(self.trainings) else self.trainings

    def combine(self, per_seed: Sequence[Numbers]) -> tuple[Measurement, ...]:
        """Return the measurements from the numbers of each seed, in the order of the quantities."""
        names = [name for name in per_seed[0] if self.texts.find_quantity(name)]
        return tuple(
            Measurement(
                name, tuple(float(numbers[name]) for numbers in per_seed), self._is_log(name)
            )
            for name in names
        )

    def decide(self, found: Sequence[Measurement], full: bool = True) -> tuple[Conclusion, ...]:
        """Return the conclusion of each part."""
        by_name = {each.name: each for each in found}
        return tuple(p.decide(by_name, self.texts.parts[p.name], full) for p in self.parts)

    def _is_log(self, name: str) -> bool:
        return any(
            name == key or (key.endswith("*") and name.startswith(key[:-1])) for key in self.log
        )


REGISTERED: dict[int, Experiment] = {}
"""The experiments whose modules were imported; `runner.load_experiment` imports them."""


def experiment(
    number: int,
    *parts: Part,
    trainings: Trainings | Callable[[bool], Trainings] | None = None,
    needs_translator: bool = False,
    log: Sequence[str] = (),
    figures: Sequence[DeclaredFigure] = (),
) -> Callable[[Measure], Measure]:
    """Register the function below as an experiment.

    Args:
        number: Number of the experiment, which is its table in the TOML file.
        parts: The statements of the claim, each with a table of its name in the TOML file.
        trainings: Models to train, or a function of `full` that returns them.
        needs_translator: Whether `context.translator` is used.
        log: Quantities that are ratios or losses; a `*` at the end matches any text.
        figures: Declared figures.
    """
    texts = load_all_texts()[number]
    assert [part.name for part in parts] == list(texts.parts), f"experiment {number}: parts differ"
    assert texts.trains == bool(trainings or needs_translator), f"experiment {number}: `trains`"

    def register(measure: Measure) -> Measure:
        REGISTERED[number] = Experiment(
            number, measure, parts, texts, tuple(figures), frozenset(log), needs_translator,
            trainings or {},
        )  # fmt: skip
        return measure

    return register
