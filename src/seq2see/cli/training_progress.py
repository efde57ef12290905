"""A run as a person sees it: a bar while it goes, a line for each validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from seq2see.cli.progress import format_duration
from seq2see.training.run_directory import RunPlan
from seq2see.training.trainer import TrainingProgress

LOG_INTERVAL_SECONDS = 30.0
"""Seconds without a word, at most, where there is no bar: a log shows that the run is alive."""


class TrainingProgressDisplay:
    """Shows records on standard error; without a terminal, the scores of validations, and a line
    now and then."""

    def __init__(
        self, validation_every: int, warmup: int, plan: RunPlan, progress: TrainingProgress
    ) -> None:
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._console.print(_beginning(plan, progress, validation_every))
        if plan.initial_processes:
            self._console.print(_moved(plan.initial_processes))
        if warmup >= plan.num_updates:
            self._console.print(_too_warm(warmup, plan.num_updates))
        self._total = plan.num_updates
        self._spoke = progress.seconds
        self._bar = Bar(
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
        """Show a record."""
        if record["kind"] == "train":
            self._bar.update(self._task, completed=record["update"], description=_pace(record))
            if (
                not self._console.is_terminal
                and record["seconds"] - self._spoke >= LOG_INTERVAL_SECONDS
            ):
                self._spoke = record["seconds"]
                self._console.print(
                    f"update {record['update']:,} of {self._total:,}: {_pace(record)}"
                )
        elif record["kind"] == "validation":
            self._spoke = record["seconds"]
            self._console.print(_validation(record))
            if self._console.is_terminal:
                for sample in record["examples"]:
                    self._console.print(_sample(*sample), markup=False)
        elif record["kind"] == "result":
            self._bar.stop()
            self._console.print(_result(record))

    def close(self) -> None:
        """Give the terminal back, with its cursor."""
        self._bar.stop()


def _beginning(plan: RunPlan, progress: TrainingProgress, validation_every: int) -> str:
    start = f"from update {progress.update:,} " if progress.update else ""
    seconds = plan.remaining_seconds(progress.update, validation_every)
    time = "" if seconds is None else f", about {format_duration(seconds)} with all validations"
    return f"Training {start}to update {plan.num_updates:,}{time}; {_workers(plan)}."


def _moved(began_with: int) -> str:
    began = "1 process" if began_with == 1 else f"{began_with} processes"
    return f"The run began with {began}: it goes on with the same batches, but other dropout."


def _too_warm(warmup: int, updates: int) -> str:
    return (
        f"The warm-up of {warmup:,} updates is not shorter than the run of {updates:,}: the rate "
        "hardly gets to its peak. Set schedule.warmup_updates lower, to a fifth of the run or so."
    )


def _pace(record: Mapping[str, Any]) -> str:
    return (
        f"loss {record['loss']:.3f}  {record['tokens_per_second']:,.0f} tokens/s  "
        f"rate {record['learning_rate']:.2g}"
    )


def _workers(plan: RunPlan) -> str:
    threads = "1 thread" if plan.threads == 1 else f"{plan.threads} threads"
    if plan.processes == 1:
        return f"1 process with {threads}"
    return f"{plan.processes} processes with {threads} each"


def _sample(source: str, reference: str, translation: str) -> str:
    same = "" if translation == reference else f"\n    = {reference}"
    return f"  {source}\n    → {translation}{same}"


def _result(record: Mapping[str, Any]) -> str:
    return f"{record['data']}: BLEU {record['bleu']:.2f}  chrF {record['chrf']:.2f}"


def _validation(record: Mapping[str, Any]) -> str:
    mark = "  best so far" if record["best"] else ""
    return (
        f"update {record['update']:,}, epoch {record['epoch'] + 1}: nll {record['nll']:.3f}  "
        f"BLEU {record['bleu']:.2f}  chrF {record['chrf']:.2f}{mark}"
    )
