"""Progress on the terminal while a corpus is read or text is translated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
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
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("reading")
        yield lambda stage, lines: bar.update(task, description=f"{stage}, {lines:,} lines")


@contextmanager
def show_sentence_progress() -> Iterator[ProgressCallback]:
    """Show the number of translated sentences, on a terminal."""
    console = Console(stderr=True)
    columns = TextColumn("translating"), BarColumn(), MofNCompleteColumn()
    with Progress(
        *columns,
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=False,
    ) as bar:
        task = bar.add_task("", visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


class _SpeedColumn(ProgressColumn):
    """Lines per second, once known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} per second" if task.speed else "")


class TranslationProgressDisplay:
    """Progress of a translation line by line, on standard error.

    Shows a progress bar if requested, a message for each failed line, and at the end the number of
    flagged translations.
    """

    def __init__(self, num_done: int, num_lines: int | None, show_bar: bool) -> None:
        self.num_failed = 0
        self._flag_counts: Counter[str] = Counter()
        self._first_lines: dict[str, int] = {}
        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._bar = Progress(
            BarColumn() if num_lines else SpinnerColumn(),
            TextColumn("{task.completed:,.0f} lines"),
            _SpeedColumn(),
            *((TimeRemainingColumn(),) if num_lines else ()),
            console=console,
            transient=True,
            disable=not show_bar,
            redirect_stdout=False,  # otherwise translations would go to standard error
        )
        self._task = self._bar.add_task("", total=num_lines, completed=num_done)

    def add_line(self, number: int, translation: Translation) -> None:
        """Count a line; print its error and its unmet constraints."""
        self._bar.advance(self._task)
        if translation.error is not None:
            self.num_failed += 1
            self._print(f"line {number:,} has no translation: {translation.error}")
        for term in translation.unmet_constraints:
            self._print(f"line {number:,} does not satisfy the constraint {term!r}")
        for flag in translation.flags:
            if flag in FLAG_DESCRIPTIONS:
                self._flag_counts[flag] += 1
                self._first_lines.setdefault(flag, number)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if error_type is None:
            for flag, count in self._flag_counts.items():
                first = f"{count:,}, first in line {self._first_lines[flag]:,}"
                self._print(f"translations {FLAG_DESCRIPTIONS[flag]}: {first}")

    def _print(self, message: str) -> None:
        self._bar.console.print(f"seq2see: {message}")
