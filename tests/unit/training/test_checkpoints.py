"""Which checkpoints are kept, and which of them become the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from seq2see.errors import InputError
from seq2see.training import checkpoints
from seq2see.training.checkpoints import (
    CheckpointableModel,
    CheckpointableOptimizer,
    CheckpointDirectory,
    Checkpointer,
    StateSnapshot,
)
from seq2see.training.config import CheckpointConfig
from seq2see.training.trainer import TrainingProgress, UpdateReport
from seq2see.training.workers import WorkerGroup


class Run:
    """A model of one number, which is the update's."""

    def __init__(self, folder: Path, **config: object) -> None:
        settings = CheckpointConfig(**config)  # type: ignore[arg-type]
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.checkpoints = CheckpointDirectory(folder, settings.keep_last, settings.interval)
        parts = {"model": CheckpointableModel(self.model)}
        self.checkpointer = Checkpointer(
            self.checkpoints, settings, parts, WorkerGroup(), lambda: self.best_update
        )
        self.best_update = 0

    def save(self, *updates: int) -> None:
        for update in updates:
            torch.nn.init.constant_(self.model.weight, update)
            self.checkpointer.save(TrainingProgress(update=update))

    def train(self, updates: int, best: int) -> None:
        for update in range(1, updates + 1):
            torch.nn.init.constant_(self.model.weight, update)
            self.best_update = best if update >= best else 0
            self.checkpointer.after_update(
                TrainingProgress(update=update), UpdateReport(0, 0, 1, 1, 0, 0)
            )

    @property
    def result(self) -> float:
        return self.checkpointer.final_weights()["weight"].item()


@pytest.mark.parametrize("stop", [6, 10, 13])
def test_the_mean_has_no_part_of_an_interruption(tmp_path: Path, stop: int) -> None:
    calm = Run(tmp_path / "calm", interval=4, keep_last=2)
    disturbed = Run(tmp_path / "disturbed", interval=4, keep_last=2)
    due = [4, 8, 12, 14]  # the last one is due to the end
    calm.save(*due)
    disturbed.save(*sorted([*due, stop]))
    assert calm.result == disturbed.result == 13
    assert calm.checkpoints.saved_updates() == disturbed.checkpoints.saved_updates()


def test_an_interruption_is_kept_until_the_next(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    run.save(4, 8, 10)
    assert run.checkpoints.saved_updates() == [4, 8, 10]
    run.save(11)
    assert run.checkpoints.saved_updates() == [4, 8, 11]


def test_what_a_killed_run_left_aside_goes(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    (tmp_path / "000000003.partial").mkdir()
    run.save(4)
    assert [path.name for path in tmp_path.iterdir()] == ["000000004"]


def test_the_best_is_kept_whenever_it_was(tmp_path: Path) -> None:
    """Also where validations come between checkpoints."""
    run = Run(tmp_path, interval=4, keep_last=1, final_weights="best")
    run.train(updates=12, best=5)
    assert run.checkpoints.saved_updates() == [5, 12]
    assert run.result == 5


def test_the_mean_of_a_short_run_has_none_of_its_beginning(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=1, keep_last=10)
    run.save(*range(1, 9))
    assert run.result == 7  # of 6, 7 and 8


def test_killed_while_one_is_forgotten_no_half_of_it_is_left(tmp_path: Path, monkeypatch) -> None:
    run = Run(tmp_path, interval=1, keep_last=1)
    run.save(1)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    run.save(2)
    assert run.checkpoints.saved_updates() == [2]
    monkeypatch.undo()
    run.save(3)
    assert [path.name for path in tmp_path.iterdir()] == ["000000003"]


def test_a_checkpoint_without_one_of_its_files_is_damaged(tmp_path: Path) -> None:
    """An optimizer would begin with empty moments, and nobody would know."""
    run = Run(tmp_path)
    optimizer = torch.optim.Adam(run.model.parameters())
    run.model.weight.grad = torch.ones(1, 1)
    optimizer.step()
    parts = {
        "model": CheckpointableModel(run.model),
        "optimizer": CheckpointableOptimizer(optimizer, run.model),
    }
    home = run.checkpoints.save(4, parts)
    run.checkpoints.restore(4, parts)
    (home / "optimizer.safetensors").unlink()
    with pytest.raises(InputError, match="000000004 is damaged: optimizer.safetensors is missing"):
        run.checkpoints.restore(4, parts)


def test_who_keeps_no_snapshot_helps_to_make_it(monkeypatch) -> None:
    """Each tensor is put together by all workers, and let go by all but one before the next."""
    made: list[torch.Tensor] = []
    monkeypatch.setattr(checkpoints, "full_tensor", lambda tensor: made.append(tensor) or tensor)
    part = CheckpointableModel(torch.nn.Linear(2, 3))
    assert StateSnapshot(part, keep_tensors=False).tensors() == {}
    assert len(made) == 2
    assert StateSnapshot(part).tensors().keys() == {"weight", "bias"}


def test_a_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    run.save(12, 16)
    file = run.checkpoints.path(12) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(InputError, match="000000012 is damaged: .*; delete it to go on from"):
        run.checkpoints.restore(12, {"model": CheckpointableModel(run.model)})
    with pytest.raises(InputError, match="000000012 is damaged: .*; delete it to go on from"):
        _ = run.result
