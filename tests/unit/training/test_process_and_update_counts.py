"""Number of threads, processes and updates of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from seq2see.training import process_and_update_counts
from seq2see.training.config import TrainingLimitsAndHardwareConfig, ValidationConfig
from seq2see.training.process_and_update_counts import (
    _plan_updates,
    choose_processes,
    choose_threads,
)


def test_threads_from_recipe_environment_or_cores(monkeypatch) -> None:
    monkeypatch.setattr(process_and_update_counts, "count_available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [choose_threads(None, processes) for processes in (1, 3, 20)] == [8, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert choose_threads(None, 1) == 5
    assert choose_threads(3, 1) == 3


def test_single_thread_set_by_torchrun_is_ignored(monkeypatch) -> None:
    monkeypatch.setattr(process_and_update_counts, "count_available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [choose_threads(None, 2, free) for free in (True, False)] == [1, 4]
    assert choose_threads(1, 2, may_choose_processes=False) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert choose_threads(None, 2, may_choose_processes=False) == 3


@pytest.mark.parametrize(
    ("requested", "tokens", "processes"),
    [(None, 4096, 4), (None, 65_536, 16), (None, 512, 1), (5, 512, 5)],
)
def test_each_worker_has_minimum_number_of_tokens(
    monkeypatch, requested: int | None, tokens: int, processes: int
) -> None:
    monkeypatch.setattr(process_and_update_counts, "count_available_cores", lambda: 16)
    monkeypatch.setattr(process_and_update_counts.torch.accelerator, "is_available", lambda: False)
    assert choose_processes(requested, tokens) == processes


def test_time_limit_includes_validations_and_final_scores() -> None:
    settings = SimpleNamespace(
        train=TrainingLimitsAndHardwareConfig(max_minutes=10.0),
        validation=ValidationConfig(interval=100),
    )
    builder = SimpleNamespace(run_config=settings)
    assert _plan_updates(builder, 1.0, 50.0, 60.0) == 540 / 1.5
    assert _plan_updates(builder, 1.0, 0.0, 1e4) == 300  # half of the time is for training
    assert _plan_updates(builder, 1.0, 0.0, 60.0, elapsed=40.0) == 500
    assert _plan_updates(builder, 1.0, 0.0, 60.0, elapsed=700.0) == 1
