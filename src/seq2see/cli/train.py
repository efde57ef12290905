"""`seq2see train`: from a recipe to a translator."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli.inputs import check_run_directory
from seq2see.errors import ConfigError, Seq2SeeError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from seq2see.settings import Recipe
    from seq2see.training.config import RunConfig
    from seq2see.training.run_directory import RunDirectory, RunPlan
    from seq2see.training.trainer import TrainingProgress


def train(
    recipe: Annotated[
        Path,
        typer.Argument(metavar="RECIPE", help="Recipe file (TOML). `seq2see init` writes one."),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[section.key=value]…",
            help="Override settings of the recipe, for example train.seed=2.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIRECTORY",
            help="Run directory: checkpoints, log and trained model. Default: runs/NAME, where "
            "NAME is the name of the recipe file without .toml (of its directory for recipe.toml).",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in the run directory from its last checkpoint."
        ),
    ] = False,
) -> None:
    """Train a model from a recipe. An interrupted run resumes bit-exactly with --resume."""
    from seq2see.settings import Recipe
    from seq2see.training.run_directory import RunDirectory

    _check_is_recipe(recipe, overrides or [])
    settings = Recipe.read(recipe, overrides or [])
    folder = output or Path("runs", recipe.stem if recipe.stem != "recipe" else recipe.parent.name)
    check_run_directory(folder)
    if resume and not RunDirectory(folder).has_run and _leads():  # a mistyped name costs hours
        typer.echo(f"seq2see: {folder} has no run to resume: starting a new one", err=True)
    train_from_recipe(settings, recipe.parent, folder, resume)


def _check_is_recipe(recipe: Path, overrides: list[str]) -> None:
    """Refuse what to learn from in the place of the recipe that names it."""
    from seq2see.cli.inputs import infer_language

    names = [str(recipe), *(override for override in overrides if "=" not in override)]
    if recipe.suffix == ".toml" or not all(Path(name).is_file() for name in names):
        return
    if len(names) > 1 or infer_language(recipe.name):
        files = " ".join(names)
        raise ConfigError(
            [f"RECIPE must be a recipe, but is {files}: `seq2see init {files}` writes one"]
        )


def _leads() -> bool:
    """Tell if this process speaks for all: torchrun starts several."""
    return os.environ.get("RANK", "0") == "0"


def train_from_recipe(
    recipe: Recipe, base_directory: Path, run_directory: Path, resume: bool = False
) -> None:
    """Train by a recipe, in as many processes as it takes, and say how it ended."""
    from seq2see.training.launch import is_torchrun_worker, launch_workers
    from seq2see.training.run_directory import RunDirectory
    from seq2see.training.trainer import signals_as_errors
    from seq2see.training.workers import torchrun_agent_id

    ingredients, home = recipe.build_run_config(base_directory), RunDirectory(run_directory)
    arguments = recipe.model_dump(mode="json"), str(base_directory), str(run_directory)
    if is_torchrun_worker():  # of torchrun, which starts a worker again with the same arguments
        goes_on = resume or home.was_started_by(torchrun_agent_id())
        results = [run_worker(*arguments, lambda: _prepared(ingredients, home, goes_on))]
    else:
        with signals_as_errors():
            count = _prepared(ingredients, home, resume)
            alone = count == 1
            results = (
                [run_worker(*arguments)]
                if alone
                else [*launch_workers(_work, count, *arguments).values()]
            )
    _tell(next(filter(None, results)), run_directory)


def _prepared(ingredients: RunConfig, folder: RunDirectory, resume: bool) -> int:
    """Make what workers need, say what of the text they will not see, and return their number."""
    from seq2see.training.train import prepare_run

    prepared = prepare_run(ingredients, folder, resume)
    for note in prepared.notes:
        typer.echo(note, err=True)
    return prepared.processes


def run_worker(
    recipe: dict[str, Any],
    base_directory: str,
    run_directory: str,
    first: Callable[[], object] | None = None,
) -> dict[str, Any] | None:
    """Train as one worker; the leader may have something to do first.

    An error that a user can mend is returned, not raised.
    """
    from seq2see.cli.training_progress import TrainingProgressDisplay
    from seq2see.settings import Recipe
    from seq2see.training.launch import join_worker_group
    from seq2see.training.run_directory import RunDirectory
    from seq2see.training.train import run_training as train_worker

    ingredients = Recipe(**recipe).build_run_config(Path(base_directory))
    home = RunDirectory(Path(run_directory))
    try:
        with join_worker_group(ingredients.training.fsdp) as workers, ExitStack() as shown:
            if first:
                workers.run_on_main(first)

            def watch(plan: RunPlan, progress: TrainingProgress) -> TrainingProgressDisplay:
                every, warmup = ingredients.validation.interval, ingredients.schedule.warmup_updates
                terminal = TrainingProgressDisplay(every, warmup, plan, progress)
                shown.callback(terminal.close)
                return terminal

            outcome = train_worker(
                ingredients, home, workers, watch, may_choose_processes=first is None
            )
    except Seq2SeeError as error:
        return {"error": str(error), "is_use": isinstance(error, ConfigError)}
    if outcome is None:
        return None
    return {"reason": outcome.reason, "update": outcome.update, "done": outcome.is_complete}


def _work(*arguments: Any) -> dict[str, Any] | None:
    """Train as one worker of several on this machine; end the process if a signal has stopped it.

    Its agent, which had the signal too, waits for that, and takes no result any more.
    """
    result = run_worker(*arguments)
    if result and not result.get("done", True):
        sys.exit(1)
    return result


def _tell(result: dict[str, Any], folder: Path) -> None:
    """Say how it ended."""
    if error := result.get("error"):
        raise ConfigError([error]) if result["is_use"] else TrainingError(error)
    if not result["done"]:
        raise TrainingError(
            f"stopped by {result['reason']} after update {result['update']:,}, which was saved; "
            "--resume goes on from there"
        )
    if _leads():
        typer.echo(f"The model is in {folder}.", err=True)
