"""The training loop, and the log of its updates."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from seq2see.data.batch_sampler import DataPosition, UpdateBatches
from seq2see.metrics import MetricScore
from seq2see.training.checkpoints import (
    CheckpointDirectory,
    TrainingProgress,
    TrainingState,
    UpdateReport,
)
from seq2see.training.config import CheckpointConfig, ValidationConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.optimization import LearningRateSchedule, ScheduleConfig
from seq2see.training.trainer import Trainer
from seq2see.training.training_log import TrainingLog
from seq2see.training.validation import ValidationResult


class Run:
    """A run with a loop and checkpoints, but without a model."""

    def __init__(self, directory: Path, updates: int = 40, **validation: Any) -> None:
        model = torch.nn.Linear(1, 1)
        schedule = LearningRateSchedule(ScheduleConfig(), 1, 1)
        self.state = TrainingState(model, torch.optim.Adam(model.parameters()), schedule)
        self.records: list[Mapping[str, Any]] = []
        self.scores = {}
        """Score of the validation after each update; 0 by default."""
        self.validation_seconds = 0.0
        loader: Any = SimpleNamespace(updates=self.iterate_updates)
        self.checkpoints = CheckpointDirectory(directory, CheckpointConfig(interval=10**6))
        self.trainer = Trainer(
            self.update,  # type: ignore[arg-type]
            loader,
            self.validate,
            self.state,
            self.checkpoints,
            TrainingLog([self.records.append]),
            ValidationConfig(**validation),
            updates,
            WorkerCommunicator(),
        )

    def iterate_updates(self, position: DataPosition) -> Iterator[UpdateBatches]:
        while True:
            position = DataPosition(0, 0, position.batch + 1)
            yield UpdateBatches([], 0, position)

    def update(self, update: int, batches: object) -> UpdateReport:
        return UpdateReport(1 / update, 1.0, 60, 40, update**0.5, 0.1)

    def validate(self) -> ValidationResult:
        time.sleep(self.validation_seconds)
        value = self.scores.get(self.state.progress.update, 0.0)
        return ValidationResult(1.0, {"bleu": MetricScore("bleu", value, "")}, [])

    def train_records(self) -> list[dict[str, Any]]:
        """Return the training records without times."""
        times = {"seconds", "tokens_per_second"}
        return [
            {key: value for key, value in record.items() if key not in times}
            for record in self.records
            if record["kind"] == "train"
        ]


def test_tokens_per_second_excludes_validations(tmp_path: Path) -> None:
    run = Run(tmp_path, updates=20, interval=5)
    run.validation_seconds = 0.1
    assert run.trainer.run() is None
    speeds = [r["tokens_per_second"] for r in run.records if r["kind"] == "train"]
    assert len(speeds) == 2
    assert all(speed > 10 * 100 / 0.1 for speed in speeds)


def test_progress_includes_time_of_last_validation(tmp_path: Path) -> None:
    run = Run(tmp_path, updates=1, interval=1)
    run.validation_seconds = 0.1
    run.trainer.run()
    assert run.state.progress.seconds > 0.1


def test_signal_in_last_update_takes_precedence(tmp_path: Path, monkeypatch) -> None:
    """Final scoring may take longer than the time until the machine is shut down."""
    run = Run(tmp_path, updates=3)
    update = run.trainer.updater
    monkeypatch.setattr(
        run.trainer,
        "updater",
        lambda number, batches: (
            signal.raise_signal(signal.SIGTERM) if number == 3 else None,
            update(number, batches),
        )[1],
    )
    assert run.trainer.run() == "SIGTERM"
    assert run.checkpoints.saved_updates() == [3]
    assert run.trainer.run() is None  # all updates are done


def test_patience_ends_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, interval=2, patience=2)
    run.scores = {2: 1.0, 4: 3.0, 6: 3.0, 8: 2.0}
    assert run.trainer.run() is None
    assert run.state.progress.update == 8
    assert [r["best"] for r in run.records if r["kind"] == "validation"] == [
        True,
        True,
        False,
        False,
    ]
    assert run.checkpoints.saved_updates() == [4, 8]
    assert run.trainer.run() is None
    assert run.state.progress.update == 8


def test_log_of_resumed_run_equals_that_of_uninterrupted_run(tmp_path: Path) -> None:
    """A record is the mean of ten updates, some of which may be before the interruption."""
    uninterrupted, first = Run(tmp_path / "a"), Run(tmp_path / "b", updates=23)
    resumed = Run(tmp_path / "b")
    uninterrupted.trainer.run()
    first.trainer.run()
    resumed.checkpoints.restore_last(resumed.state)
    resumed.trainer.run()
    assert first.train_records() + resumed.train_records() == uninterrupted.train_records()
    assert resumed.state.progress.position == DataPosition(0, 0, 40)


def test_progress_in_json_has_all_fields() -> None:
    report = UpdateReport(1.5, 1.0, 60, 40, 2.0, 0.1)
    progress = TrainingProgress(7, 1, DataPosition(1, 2, 3), 100, 1.5, 0.3, 5, 2, [report])
    assert TrainingProgress.from_json(json.loads(json.dumps(asdict(progress)))) == progress


def test_log_record_is_mean_over_tokens() -> None:
    records: list[Mapping[str, Any]] = []
    reports = [
        UpdateReport(number, number, tokens, tokens, number, 0.1, seconds=0.5)
        for number, tokens in ((1.0, 10), (2.0, 30))
    ]
    progress = TrainingProgress(update=10, unlogged_reports=reports)
    TrainingLog([records.append]).write_reports(progress)
    assert records[0]["loss"] == pytest.approx((1 * 10 + 2 * 30) / 40)
    assert records[0]["gradient_norm"] == 1.5
    assert records[0]["tokens_per_second"] == 80
    assert progress.unlogged_reports == []
