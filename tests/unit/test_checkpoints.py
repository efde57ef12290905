"""Which checkpoints are kept, and which of them become the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from seq2see.errors import InputError
from seq2see.training.checkpointer import Checkpointer
from seq2see.training.checkpoints import Checkpoints
from seq2see.training.config import CheckpointsConfig
from seq2see.training.parts import ModelPart, Progress
from seq2see.training.step import StepReport
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


def test_a_truncated_checkpoint_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, every=4, keep=2)
    run.save(4, 8)
    file = run.checkpoints.path(4) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(InputError, match="000000004 is damaged: .*; delete it to go on from"):
        run.checkpoints.restore(4, {"model": ModelPart(run.model)})
    with pytest.raises(InputError, match="000000004 is damaged: .*; delete it to go on from"):
        _ = run.result
