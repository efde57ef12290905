"""Reasons to stop: the plan is done, a signal came, nothing gets better."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from seq2see.training.parts import Progress
from seq2see.training.step import StepReport
from seq2see.training.workers import Workers

DONE = "done"
"""The reason that is no interruption."""


class Planned:
    """Stops after so many updates."""

    def __init__(self, updates: int) -> None:
        self._updates = updates

    def after_update(self, progress: Progress, report: StepReport) -> str | None:
        """Stop if that was the last."""
        del report
        return DONE if progress.update >= self._updates else None


class Signals:
    """Stops after the update in which SIGINT or SIGTERM came to any worker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._came: str | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear signals; a second one of the kind does what it always does."""
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._came = signal.Signals(number).name
        signal.signal(number, signal.SIG_DFL)

    def after_update(self, progress: Progress, report: StepReport) -> str | None:
        """Stop if one has come."""
        del progress, report
        return next(filter(None, self._workers.gathered(self._came)), None)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
