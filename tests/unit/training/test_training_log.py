"""Training curves and TensorBoard events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seq2see.training.training_log import (
    TensorBoardWriter,
    is_tensorboard_installed,
    save_training_curves,
)


def train_record(update: int, seconds: float = 0.0) -> dict[str, Any]:
    numbers = {
        "loss": 3.0,
        "nll": 2.5,
        "gradient_norm": 1.0,
        "learning_rate": 0.1,
        "tokens_per_second": 9.0,
    }
    return {"kind": "train", "update": update, "epoch": 0, "seconds": seconds, **numbers}


def validation_record(update: int, seconds: float = 0.0) -> dict[str, Any]:
    scores = {"nll": 2.0, "bleu": 12.5, "chrf": 30.0, "best": True}
    examples = [("a [dog]", "ein Hund", "ein Hund"), ("a cat", "eine Katze", "ein Hund")]
    head = {"kind": "validation", "update": update, "epoch": 0, "seconds": seconds}
    return {**head, "examples": examples, **scores}


@pytest.mark.parametrize("updates", [0, 200])
def test_curves_are_drawn_for_any_log(tmp_path: Path, updates: int) -> None:
    records = [train_record(n) for n in range(updates)]
    loss_only = {"kind": "validation", "update": 7, "nll": 2.0}
    save_training_curves(
        [*records, validation_record(5), loss_only], tmp_path / "curves.png", "en → de"
    )
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not is_tensorboard_installed(), reason="needs seq2see[tensorboard]")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_reads_written_events(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: PLC0415

    board = TensorBoardWriter(tmp_path, 0)
    loss_only = {"kind": "validation", "update": 30, "nll": 2.0, "examples": []}
    for record in (train_record(10), validation_record(20), train_record(20), loss_only):
        board.write(record)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/nll")] == [(10, 2.5), (20, 2.5)]
    assert [(e.step, e.value) for e in events.Scalars("validation/bleu")] == [(20, 12.5)]
    assert "example 2/text_summary" in events.Tags()["tensors"]


@pytest.mark.skipif(not is_tensorboard_installed(), reason="needs seq2see[tensorboard]")
def test_tensorboard_ignores_full_disk(tmp_path: Path, monkeypatch) -> None:
    """A full disk ends the run at its next checkpoint."""

    def raise_no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    board = TensorBoardWriter(tmp_path, 0)
    monkeypatch.setattr(board._writer, "flush", raise_no_space)
    board.write(train_record(10))
