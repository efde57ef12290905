"""`seq2see train`: train a model from a recipe."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli.inputs import check_run_directory
from seq2see.errors import ConfigError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seq2see.cli.training_progress import TrainingProgressDisplay
    from seq2see.settings import Recipe
    from seq2see.training.config import RunConfig
    from seq2see.training.run_directory import RunPlan
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
    name = recipe.stem if recipe.stem != "recipe" else recipe.parent.name
    run_directory = output or Path("runs", name)
    check_run_directory(run_directory)
    if (
        resume and not RunDirectory(run_directory).has_run and _is_main_process()
    ):  # a mistyped name costs hours
        typer.echo(f"seq2see: {run_directory} has no run to resume: starting a new one", err=True)
    train_from_recipe(settings, recipe.parent, run_directory, resume)


def _check_is_recipe(recipe: Path, overrides: list[str]) -> None:
    """Raise ConfigError if the arguments are corpus files instead of a recipe."""
    from seq2see.cli.inputs import infer_language

    names = [str(recipe), *(override for override in overrides if "=" not in override)]
    if recipe.suffix == ".toml" or not all(Path(name).is_file() for name in names):
        return
    if len(names) > 1 or infer_language(recipe.name):
        files = " ".join(names)
        raise ConfigError(
            [f"RECIPE must be a recipe, but is {files}: `seq2see init {files}` writes one"]
        )


def _is_main_process() -> bool:
    """Return whether this process prints messages: torchrun may start several."""
    return os.environ.get("RANK", "0") == "0"


def train_from_recipe(
    recipe: Recipe, base_directory: Path, run_directory: Path, resume: bool = False
) -> None:
    """Train a model from a recipe and print where it is; raise TrainingError if a signal came."""
    from seq2see.training.launch import WorkerArguments, train_run

    arguments = WorkerArguments(
        recipe.model_dump(mode="json"),
        base_directory,
        run_directory,
        _build_run_config,
        _create_display,
    )
    outcome = train_run(arguments, resume, lambda note: typer.echo(note, err=True))
    if not outcome.is_complete:
        raise TrainingError(
            f"stopped by {outcome.reason} after update {outcome.update:,}, which was saved; "
            "use --resume to continue from there"
        )
    if _is_main_process():
        typer.echo(f"The model is in {run_directory}.", err=True)


def _build_run_config(recipe: Mapping[str, Any], base_directory: Path) -> RunConfig:
    """Build the settings of a run from a recipe as JSON; called in each worker process."""
    from seq2see.settings import Recipe

    return Recipe(**recipe).build_run_config(base_directory)


def _create_display(
    run_config: RunConfig, plan: RunPlan, progress: TrainingProgress
) -> TrainingProgressDisplay:
    """Create the progress display; called in the main worker process."""
    from seq2see.cli.training_progress import TrainingProgressDisplay

    interval, warmup = run_config.validation.interval, run_config.schedule.warmup_updates
    return TrainingProgressDisplay(interval, warmup, plan, progress)
