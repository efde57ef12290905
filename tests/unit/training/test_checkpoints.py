"""Which checkpoints are kept, and which of them become the model."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from seq2see.errors import InputError
from seq2see.training import checkpoints
from seq2see.training.checkpoints import (
    Checkpointer,
    Checkpoints,
    ModelPart,
    OptimiserPart,
    Snapshot,
)
from seq2see.training.config import CheckpointsConfig
from seq2see.training.trainer import Progress, StepReport
from seq2see.training.workers import Workers


class Run:
    """A model of one number, which is the update's."""

    def __init__(self, folder: Path, **config: object) -> None:
        settings = CheckpointsConfig(**config)  # type: ignore[arg-type]
        self.model = torch.nn.Linear(1, 1, bias=False)
        self.checkpoints = Checkpoints(folder, settings.keep, settings.every)
        parts = {"model": ModelPart(self.model)}
        self.checkpointer = Checkpointer(
            self.checkpoints, settings, parts, Workers(), lambda: self.best_update
        )
        self.best_update = 0

    def save(self, *updates: int) -> None:
        for update in updates:
            torch.nn.init.constant_(self.model.weight, update)
            self.checkpointer.save(Progress(update=update))

    def train(self, updates: int, best: int) -> None:
        for update in range(1, updates + 1):
            torch.nn.init.constant_(self.model.weight, update)
            self.best_update = best if update >= best else 0
            self.checkpointer.after_update(Progress(update=update), StepReport(0, 0, 1, 1, 0, 0))

    @property
    def result(self) -> float:
        return self.checkpointer.result()["weight"].item()


@pytest.mark.parametrize("stop", [6, 10, 13])
def test_the_mean_has_no_part_of_an_interruption(tmp_path: Path, stop: int) -> None:
    calm = Run(tmp_path / "calm", every=4, keep=2)
    disturbed = Run(tmp_path / "disturbed", every=4, keep=2)
    due = [4, 8, 12, 14]  # the last one is due to the end
    calm.save(*due)
    disturbed.save(*sorted([*due, stop]))
    assert calm.result == disturbed.result == 13
    assert calm.checkpoints.updates() == disturbed.checkpoints.updates()


def test_an_interruption_is_kept_until_the_next(tmp_path: Path) -> None:
    run = Run(tmp_path, every=4, keep=2)
    run.save(4, 8, 10)
    assert run.checkpoints.updates() == [4, 8, 10]
    run.save(11)
    assert run.checkpoints.updates() == [4, 8, 11]


def test_what_a_killed_run_left_aside_goes(tmp_path: Path) -> None:
    run = Run(tmp_path, every=4, keep=2)
    (tmp_path / "000000003.partial").mkdir()
    run.save(4)
    assert [path.name for path in tmp_path.iterdir()] == ["000000004"]


def test_the_best_is_kept_whenever_it_was(tmp_path: Path) -> None:
    """Also where validations come between checkpoints."""
    run = Run(tmp_path, every=4, keep=1, result="best")
    run.train(updates=12, best=5)
    assert run.checkpoints.updates() == [5, 12]
    assert run.result == 5


def test_the_mean_of_a_short_run_has_none_of_its_beginning(tmp_path: Path) -> None:
    run = Run(tmp_path, every=1, keep=10)
    run.save(*range(1, 9))
    assert run.result == 7  # of 6, 7 and 8


def test_killed_while_one_is_forgotten_no_half_of_it_is_left(tmp_path: Path, monkeypatch) -> None:
    run = Run(tmp_path, every=1, keep=1)
    run.save(1)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    run.save(2)
    assert run.checkpoints.updates() == [2]
    monkeypatch.undo()
    run.save(3)
    assert [path.name for path in tmp_path.iterdir()] == ["000000003"]


def test_a_checkpoint_without_one_of_its_files_is_damaged(tmp_path: Path) -> None:
    """An optimiser would begin with empty moments, and nobody would know."""
    run = Run(tmp_path)
    optimiser = torch.optim.Adam(run.model.parameters())
    run.model.weight.grad = torch.ones(1, 1)
    optimiser.step()
    parts = {"model": ModelPart(run.model), "optimiser": OptimiserPart(optimiser, run.model)}
    home = run.checkpoints.save(4, parts)
    run.checkpoints.restore(4, parts)
    (home / "optimiser.safetensors").unlink()
    with pytest.raises(InputError, match="000000004 is damaged: optimiser.safetensors is missing"):
        run.checkpoints.restore(4, parts)


def test_who_keeps_no_snapshot_helps_to_make_it(monkeypatch) -> None:
    """Each tensor is put together by all workers, and let go by all but one before the next."""
    made: list[torch.Tensor] = []
    monkeypatch.setattr(checkpoints, "whole", lambda tensor: made.append(tensor) or tensor)
    part = ModelPart(torch.nn.Linear(2, 3))
    assert Snapshot(part, keep=False).tensors() == {}
    assert len(made) == 2
    assert Snapshot(part).tensors().keys() == {"weight", "bias"}


def test_a_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, every=4, keep=2)
    run.save(12, 16)
    file = run.checkpoints.path(12) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(InputError, match="000000012 is damaged: .*; delete it to go on from"):
        run.checkpoints.restore(12, {"model": ModelPart(run.model)})
    with pytest.raises(InputError, match="000000012 is damaged: .*; delete it to go on from"):
        _ = run.result
