"""SIGINT and SIGTERM during and outside the updates."""

from __future__ import annotations

import signal

import pytest

from seq2see.errors import TrainingError
from seq2see.training import trainer
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.trainer import StopSignal, handle_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_repeated_signal_counts_once(number: signal.Signals) -> None:
    stop_signal = StopSignal()
    with handle_signals(stop_signal):
        assert stop_signal.find_name(WorkerCommunicator()) is None
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert stop_signal.find_name(WorkerCommunicator()) == number.name


def test_later_second_signal_ends_process(monkeypatch) -> None:
    monkeypatch.setattr(trainer, "REPEAT_SECONDS", 0.0)
    stop_signal = StopSignal()
    with handle_signals(stop_signal):
        signal.raise_signal(signal.SIGTERM)
        raised = []
        monkeypatch.setattr(signal, "raise_signal", raised.append)
        stop_signal(signal.SIGTERM, None)
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
