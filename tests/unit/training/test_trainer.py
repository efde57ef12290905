"""The loop, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from seq2see.data.batch_loader import UpdateBatches
from seq2see.data.batch_sampler import START_POSITION, DataPosition
from seq2see.training.trainer import StopReason, Trainer, TrainingProgress, UpdateReport
from seq2see.training.training_log import TrainingLog

ENOUGH = StopReason("enough", is_final=True)


class Records(list[Mapping[str, Any]]):
    """A sink that keeps all."""

    write = list.append


class Slow:
    """A listener that takes its time, and stops at an update."""

    def __init__(self, last: int, seconds: float) -> None:
        self.last = last
        self.seconds = seconds

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        del report
        time.sleep(self.seconds)
        return ENOUGH if progress.update >= self.last else None


def updates(position: DataPosition) -> Iterator[UpdateBatches]:
    while True:
        yield UpdateBatches([], 0, position)


def test_the_speed_is_that_of_updates_alone() -> None:
    """Validations and checkpoints come between them."""
    records, progress = Records(), TrainingProgress(position=START_POSITION)
    log = TrainingLog([records], interval=2)
    loader: Any = SimpleNamespace(updates=updates)
    stepper: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    assert Trainer(stepper, loader, progress, [log, Slow(4, 0.1)]).run() == ENOUGH
    assert [record["update"] for record in records] == [2, 4]
    assert all(record["tokens_per_second"] > 200 / 0.1 for record in records)
    assert progress.seconds > 0.3


def test_a_signal_in_the_last_update_is_heard() -> None:
    """Scoring may take longer than a machine that is to be turned off will wait."""
    signal = StopReason("SIGTERM", is_final=False)
    loader: Any = SimpleNamespace(updates=updates)
    stepper: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    late: Any = SimpleNamespace(after_update=lambda *_: signal)
    assert Trainer(stepper, loader, TrainingProgress(), [Slow(1, 0), late]).run() == signal


def test_the_time_has_what_comes_behind_the_last_update() -> None:
    progress, loader = TrainingProgress(), SimpleNamespace(updates=updates)
    stepper: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    Trainer(stepper, loader, progress, [Slow(1, 0.1)]).run()  # type: ignore[arg-type]
    assert progress.seconds > 0.1


def test_the_mean_of_some_updates() -> None:
    records, progress = Records(), TrainingProgress()
    log = TrainingLog([records], interval=2)
    for progress.update, tokens in enumerate((10, 30), 1):
        loss = float(progress.update)
        log.after_update(progress, UpdateReport(loss, loss, tokens, tokens, loss, 0.1, seconds=0.5))
    assert records[0]["loss"] == pytest.approx((1 * 10 + 2 * 30) / 40)
    assert records[0]["gradient_norm"] == 1.5
    assert records[0]["tokens_per_second"] == 80
