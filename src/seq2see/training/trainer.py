"""The loop: update after update, and after each of them the listeners in their order."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from seq2see.data.loader import Loader, Update
from seq2see.training.parts import Progress
from seq2see.training.step import Stepper, StepReport
from seq2see.training.stops import Reason


class Listener(Protocol):
    """Something that happens between updates: a log, a validation, a checkpoint."""

    def after_update(self, progress: Progress, report: StepReport) -> Reason | None:
        """Hear of an update; return a reason to stop, if there is one."""
        ...


class Trainer:
    """Trains until a listener gives a reason to stop."""

    def __init__(
        self, stepper: Stepper, loader: Loader, progress: Progress, listeners: Sequence[Listener]
    ) -> None:
        self._stepper = stepper
        self._loader = loader
        self._progress = progress
        self._listeners = listeners

    def run(self) -> Reason:
        """Go on from where the progress stands; return why it ended."""
        start = ready = time.perf_counter()
        for update in self._loader.updates(self._progress.position):
            report = self._stepper(self._progress.update + 1, update.batches)
            report = replace(report, seconds=time.perf_counter() - ready)
            start = self._advance(update, report, start)
            # Every listener hears of it, also behind one that wants to stop.
            reasons = [each.after_update(self._progress, report) for each in self._listeners]
            if found := [reason for reason in reasons if reason]:
                self._progress.seconds += time.perf_counter() - start
                return min(found, key=lambda reason: reason.is_done)  # a signal cannot wait
            ready = time.perf_counter()
        raise AssertionError("updates have no end")

    def _advance(self, update: Update, report: StepReport, start: float) -> float:
        progress, now = self._progress, time.perf_counter()
        progress.update += 1
        progress.epoch = update.epoch
        progress.position = update.after
        progress.tokens += report.tokens + report.source_tokens
        progress.seconds += now - start
        return now
