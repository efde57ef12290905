"""The learning rate schedules."""

from __future__ import annotations

import json
import math

import pytest

from seq2see.errors import ConfigError
from seq2see.training.optimization import LearningRateSchedule, ScheduleConfig


def test_noam_schedule_equals_formula_of_paper() -> None:
    schedule = LearningRateSchedule(ScheduleConfig(kind="noam", warmup_updates=4000), 512, 10**5)
    for step in (1, 100, 3999, 4000, 4001, 10**5):
        formula = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert schedule.learning_rate(step) == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "rates"),
    [
        ("inverse_sqrt", {50: 0.5, 100: 1.0, 400: 0.5, 900: 1 / 3}),
        ("linear", {50: 0.5, 100: 1.0, 550: 0.6, 1000: 0.2, 2000: 0.2}),
        (
            "cosine",
            {50: 0.5, 100: 1.0, 550: 0.6, 1000: 0.2, 325: 0.2 + 0.4 * (1 + math.cos(math.pi / 4))},
        ),
        ("constant", {50: 0.5, 100: 1.0, 1000: 1.0}),
        ("plateau", {50: 0.5, 100: 1.0, 1000: 1.0}),
    ],
)
def test_learning_rates_of_schedules(kind: str, rates: dict[int, float]) -> None:
    config = ScheduleConfig(kind=kind, peak_lr=1.0, warmup_updates=100, final_lr=0.2)
    schedule = LearningRateSchedule(config, 16, 1000)
    for step, rate in rates.items():
        assert schedule.learning_rate(step) == pytest.approx(rate, rel=1e-12)


def test_plateau_reduces_learning_rate_and_restores_state() -> None:
    config = ScheduleConfig(kind="plateau", peak_lr=1.0, warmup_updates=0, factor=0.1, patience=2)
    schedule, later = LearningRateSchedule(config, 16, 9), LearningRateSchedule(config, 16, 9)
    for improved in (True, False, True, False):
        schedule.after_validation(1, improved)
    assert schedule.learning_rate(5) == 1.0
    later.restore(json.loads(json.dumps(schedule.state())))
    for each in (schedule, later):
        each.after_validation(2, False)
        assert each.learning_rate(5) == pytest.approx(0.1)


def test_plateau_ignores_validations_during_warmup() -> None:
    config = ScheduleConfig(kind="plateau", peak_lr=1.0, warmup_updates=100, patience=1)
    schedule = LearningRateSchedule(config, 16, 1000)
    for update in (25, 50, 75):
        schedule.after_validation(update, improved=False)
    assert schedule.learning_rate(100) == 1.0
    schedule.after_validation(100, improved=False)
    assert schedule.learning_rate(101) == 0.5


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"kind": "noam", "warmup_updates": 0}, "`warmup_updates` must be at least 1"),
        ({"peak_lr": 0.1, "final_lr": 0.2}, "`final_lr` must be at most peak_lr"),
    ],
)
def test_invalid_schedules_are_rejected(settings: dict, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        ScheduleConfig(**settings)
