"""The run directory and the progress display of `seq2see train`."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from seq2see.cli.train import train
from seq2see.cli.training_run import TrainingProgressDisplay
from seq2see.errors import ConfigError, InputError
from seq2see.training.checkpoints import TrainingProgress
from seq2see.training.config import RunConfig, build_demo_config
from seq2see.training.run_directory import RunDirectory, RunPlan

RECIPES = Path(__file__).parents[3] / "recipes"


def build_config(**sections: dict[str, Any]) -> RunConfig:
    defaults = {"validation": {"interval": 25}, "schedule": {"warmup_updates": 10}}
    return build_demo_config(1.0, 1).replace(**defaults | sections)


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


@pytest.mark.parametrize(
    ("plan", "progress", "message"),
    [
        (
            RunPlan(100, 1, 1),
            TrainingProgress(),
            "Training to update 100; 1 process with 1 thread.",
        ),
        (
            RunPlan(100, 2, 1, 1.0, 10.0, 20.0),
            TrainingProgress(update=50),
            "Training from update 50 to update 100, about 90 seconds with all validations; "
            "2 processes with 1 thread each.",
        ),
        (
            RunPlan(10_000, 1, 4, 2.0),
            TrainingProgress(),
            "Training to update 10,000, about 5.6 hours with all validations; "
            "1 process with 4 threads.",
        ),
    ],
)
def test_first_message_states_length_and_processes(
    plan: RunPlan, progress: TrainingProgress, message: str, capsys
) -> None:
    TrainingProgressDisplay(build_config(), plan, progress)
    assert capsys.readouterr().err.strip() == message


def test_changed_number_of_processes_is_reported(capsys) -> None:
    plan = RunPlan(100, 2, 1, 1.0, 10.0, 20.0)
    assert plan.with_processes(2, 7) == plan
    TrainingProgressDisplay(build_config(), plan.with_processes(4, 3), TrainingProgress(update=50))
    assert capsys.readouterr().err.splitlines() == [
        "Training from update 50 to update 100; 4 processes with 3 threads each.",
        "The run was started with 2 processes: the batches are the same, dropout differs.",
    ]


def test_without_terminal_only_scores_are_printed(capsys) -> None:
    display = TrainingProgressDisplay(build_config(), RunPlan(100, 1, 1), TrainingProgress())
    display.write(train_record(10))
    display.write(validation_record(20))
    lines = capsys.readouterr().err.strip().splitlines()
    expected = "update 20, epoch 1: nll 2.000  BLEU 12.50  chrF2 30.00  best so far"
    assert lines[1:] == [expected]


def test_without_terminal_long_run_prints_regular_lines(capsys) -> None:
    display = TrainingProgressDisplay(
        build_config(), RunPlan(1000, 1, 1), TrainingProgress(seconds=100.0)
    )
    for update, seconds in [(10, 129.0), (20, 130.0), (30, 159.0), (40, 161.0)]:
        display.write(train_record(update, seconds))
    display.write(validation_record(50, 180.0))
    display.write(train_record(60, 209.0))  # less than 30 s after the validation
    lines = capsys.readouterr().err.splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == [
        "update 20 of 1,000",
        "update 40 of 1,000",
        "update 50, epoch 1",
    ]
    assert lines[0].endswith("loss 3.000  9 tokens/s  learning rate 0.1")


@pytest.mark.parametrize(("warmup", "is_reported"), [(99, False), (100, True)])
def test_warmup_as_long_as_run_is_reported(warmup: int, is_reported: bool, capsys) -> None:
    TrainingProgressDisplay(
        build_config(schedule={"warmup_updates": warmup}), RunPlan(100, 1, 1), TrainingProgress()
    )
    assert ("Set schedule.warmup_updates lower" in capsys.readouterr().err) == is_reported


@pytest.mark.parametrize(
    ("interval", "weights", "is_reported"),
    [(100, "best", False), (101, "best", True), (101, "last", False)],
)
def test_missing_validation_for_best_checkpoint_is_reported(
    interval: int, weights: str, is_reported: bool, capsys
) -> None:
    config = build_config(validation={"interval": interval}, checkpoints={"final_weights": weights})
    TrainingProgressDisplay(config, RunPlan(100, 1, 1), TrainingProgress())
    assert ("The run ends before the first validation" in capsys.readouterr().err) == is_reported


def test_validation_without_scores_is_shown(capsys) -> None:
    display = TrainingProgressDisplay(build_config(), RunPlan(100, 1, 1), TrainingProgress())
    record = validation_record(20)
    display.write({key: value for key, value in record.items() if key not in {"bleu", "chrf"}})
    assert capsys.readouterr().err.splitlines()[1:] == [
        "update 20, epoch 1: nll 2.000  best so far"
    ]


def test_terminal_shows_example_translations(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    TrainingProgressDisplay(build_config(), RunPlan(100, 1, 1), TrainingProgress()).write(
        validation_record(20)
    )
    stderr = capsys.readouterr().err
    assert "  a [dog]\n    → ein Hund\n  a cat\n    → ein Hund\n    = eine Katze\n" in stderr


def test_close_restores_cursor(capsys, monkeypatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    display = TrainingProgressDisplay(build_config(), RunPlan(100, 1, 1), TrainingProgress())
    display.close()
    hidden, shown = "\x1b[?25l", "\x1b[?25h"
    stderr = capsys.readouterr().err
    assert -1 < stderr.find(hidden) < stderr.find(shown)


@pytest.mark.parametrize(
    ("start", "recipe", "name"),
    [
        ("", "fox/recipe.toml", "fox"),
        ("fox", "recipe.toml", "fox"),
        ("fox/sub", "../recipe.toml", "fox"),
        ("", "fox/small.toml", "small"),
    ],
)
def test_default_run_directory_is_named_after_recipe(
    tmp_path: Path, monkeypatch, start: str, recipe: str, name: str
) -> None:
    directories = []
    monkeypatch.setattr(
        sys.modules["seq2see.cli.training_run"],
        "train_from_recipe",
        lambda *args: directories.append(args[2]),
    )
    (tmp_path / "fox/sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / start)
    shutil.copy(RECIPES / "fables.toml", recipe)
    train(Path(recipe))
    assert directories == [Path("runs", name)]


@pytest.fixture
def started_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """Return the list of arguments of runs that would be trained."""
    monkeypatch.chdir(tmp_path)
    runs: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        "seq2see.cli.training_run.train_from_recipe", lambda *args, **kw: runs.append((*args, kw))
    )
    return runs


def test_directory_stands_for_its_recipe(started_runs: list, tmp_path: Path) -> None:
    (tmp_path / "en-de").mkdir()
    shutil.copy(RECIPES / "base.toml", tmp_path / "en-de" / "recipe.toml")
    train(Path("en-de"))
    _, base, run, *_ = started_runs[0]
    assert (base, run) == (Path("en-de"), Path("runs/en-de"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty must be a recipe, or a directory with recipe.toml"):
        train(Path("empty"))


def test_run_directory_resumes_with_its_own_settings(started_runs: list, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    config = build_config()
    RunDirectory(run).write_start(config, RunPlan(100, 1, 1), base_directory=tmp_path / "data")
    train(Path("run"), resume=True)
    resumed, base, directory, options = started_runs[0]
    assert resumed.model_dump() == config.model_dump()
    assert (base, directory, options) == (Path("data"), Path("run"), {"resume": True})
    with pytest.raises(ConfigError, match="settings and --output must be left out to resume"):
        train(Path("run"), ["train.seed=2"], resume=True)
    with pytest.raises(InputError, match="continue it with `seq2see train --resume run`"):
        train(Path("run"))
