"""Train a model from a recipe, with its progress on the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from seq2see.cli.corpus_and_translation_progress import format_duration, show_corpus_progress
from seq2see.errors import TrainingError
from seq2see.registries import METRICS
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import TrainingProgress
from seq2see.training.config import RunConfig
from seq2see.training.launch import train_run
from seq2see.training.run_directory import RunDirectory, RunPlan

LOG_INTERVAL_SECONDS = 30.0
"""Minimum time between two progress lines if standard error is not a terminal."""


def is_main_process() -> bool:
    """Return whether this process prints messages: torchrun may start several."""
    return os.environ.get("RANK", "0") == "0"


def train_from_recipe(
    run_config: RunConfig, base_directory: Path, run_directory: Path, resume: bool = False
) -> None:
    """Train a model and print where it is; raise TrainingError if a signal came."""
    builder = RunBuilder(run_config, base_directory, RunDirectory(run_directory))
    outcome = train_run(
        builder,
        TrainingProgressDisplay,
        resume,
        lambda note: typer.echo(note, err=True),
        show_corpus_progress,
    )
    if outcome.signal_name:
        raise TrainingError(
            f"stopped by {outcome.signal_name} after update {outcome.update:,}, which was saved; "
            "use --resume to continue from there"
        )
    if is_main_process():
        typer.echo(f"The model is in {run_directory}.", err=True)


class TrainingProgressDisplay:
    """Prints the records of the training log to standard error.

    On a terminal, shows a progress bar, the scores of validations and example translations;
    otherwise prints the scores of validations, and a line every `LOG_INTERVAL_SECONDS`.
    """

    def __init__(self, run_config: RunConfig, plan: RunPlan, progress: TrainingProgress) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        for line in _format_start(run_config, plan, progress):
            self._console.print(line)
        self._num_updates = plan.num_updates
        self._last_line_seconds = progress.seconds
        self._bar = Progress(
            TextColumn("{task.completed:,} of {task.total:,}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=plan.num_updates, completed=progress.update)
        self._bar.start()

    def write(self, record: Mapping[str, Any]) -> None:
        """Show a record of the training log."""
        if record["kind"] == "train":
            self._show_update(record)
        elif record["kind"] == "validation":
            self._last_line_seconds = record["seconds"]
            self._console.print(_format_validation(record))
            if self._console.is_terminal:
                for source, reference, translation in record["examples"]:
                    expected = "" if translation == reference else f"\n    = {reference}"
                    example = f"  {source}\n    → {translation}{expected}"
                    self._console.print(example, markup=False)
        elif record["kind"] == "result":
            self._bar.stop()
            self._console.print(f"{record['data']}:{_format_scores(record).removeprefix(' ')}")

    def close(self) -> None:
        """Remove the progress bar and restore the cursor."""
        self._bar.stop()

    def _show_update(self, record: Mapping[str, Any]) -> None:
        update, speed = record["update"], _format_speed(record)
        self._bar.update(self._task, completed=update, description=speed)
        is_due = record["seconds"] - self._last_line_seconds >= LOG_INTERVAL_SECONDS
        if is_due and not self._console.is_terminal:
            self._last_line_seconds = record["seconds"]
            self._console.print(f"update {update:,} of {self._num_updates:,}: {speed}")


def _format_start(
    run_config: RunConfig, plan: RunPlan, progress: TrainingProgress
) -> Iterator[str]:
    """Yield what is planned, and notes on settings that do not fit the number of updates."""
    interval, warmup = run_config.validation.interval, run_config.schedule.warmup_updates
    start = f"from update {progress.update:,} " if progress.update else ""
    seconds = plan.remaining_seconds(progress.update, interval)
    time = "" if seconds is None else f", about {format_duration(seconds)} with all validations"
    yield f"Training {start}to update {plan.num_updates:,}{time}; {_format_workers(plan)}."
    if initial := plan.initial_processes:
        processes = f"{initial} process{'es' * (initial > 1)}"
        yield f"The run was started with {processes}: the batches are the same, dropout differs."
    if warmup >= plan.num_updates:
        yield (
            f"The warmup of {warmup:,} updates is not shorter than the run of "
            f"{plan.num_updates:,}, so the learning rate hardly reaches its peak. Set "
            "schedule.warmup_updates lower, to about a fifth of the run."
        )
    if interval > plan.num_updates and run_config.checkpoints.final_weights == "best":
        yield (
            f"The run ends before the first validation, after {interval:,} updates, so its last "
            "checkpoint becomes the model instead of the best one. Set validation.interval lower."
        )


def _format_workers(plan: RunPlan) -> str:
    threads = f"{plan.threads} thread{'s' * (plan.threads > 1)}"
    if plan.processes == 1:
        return f"1 process with {threads}"
    return f"{plan.processes} processes with {threads} each"


def _format_speed(record: Mapping[str, Any]) -> str:
    return (
        f"loss {record['loss']:.3f}  {record['tokens_per_second']:,.0f} tokens/s  "
        f"learning rate {record['learning_rate']:.2g}"
    )


def _format_validation(record: Mapping[str, Any]) -> str:
    mark = "  best so far" if record["best"] else ""
    return (
        f"update {record['update']:,}, epoch {record['epoch'] + 1}: nll {record['nll']:.3f}"
        f"{_format_scores(record)}{mark}"
    )


def _format_scores(record: Mapping[str, Any]) -> str:
    """Return the scores of a record; there are none if validation computes only the loss."""
    scored = (name for name in METRICS if name in record)
    return "".join(f"  {METRICS[name].label} {record[name]:.2f}" for name in scored)
