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
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from seq2see.progress import ProgressCallback, StageCallback
    from seq2see.translator import Translation


def format_duration(seconds: float) -> str:
    """Return a time that was estimated, no more exactly than that."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


@contextmanager
def show_corpus_progress() -> Iterator[StageCallback]:
    """Show on a terminal what is being done and how many lines are."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("reading")
        yield lambda doing, lines: bar.update(task, description=f"{doing}, {lines:,} lines")


FLAG_DESCRIPTIONS = {
    "copied_source": "copies of their source",
    "repetition": "saying the same again and again",
    "length_limit": "cut at their greatest length",
    "short": "suspiciously short",
    "long": "suspiciously long",
    "unknown": "with characters that the model does not know",
}
"""What is worth a note without being asked. (Other pieces when read again are not.)"""


@contextmanager
def show_sentence_progress() -> Iterator[ProgressCallback]:
    """Show on a terminal how many sentences are translated."""
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


class _Pace(ProgressColumn):
    """Lines a second, as soon as that is known."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f} a second" if task.speed else "")


class TranslationProgressDisplay:
    """Writes to standard error: a bar if wanted, a line for each line that failed, and at the
    end what was noticed about the others."""

    def __init__(self, num_done: int, num_lines: int | None, show_bar: bool) -> None:
        self.num_failed = 0
        self._noticed: Counter[str] = Counter()
        self._first: dict[str, int] = {}
        console = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._bar = Progress(
            BarColumn() if num_lines else SpinnerColumn(),
            TextColumn("{task.completed:,.0f} lines"),
            _Pace(),
            *((TimeRemainingColumn(),) if num_lines else ()),
            console=console,
            transient=True,
            disable=not show_bar,
            redirect_stdout=False,  # it would lead the translations to standard error
        )
        self._task = self._bar.add_task("", total=num_lines, completed=num_done)

    def add_line(self, number: int, translation: Translation) -> None:
        """Hear that a line is done, or why it is not."""
        self._bar.advance(self._task)
        if translation.error is not None:
            self.num_failed += 1
            why = translation.error
            self._bar.console.print(f"seq2see: line {number:,} has no translation: {why}")
        for term in translation.unmet_constraints:
            self._bar.console.print(f"seq2see: line {number:,} does not fulfil {term!r}")
        for flag in translation.flags:
            if flag in FLAG_DESCRIPTIONS:
                self._noticed[flag] += 1
                self._first.setdefault(flag, number)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if kind is None:
            for flag, count in self._noticed.items():
                which = f"{count:,}, the first is line {self._first[flag]:,}"
                self._bar.console.print(f"seq2see: translations {FLAG_DESCRIPTIONS[flag]}: {which}")
