"""What workers do together, each seen from one process."""

from __future__ import annotations

import pytest

from seq2see.errors import InputError, TrainingError
from seq2see.training.workers import Workers


def full() -> None:
    raise OSError(28, "No space left on device", "run.json")


def damaged() -> None:
    raise InputError("damaged")


def test_all_workers_hear_of_the_leaders_error() -> None:
    with pytest.raises(TrainingError, match="^run.json: No space left on device$"):
        Workers().led(full)
    with pytest.raises(InputError, match="damaged"):
        Workers().led(damaged)
