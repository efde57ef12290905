"""`seq2see train`: from a recipe to a translator."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli.inputs import refuse_file
from seq2see.cli.options import let_threads_sleep
from seq2see.errors import ConfigError, Seq2SeeError, TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from seq2see.settings import Recipe
    from seq2see.training.config import Ingredients
    from seq2see.training.run_directory import RunFolder, RunPlan
    from seq2see.training.trainer import Progress


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe, as `seq2see init` writes it.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[section.key=value]…", help="Other settings.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The folder of the run. By default runs/NAME."),
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on where a run stopped.")] = False,
) -> None:
    """Train a translator by a recipe; killed at any moment, it goes on exactly."""
    let_threads_sleep()
    from seq2see.settings import Recipe
    from seq2see.training.run_directory import RunFolder

    _refuse_text(recipe, changes or [])
    settings = Recipe.read(recipe, changes or [])
    folder = output or Path("runs", recipe.stem if recipe.stem != "recipe" else recipe.parent.name)
    refuse_file(folder)
    if resume and not RunFolder(folder).begun and _leads():  # a mistyped name costs hours
        typer.echo(f"seq2see: there is nothing to resume in {folder}: beginning anew", err=True)
    follow(settings, recipe.parent, folder, resume)


def _refuse_text(recipe: Path, changes: list[str]) -> None:
    """Refuse what to learn from in the place of the recipe that names it."""
    from seq2see.cli.inputs import language_of

    names = [str(recipe), *(change for change in changes if "=" not in change)]
    if recipe.suffix == ".toml" or not all(Path(name).is_file() for name in names):
        return
    if len(names) > 1 or language_of(recipe.name):
        files = " ".join(names)
        raise ConfigError(
            [f"RECIPE must be a recipe, but is {files}: `seq2see init {files}` writes one"]
        )


def _leads() -> bool:
    """Tell if this process speaks for all: torchrun starts several."""
    return os.environ.get("RANK", "0") == "0"


def follow(recipe: Recipe, origin: Path, folder: Path, resume: bool = False) -> None:
    """Train by a recipe, in as many processes as it takes, and say how it ended."""
    from seq2see.training.launch import is_worker, launch
    from seq2see.training.run_directory import RunFolder
    from seq2see.training.trainer import told
    from seq2see.training.workers import own_agent

    ingredients, home = recipe.ingredients(origin), RunFolder(folder)
    arguments = recipe.model_dump(mode="json"), str(origin), str(folder)
    if is_worker():  # of torchrun, which starts a worker again with the same arguments
        goes_on = resume or home.begun_by(own_agent())
        results = [work(*arguments, lambda: _prepared(ingredients, home, goes_on))]
    else:
        with told():
            count = _prepared(ingredients, home, resume)
            alone = count == 1
            results = [work(*arguments)] if alone else [*launch(_work, count, *arguments).values()]
    _tell(next(filter(None, results)), folder)


def _prepared(ingredients: Ingredients, folder: RunFolder, resume: bool) -> int:
    """Make what workers need, say what of the text they will not see, and return their number."""
    from seq2see.training.train import prepare

    prepared = prepare(ingredients, folder, resume)
    for note in prepared.notes:
        typer.echo(note, err=True)
    return prepared.processes


def work(
    recipe: dict[str, Any], origin: str, folder: str, first: Callable[[], object] | None = None
) -> dict[str, Any] | None:
    """Train as one worker; the leader may have something to do first.

    An error that a user can mend is returned, not raised.
    """
    from seq2see.cli.training_progress import TerminalWatch
    from seq2see.settings import Recipe
    from seq2see.training.launch import joined
    from seq2see.training.run_directory import RunFolder
    from seq2see.training.train import train as train_worker

    ingredients = Recipe(**recipe).ingredients(Path(origin))
    home = RunFolder(Path(folder))
    try:
        with joined(ingredients.training.sharding) as workers, ExitStack() as shown:
            if first:
                workers.led(first)

            def watch(plan: RunPlan, progress: Progress) -> TerminalWatch:
                every, warmup = ingredients.validation.every, ingredients.schedule.warmup
                terminal = TerminalWatch(every, warmup, plan, progress)
                shown.callback(terminal.close)
                return terminal

            outcome = train_worker(ingredients, home, workers, watch, free=first is None)
    except Seq2SeeError as error:
        return {"error": str(error), "is_use": isinstance(error, ConfigError)}
    if outcome is None:
        return None
    return {"reason": outcome.reason, "update": outcome.update, "done": outcome.done}


def _work(*arguments: Any) -> dict[str, Any] | None:
    """Train as one worker of several on this machine; end the process if a signal has stopped it.

    Its agent, which had the signal too, waits for that, and takes no result any more.
    """
    result = work(*arguments)
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
