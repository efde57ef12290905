"""Reasons to stop."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from seq2see.errors import TrainingError
from seq2see.training import trainer
from seq2see.training.config import ValidationConfig
from seq2see.training.trainer import (
    ALL_UPDATES_DONE,
    StopReason,
    TrainingProgress,
    UpdateLimit,
    UpdateReport,
)
from seq2see.training.validation import ValidationListener
from seq2see.training.workers import WorkerGroup

REPORT = UpdateReport(0, 0, 1, 1, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_at_once_is_one(number: signal.Signals) -> None:
    signals = trainer.SignalHandler(WorkerGroup())
    with signals.handle_signals():
        assert signals.after_update(TrainingProgress(), REPORT) is None
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert signals.after_update(TrainingProgress(), REPORT) == StopReason(
            number.name, is_final=False
        )


def test_a_plan_is_done_with_its_last_update() -> None:
    planned = UpdateLimit(3)
    assert planned.after_update(TrainingProgress(update=2), REPORT) is None
    assert planned.after_update(TrainingProgress(update=3), REPORT) == ALL_UPDATES_DONE
    assert ALL_UPDATES_DONE.is_final


def test_a_run_that_gets_no_better_is_done() -> None:
    """It has its result, whatever the words are that tell why."""
    unused: Any = None
    config = ValidationConfig(metric="chrf", patience=2)
    validator = ValidationListener(unused, unused, config, [], unused)
    validator.restore({"best_value": 30.0, "best_update": 100, "validations_since_best": 1})
    assert validator.stop_reason is None
    validator.restore({"best_value": 30.0, "best_update": 100, "validations_since_best": 2})
    assert validator.stop_reason == StopReason(
        "chrf has not got better for 2 validations", is_final=True
    )


def test_a_signal_some_seconds_later_ends_at_once(monkeypatch) -> None:
    monkeypatch.setattr(trainer, "REPEAT_SECONDS", 0.0)
    signals = trainer.SignalHandler(WorkerGroup())
    with signals.handle_signals():
        signal.raise_signal(signal.SIGTERM)
        heard = []
        monkeypatch.setattr(signal, "raise_signal", heard.append)
        signals._hear(signal.SIGTERM, None)
        assert heard == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_outside_of_updates_is_one_line(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with (
        pytest.raises(TrainingError, match=f"^stopped by {number.name}; --resume goes on"),
        trainer.signals_as_errors(),
    ):
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
