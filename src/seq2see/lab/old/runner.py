"""Runs experiments one after the other, each from the same start whatever ran before it."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.experiment import Experiment, Finding, Measurement

Status = Literal["met", "failed", "needs --full"]
Announce = Callable[[Experiment], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an experiment."""

    experiment: Experiment
    finding: Finding | None
    seconds: float = 0.0
    error: str = ""
    """Why there is no finding, if the experiment broke."""

    @property
    def status(self) -> Status:
        """Whether every number was as expected."""
        if self.finding is None and not self.error:
            return "needs --full"
        return "met" if self.finding is not None and self.finding.met else "failed"

    def record(self) -> dict[str, Any]:
        """Return it as plain JSON, without the pictures."""
        finding = self.finding
        return {
            **self.experiment.record(),
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "error": self.error or None,
            "verdict": finding and finding.verdict.value,
            "reason": finding and finding.reason.record(),
            "measurements": [_measured(m) for m in finding.measurements] if finding else [],
        }


def run(experiments: Sequence[Experiment], bench: Bench, announce: Announce) -> Iterator[Outcome]:
    """Yield the outcome of each. What breaks is an outcome too: the others still run."""
    if len(experiments) > 1 and any(each.translates for each in experiments):
        bench.begin_fables()
    for each in experiments:
        announce(each)
        yield run_one(each, bench)


def run_one(each: Experiment, bench: Bench) -> Outcome:
    """Run an experiment, if there is time for it."""
    if each.needs_full and not bench.full:
        return Outcome(each, None)
    start = time.perf_counter()
    torch.manual_seed(each.number)
    torch.set_num_threads(bench.threads)
    try:
        finding = each.run(bench)
    except Exception:
        return Outcome(each, None, time.perf_counter() - start, traceback.format_exc())
    return Outcome(each, finding, time.perf_counter() - start)


def _measured(measurement: Measurement) -> dict[str, Any]:
    return {
        "what": measurement.what.record(),
        "value": _finite(measurement.value),
        "values": [_finite(value) for value in measurement.values],
        "expected": str(measurement.expected),
        "met": measurement.met,
    }


def _finite(value: float) -> float | None:
    """Return the number, or None for ∞ (a training that diverged) and NaN: JSON has neither."""
    return value if math.isfinite(value) else None
