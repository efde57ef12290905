"""Reasons to stop: update limit, patience and signals."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from seq2see.errors import TrainingError
from seq2see.training import trainer
from seq2see.training.config import ValidationConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.trainer import (
    ALL_UPDATES_DONE,
    StopReason,
    TrainingProgress,
    UpdateLimit,
    UpdateReport,
)
from seq2see.training.validation import PeriodicValidator

REPORT = UpdateReport(0, 0, 1, 1, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_signal_counts_once(number: signal.Signals) -> None:
    signals = trainer.SignalHandler(WorkerCommunicator())
    with signals.handle_signals():
        assert signals.after_update(TrainingProgress(), REPORT) is None
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert signals.after_update(TrainingProgress(), REPORT) == StopReason(
            number.name, is_final=False
        )


def test_update_limit_stops_at_last_update() -> None:
    limit = UpdateLimit(3)
    assert limit.after_update(TrainingProgress(update=2), REPORT) is None
    assert limit.after_update(TrainingProgress(update=3), REPORT) == ALL_UPDATES_DONE
    assert ALL_UPDATES_DONE.is_final


def test_patience_ends_the_run() -> None:
    """The stop is final: a model is written."""
    unused: Any = None
    config = ValidationConfig(metric="chrf", patience=2)
    listener = PeriodicValidator(unused, unused, config, [], unused)
    listener.restore({"best_value": 30.0, "best_update": 100, "validations_since_best": 1})
    assert listener.stop_reason is None
    listener.restore({"best_value": 30.0, "best_update": 100, "validations_since_best": 2})
    assert listener.stop_reason == StopReason(
        "chrf has not improved for 2 validations", is_final=True
    )


def test_later_second_signal_ends_process(monkeypatch) -> None:
    monkeypatch.setattr(trainer, "REPEAT_SECONDS", 0.0)
    signals = trainer.SignalHandler(WorkerCommunicator())
    with signals.handle_signals():
        signal.raise_signal(signal.SIGTERM)
        raised = []
        monkeypatch.setattr(signal, "raise_signal", raised.append)
        signals._on_signal(signal.SIGTERM, None)
        assert raised == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_outside_updates_raises_training_error(number: signal.Signals) -> None:
    previous = signal.getsignal(number)
    with (
        pytest.raises(TrainingError, match=f"^stopped by {number.name}; use --resume to continue"),
        trainer.signals_as_errors(),
    ):
        signal.raise_signal(number)
    assert signal.getsignal(number) == previous
