"""The frame of an experiment: a claim, a prediction, numbers that were expected, and a verdict.

The lab is a test of the project too: a measurement that is not as expected fails its experiment,
whatever the verdict on the claim. A claim that is false is an experiment that succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, Literal

from seq2see.lab.old.expectation import NOTED, Expectation, number

if TYPE_CHECKING:
    from seq2see.lab.old.bench import Bench

Language = Literal["en", "zh"]
Note = Literal["S0", "S1", "S2", "S3", "S4"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words in both languages of the lab."""

    en: str
    zh: str

    def said(self, language: Language) -> str:
        """Return it in this language."""
        return self.zh if language == "zh" else self.en

    def record(self) -> dict[Language, str]:
        """Return it as plain JSON."""
        return {"en": self.en, "zh": self.zh}


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    HOLDS_IF = "holds if"
    FALSE = "false"
    OPEN = "open"
    """A null result: what was measured does not decide it."""

    @property
    def text(self) -> Text:
        """How it reads, in front of its reason."""
        return _VERDICTS[self]


_VERDICTS = {
    Verdict.HOLDS: Text("holds", "成立"),
    Verdict.HOLDS_IF: Text("holds if …", "有条件地成立"),
    Verdict.FALSE: Text("false", "不成立"),
    Verdict.OPEN: Text("not decided here", "此处无定论"),
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, what it is, and what was expected of it."""

    what: Text
    value: float
    expected: Expectation = NOTED
    values: tuple[float, ...] = ()
    """What it is the mean of, seed by seed."""

    @classmethod
    def mean(
        cls, what: Text, values: Sequence[float], expected: Expectation = NOTED
    ) -> Measurement:
        """Measure the mean over seeds; the spread is shown with it."""
        return cls(what, fmean(values), expected, tuple(values))

    @property
    def met(self) -> bool:
        """Whether it is as expected."""
        return self.expected.met(self.value)

    @property
    def mark(self) -> str:
        """A sign for it: as expected, or not, or merely noted."""
        if not self.met:
            return "✗"
        return "·" if self.expected == NOTED else "✓"

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, if there are several."""
        return stdev(self.values) if len(self.values) > 1 else None

    def __str__(self) -> str:
        shown = number(self.value, self.expected.tolerance)
        if self.spread is None:
            return shown
        return f"{shown} (σ {self.spread:.2g}, n = {len(self.values)})"


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture of what was measured, as SVG. `seq2see.lab.old.pictures` draws them."""

    caption: Text
    svg: str
    """Its words in English."""
    words: tuple[Text, ...] = ()
    """Those of them that have a translation."""

    def drawn(self, language: Language) -> str:
        """Return the picture with its words in this language."""
        svg = self.svg
        for word in self.words if language == "zh" else ():
            svg = svg.replace(f">{escape(word.en, False)}<", f">{escape(word.zh, False)}<")
        return svg


@dataclass(frozen=True, slots=True)
class Finding:
    """What came out of an experiment."""

    verdict: Verdict
    reason: Text
    """Behind "holds because", "holds if" or "false, because": whole sentences."""
    measurements: tuple[Measurement, ...]
    figures: tuple[Figure, ...] = ()

    @property
    def met(self) -> bool:
        """Whether every measurement is as expected."""
        return all(measurement.met for measurement in self.measurements)


Run = Callable[["Bench"], Finding]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A claim and how it is tried."""

    number: int
    title: Text
    notes: tuple[Note, ...]
    """Which of the study notes make the claim."""
    claim: Text
    prediction: Text
    run: Run = field(repr=False)
    trains: bool = False
    """Whether it trains small models."""
    translates: bool = False
    """Whether it needs the translator of fables."""
    needs_full: bool = False
    """Whether it takes too long for anything but `--full`."""

    def record(self) -> dict[str, Any]:
        """Return what is known before it runs, as plain JSON."""
        return {
            "number": self.number,
            "title": self.title.record(),
            "notes": list(self.notes),
            "claim": self.claim.record(),
            "prediction": self.prediction.record(),
            "trains": self.trains,
            "needs_full": self.needs_full,
        }


EXPERIMENTS: dict[int, Experiment] = {}
"""Every experiment that was imported, by its number. Ask `registry` for all of them."""


def experiment(
    number: int,
    title: Text,
    notes: str,
    claim: Text,
    prediction: Text,
    *,
    trains: bool = False,
    translates: bool = False,
    needs_full: bool = False,
) -> Callable[[Run], Run]:
    """Register the function below as an experiment. `notes` are names with spaces: "S0 S4"."""

    def register(run: Run) -> Run:
        assert number not in EXPERIMENTS, f"there are two experiments {number}"
        EXPERIMENTS[number] = Experiment(
            number, title, _notes(notes), claim, prediction, run, trains, translates, needs_full
        )
        return run

    return register


def _notes(names: str) -> tuple[Note, ...]:
    known: tuple[Note, ...] = ("S0", "S1", "S2", "S3", "S4")
    assert set(names.split()) <= set(known), names
    return tuple(note for note in known if note in names.split())
