"""The training loop, and the log of its updates."""

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

STOP = StopReason("stop", is_final=True)


class Records(list[Mapping[str, Any]]):
    """A log writer that keeps all records."""

    write = list.append


class SlowListener:
    """A listener that sleeps and stops at an update."""

    def __init__(self, last: int, seconds: float) -> None:
        self.last = last
        self.seconds = seconds

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        del report
        time.sleep(self.seconds)
        return STOP if progress.update >= self.last else None


def updates(position: DataPosition) -> Iterator[UpdateBatches]:
    while True:
        yield UpdateBatches([], 0, position)


def test_tokens_per_second_excludes_listeners() -> None:
    """Validations and checkpoints are not counted."""
    records, progress = Records(), TrainingProgress(position=START_POSITION)
    log = TrainingLog([records], interval=2)
    loader: Any = SimpleNamespace(updates=updates)
    updater: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    assert Trainer(updater, loader, progress, [log, SlowListener(4, 0.1)]).run() == STOP
    assert [record["update"] for record in records] == [2, 4]
    assert all(record["tokens_per_second"] > 200 / 0.1 for record in records)
    assert progress.seconds > 0.3


def test_signal_in_last_update_takes_precedence() -> None:
    """Final scoring may take longer than the time until the machine is shut down."""
    signal = StopReason("SIGTERM", is_final=False)
    loader: Any = SimpleNamespace(updates=updates)
    updater: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    late: Any = SimpleNamespace(after_update=lambda *_: signal)
    assert Trainer(updater, loader, TrainingProgress(), [SlowListener(1, 0), late]).run() == signal


def test_progress_includes_time_of_last_listeners() -> None:
    progress, loader = TrainingProgress(), SimpleNamespace(updates=updates)
    updater: Any = lambda *_: UpdateReport(1.0, 1.0, 60, 40, 1.0, 0.1)  # noqa: E731
    Trainer(updater, loader, progress, [SlowListener(1, 0.1)]).run()  # type: ignore[arg-type]
    assert progress.seconds > 0.1


def test_log_record_is_mean_over_tokens() -> None:
    records, progress = Records(), TrainingProgress()
    log = TrainingLog([records], interval=2)
    for progress.update, tokens in enumerate((10, 30), 1):
        loss = float(progress.update)
        log.after_update(progress, UpdateReport(loss, loss, tokens, tokens, loss, 0.1, seconds=0.5))
    assert records[0]["loss"] == pytest.approx((1 * 10 + 2 * 30) / 40)
    assert records[0]["gradient_norm"] == 1.5
    assert records[0]["tokens_per_second"] == 80
