"""Progress on the terminal while a corpus is read or text is translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from seq2see.progress_callbacks import ProgressCallback, StageCallback
    from seq2see.translator import Translation

FLAG_DESCRIPTIONS = {
    "copied_source": "that copy the source",
    "repetition": "with repetitions",
    "length_limit": "cut at the length limit",
    "short": "that are suspiciously short",
    "long": "that are suspiciously long",
    "unknown": "of text with characters that the model does not know",
}
"""Flags that are reported without an option, and how: "translations with repetitions: 3"."""


def format_duration(seconds: float) -> str:
    """Return an estimated duration, rounded: "90 seconds", "5 minutes" or "2.5 hours"."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


@contextmanager
def show_corpus_progress() -> Iterator[StageCallback]:
    """Show the current stage and the number of lines while a corpus is read, on a terminal."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with _build_bar(*columns) as bar:
        task = bar.add_task("reading")
        yield lambda stage, lines: bar.update(task, description=f"{stage}, {lines:,} lines")


@contextmanager
def show_progress(description: str = "translating") -> Iterator[ProgressCallback]:
    """Show how much of a task is done, on a terminal: by default, of translating sentences."""
    with _build_bar(TextColumn(description), BarColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task("", visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


def _build_bar(*columns: ProgressColumn, is_shown: bool = True) -> Progress:
    console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (is_shown and console.is_terminal),
        redirect_stdout=False,  # otherwise translations would go to standard error
    )


class _SpeedColumn(ProgressColumn):
    """Lines per second, once known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} per second" if task.speed else "")


@contextmanager
def show_translation_progress(
    num_done: int, num_lines: int | None, show_bar: bool
) -> Iterator[TranslationProgress]:
    """Show the progress of a translation line by line, on standard error.

    Shows a progress bar if requested, a message for each failed line, and at the end the number of
    flagged translations.
    """
    total = (BarColumn(), TimeRemainingColumn()) if num_lines else (SpinnerColumn(),)
    columns = total[0], TextColumn("{task.completed:,.0f} lines"), _SpeedColumn(), *total[1:]
    with _build_bar(*columns, is_shown=show_bar) as bar:
        progress = TranslationProgress(bar, bar.add_task("", total=num_lines, completed=num_done))
        yield progress
    for flag, lines in progress.flagged_lines.items():
        progress.print(
            f"translations {FLAG_DESCRIPTIONS[flag]}: {len(lines):,}, first in line {lines[0]:,}"
        )


class TranslationProgress:
    """Counts the lines of a translation, and prints the messages on them."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.has_failed_lines = False
        self.flagged_lines: dict[str, list[int]] = {}
        """Line numbers by flag."""
        self._bar, self._task = bar, task

    def add_line(self, number: int, translation: Translation) -> None:
        """Count a line; print its error and its unmet constraints."""
        self._bar.advance(self._task)
        if translation.error is not None:
            self.has_failed_lines = True
            self.print(f"line {number:,} has no translation: {translation.error}")
        for term in translation.unmet_constraints:
            self.print(f"line {number:,} does not satisfy the constraint {term!r}")
        for flag in filter(FLAG_DESCRIPTIONS.__contains__, translation.flags):
            self.flagged_lines.setdefault(flag, []).append(number)

    def print(self, message: str) -> None:
        """Print a message above the progress bar."""
        self._bar.console.print(f"seq2see: {message}")
