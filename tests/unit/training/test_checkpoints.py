"""Which checkpoints are kept, and which of them give the final weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seq2see.errors import InputError
from seq2see.training import checkpoints
from seq2see.training.checkpoints import CheckpointDirectory, TrainingState
from seq2see.training.config import CheckpointConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.optimization import LearningRateSchedule, ScheduleConfig


class Run:
    """A run whose model has one weight: the number of the update."""

    def __init__(self, directory: Path, **config: object) -> None:
        settings = CheckpointConfig(**config)  # type: ignore[arg-type]
        model = torch.nn.Linear(1, 1, bias=False)
        schedule = LearningRateSchedule(ScheduleConfig(), 1, 1)
        self.state = TrainingState(model, torch.optim.Adam(model.parameters()), schedule)
        self.checkpoints = CheckpointDirectory(directory, settings)

    def save(self, *updates: int) -> None:
        for update in updates:
            torch.nn.init.constant_(self.state.model.weight, update)
            self.state.progress.update = update
            self.checkpoints.save(self.state, WorkerCommunicator())

    @property
    def result(self) -> float:
        return self.checkpoints.final_weights(self.state)["weight"].item()


@pytest.mark.parametrize("stop", [6, 10, 13])
def test_average_excludes_checkpoint_of_interruption(tmp_path: Path, stop: int) -> None:
    uninterrupted = Run(tmp_path / "uninterrupted", interval=4, keep_last=2)
    interrupted = Run(tmp_path / "interrupted", interval=4, keep_last=2)
    updates = [4, 8, 12, 14]  # the last one is saved at the end of the run
    uninterrupted.save(*updates)
    interrupted.save(*sorted([*updates, stop]))
    assert uninterrupted.result == interrupted.result == 13
    assert uninterrupted.checkpoints.saved_updates() == interrupted.checkpoints.saved_updates()


def test_checkpoint_of_interruption_is_kept_until_next(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    run.save(4, 8, 10)
    assert run.checkpoints.saved_updates() == [4, 8, 10]
    run.save(11)
    assert run.checkpoints.saved_updates() == [4, 8, 11]


def test_partial_checkpoint_of_killed_run_is_deleted(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    (tmp_path / "000000003.partial").mkdir()
    run.save(4)
    assert [path.name for path in tmp_path.iterdir()] == ["000000004"]


def test_best_checkpoint_is_kept_and_becomes_the_model(tmp_path: Path) -> None:
    """The best validation may be between two regular checkpoints."""
    run = Run(tmp_path, interval=4, keep_last=1, final_weights="best")
    run.state.progress.best_update = 5
    run.save(4, 5, 8, 12)
    assert run.checkpoints.saved_updates() == [5, 12]
    assert run.result == 5


def test_average_of_short_run_excludes_its_start(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=1, keep_last=10)
    run.save(*range(1, 9))
    assert run.result == 7  # mean of 6, 7 and 8


def test_kill_during_deletion_leaves_no_incomplete_checkpoint(tmp_path: Path, monkeypatch) -> None:
    run = Run(tmp_path, interval=1, keep_last=1)
    run.save(1)
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    run.save(2)
    assert run.checkpoints.saved_updates() == [2]
    monkeypatch.undo()
    run.save(3)
    assert [path.name for path in tmp_path.iterdir()] == ["000000003"]


def test_checkpoint_with_missing_file_is_damaged(tmp_path: Path) -> None:
    """Otherwise the optimizer would start with empty moments without an error."""
    run = Run(tmp_path)
    run.state.model.weight.grad = torch.ones(1, 1)
    run.state.optimizer.step()
    run.save(4)
    run.checkpoints.restore_last(run.state)
    (run.checkpoints.path(4) / "optimizer.safetensors").unlink()
    with pytest.raises(InputError, match="000000004 is damaged: .*optimizer.safetensors"):
        run.checkpoints.restore_last(run.state)


def test_damaged_checkpoints_are_set_aside(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=5)
    run.save(4, 8, 12, 16)
    assert run.checkpoints.set_aside_damaged() == []
    for update, name in ((12, "state.json"), (16, "optimizer.safetensors")):
        file = run.checkpoints.path(update) / name
        file.write_bytes(bytes([file.read_bytes()[0] ^ 4]) + file.read_bytes()[1:])
    (tmp_path / "000000012.damaged").mkdir()
    notes = run.checkpoints.set_aside_damaged()
    assert [note.split(" is damaged")[0] for note in notes] == [
        "The checkpoint of update 16",
        "The checkpoint of update 12",
    ]
    assert all(note.endswith("training continues from update 8.") for note in notes)
    run.checkpoints.restore_last(run.state)
    assert run.state.progress.update == 8
    run.save(12)
    assert run.checkpoints.saved_updates() == [4, 8, 12]


def test_error_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.save(4)
    (run.checkpoints.path(4) / "manifest.json").unlink()
    with pytest.raises(InputError, match="are damaged: delete them to start again"):
        run.checkpoints.set_aside_damaged()
    assert run.checkpoints.saved_updates() == [4]


def test_moment_of_another_shape_is_rejected(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.state.model.weight.grad = torch.ones(1, 1)
    run.state.optimizer.step()
    run.save(4)
    file = run.checkpoints.path(4) / "optimizer.safetensors"
    tensors = load_file(file)
    save_file({name: tensor.expand(1, 1).clone() for name, tensor in tensors.items()}, file)
    run.checkpoints.restore_last(run.state)
    save_file({name: torch.zeros(2, 1) for name in tensors}, file)
    with pytest.raises(InputError, match="must have the shape of the weight"):
        run.checkpoints.restore_last(run.state)


def test_worker_that_discards_tensors_takes_part_in_gathering(monkeypatch) -> None:
    """All workers gather each tensor; only one of them keeps it."""
    gathered: list[torch.Tensor] = []
    gather = lambda tensor: gathered.append(tensor) or tensor  # noqa: E731
    monkeypatch.setattr(checkpoints, "full_tensor", gather)
    tensors = {"weight": torch.zeros(2), "bias": torch.zeros(3)}
    assert checkpoints.gather_on_cpu(tensors, keep=False) == {}
    assert len(gathered) == 2
    assert checkpoints.gather_on_cpu(tensors).keys() == tensors.keys()


def test_truncated_checkpoint_is_named_in_error(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=4, keep_last=2)
    run.save(12, 16)
    file = run.checkpoints.path(16) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(InputError, match="000000016 is damaged: .*; delete it to continue from"):
        run.checkpoints.restore_last(run.state)
    with pytest.raises(InputError, match="000000016 is damaged: .*; delete it to continue from"):
        _ = run.result
