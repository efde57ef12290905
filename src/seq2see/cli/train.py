"""`seq2see train`: train a model from a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.inputs import RECIPE_FILE, check_run_path_not_file
from seq2see.errors import ConfigError, InputError


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="section.key=value")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIRECTORY")] = None,
    resume: Annotated[bool, typer.Option("--resume")] = False,
) -> None:
    """Train a model from a recipe. An interrupted run resumes bit-exactly with --resume.

    Args:
        recipe: Recipe file (TOML), or a directory with recipe.toml. `seq2see init` writes one. With
            --resume, also the run directory, which stores the settings of the run.
        overrides: Override settings of the recipe, for example train.seed=2 or model.preset=small.
            The recipe has all keys. Values are written as in TOML, but strings need no quotes.
            Paths are relative to the current directory. If a run is resumed from a recipe, the
            settings must be the same as at the start of the run.
        output: Run directory for checkpoints, log and trained model. If it has a run already,
            --resume is required. Default: runs/NAME, where NAME is the name of the recipe file
            without .toml, or for recipe.toml the name of its directory.
        resume: Continue the run in the run directory from its last checkpoint, with the same
            settings and data. If there is no run, a new one starts.
    """
    from seq2see.cli.training_run import is_main_process, train_from_recipe
    from seq2see.settings import Recipe
    from seq2see.settings.recipe import name_origins
    from seq2see.training.run_directory import RunDirectory

    if resume and RunDirectory(recipe).has_run:
        _resume_run(recipe, overrides or [], output)
        return
    recipe = _find_recipe(recipe, overrides or [])
    settings = Recipe.read(recipe, overrides or [], Path.cwd())
    name = recipe.stem if recipe.stem != "recipe" else recipe.resolve().parent.name
    run_directory = output or Path("runs", name)
    check_run_path_not_file(run_directory)
    # A mistyped name would cost hours of training.
    if resume and not RunDirectory(run_directory).has_run and is_main_process():
        typer.echo(f"seq2see: {run_directory} has no run to resume: starting a new one", err=True)
    try:
        train_from_recipe(settings, recipe.parent, run_directory, resume)
    except ConfigError as error:  # the settings fit neither the machine nor the run to resume
        if not all(problem.field for problem in error.problems):
            raise
        raise name_origins(error, recipe, overrides or []) from None


def _resume_run(run_directory: Path, overrides: list[str], output: Path | None) -> None:
    """Resume a run with the settings that it stores; raise ConfigError for other settings."""
    from seq2see.cli.training_run import train_from_recipe
    from seq2see.settings import Recipe
    from seq2see.training.run_directory import RunDirectory

    if overrides or output:
        raise ConfigError(
            f"settings and --output must be left out to resume the run in {run_directory}, which "
            "stores its settings"
        )
    settings, base_directory = RunDirectory(run_directory).read_run_config(Recipe)
    train_from_recipe(settings, base_directory, run_directory, resume=True)


def _find_recipe(path: Path, overrides: list[str]) -> Path:
    """Return the recipe file; raise ConfigError or InputError if there is none."""
    from seq2see.training.run_directory import RunDirectory

    if not path.is_dir():
        _check_is_recipe(path, overrides)
        return path
    if (path / RECIPE_FILE).is_file():
        return path / RECIPE_FILE
    if RunDirectory(path).has_run:
        raise InputError(f"{path} has a run: continue it with `seq2see train --resume {path}`")
    raise InputError(f"{path} must be a recipe, or a directory with {RECIPE_FILE}")


def _check_is_recipe(recipe: Path, overrides: list[str]) -> None:
    """Raise ConfigError if the arguments are corpus files instead of a recipe."""
    from seq2see.cli.inputs import infer_language

    names = [str(recipe), *(override for override in overrides if "=" not in override)]
    if recipe.suffix == ".toml" or not all(Path(name).is_file() for name in names):
        return
    if len(names) > 1 or infer_language(recipe.name):
        files = " ".join(names)
        raise ConfigError(
            f"RECIPE must be a recipe, but is {files}: `seq2see init {files}` writes one"
        )
