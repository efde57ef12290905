"""Reasons to stop: the plan is done, a signal came, nothing gets better."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from seq2see.errors import TrainingError
from seq2see.training.parts import Progress
from seq2see.training.step import StepReport
from seq2see.training.workers import Workers

GRACE = 3.0
"""Seconds in which further signals are the first once more: a terminal sends one to each process
of a run, and torchrun's agent passes its own on."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a run ends."""

    text: str
    is_done: bool
    """Whether it has come to its end, so that there is a result; or else it may go on."""


DONE = Reason("done", is_done=True)


class Planned:
    """Stops after so many updates."""

    def __init__(self, updates: int) -> None:
        self._updates = updates

    def after_update(self, progress: Progress, report: StepReport) -> Reason | None:
        """Stop if that was the last."""
        del report
        return DONE if progress.update >= self._updates else None


class Signals:
    """Stops after the update in which SIGINT or SIGTERM came to any worker."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._came: str | None = None
        self._since = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Hear signals; another one, some seconds later, does what it always does."""
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._came is None:
            self._came, self._since = signal.Signals(number).name, time.monotonic()
        elif time.monotonic() - self._since >= GRACE:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def after_update(self, progress: Progress, report: StepReport) -> Reason | None:
        """Stop if one has come."""
        del progress, report
        came = next(filter(None, self._workers.gathered(self._came)), None)
        return Reason(came, is_done=False) if came else None


class _Stopped(BaseException):
    """A signal that came, as KeyboardInterrupt is one: nobody takes it for an error of theirs."""


@contextmanager
def told() -> Iterator[None]:
    """Make a signal one line wherever it comes, but for updates, behind which `Signals` saves."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        raise _Stopped(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    except _Stopped as error:
        raise TrainingError(
            f"stopped by {error}; --resume goes on from the last checkpoint"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
