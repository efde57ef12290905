"""A run as a person sees it: a bar while it goes, a line for each validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeRemainingColumn

from seq2see.training.parts import Progress
from seq2see.training.run import RunPlan


class TerminalWatch:
    """Shows records on standard error; without a terminal, validations alone."""

    def __init__(self, plan: RunPlan, progress: Progress) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._console.print(_beginning(plan, progress))
        self._bar = Bar(
            TextColumn("{task.completed:,} of {task.total:,}"),
            BarColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("", total=plan.updates, completed=progress.update)
        self._bar.start()

    def write(self, record: Mapping[str, Any]) -> None:
        """Show a record."""
        if record["kind"] == "train":
            text = (
                f"loss {record['loss']:.3f}  {record['tokens_per_second']:,.0f} tokens/s  "
                f"rate {record['rate']:.2g}"
            )
            self._bar.update(self._task, completed=record["update"], description=text)
        elif record["kind"] == "validation":
            self._console.print(_validation(record))
        elif record["kind"] == "result":
            self._bar.stop()
            self._console.print(_result(record))


def _beginning(plan: RunPlan, progress: Progress) -> str:
    times = f"{plan.processes} processes, {plan.threads} threads each"
    start = f"from update {progress.update:,} " if progress.update else ""
    left = plan.updates - progress.update
    time = (
        f", about {left * plan.seconds_per_update / 60:.0f} minutes"
        if plan.seconds_per_update
        else ""
    )
    return f"Training {start}to update {plan.updates:,}{time}; {times}."


def _result(record: Mapping[str, Any]) -> str:
    return f"{record['data']}: BLEU {record['bleu']:.2f}  chrF {record['chrf']:.2f}"


def _validation(record: Mapping[str, Any]) -> str:
    mark = "  best so far" if record["best"] else ""
    return (
        f"update {record['update']:,}, epoch {record['epoch'] + 1}: nll {record['nll']:.3f}  "
        f"BLEU {record['bleu']:.2f}  chrF {record['chrf']:.2f}{mark}"
    )
