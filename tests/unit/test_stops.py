"""Reasons to stop."""

from __future__ import annotations

import signal

import pytest

from seq2see.errors import TrainingError
from seq2see.training import stops
from seq2see.training.parts import Progress
from seq2see.training.step import StepReport
from seq2see.training.workers import Workers

REPORT = StepReport(0, 0, 1, 1, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_at_once_is_one(number: signal.Signals) -> None:
    signals = stops.Signals(Workers())
    with signals.listening():
        assert signals.after_update(Progress(), REPORT) is None
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert signals.after_update(Progress(), REPORT) == number.name


def test_a_signal_some_seconds_later_ends_at_once(monkeypatch) -> None:
    monkeypatch.setattr(stops, "GRACE", 0.0)
    signals = stops.Signals(Workers())
    with signals.listening():
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
        stops.told(),
    ):
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
