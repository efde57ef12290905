"""A comparison for people: the verdict, the numbers, and the largest differences word by word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2see.cli.inputs import read_translations
from seq2see.cli.progress import Told
from seq2see.evaluate import HeldOut, SystemComparison
from seq2see.evaluate.comparison import Difference, word_diff
from seq2see.evaluate.evaluation import translated
from seq2see.translator import TranslationOptions, Translator

_MARKS = {"both": ("", ""), "first": ("[-", "-]"), "second": ("{+", "+}")}
"""As wdiff has them, where there are no colours."""
_STYLES = {"both": "", "first": "red strike", "second": "green bold"}


def translations(
    name: str,
    translator: Translator | None,
    held_out: HeldOut,
    options: TranslationOptions,
    told: Told,
) -> list[str]:
    """Return what a system makes of a test set."""
    if translator is None:
        return read_translations(name, held_out)
    total = len(held_out)
    found = translated(translator, held_out, options, lambda done: told(done, total))
    return [translation.text for translation in found]


def short(names: tuple[str, str]) -> tuple[str, str]:
    """Return the last parts of the names that tell them apart."""
    first, second = (Path(name).resolve().parts for name in names)
    for count in range(1, max(len(first), len(second)) + 1):
        ends = "/".join(first[-count:]), "/".join(second[-count:])
        if ends[0] != ends[1]:
            return ends
    return first[-1], f"{first[-1]} again"


def show(found: SystemComparison, test: str, examples: int) -> None:
    """Print the comparison."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(f"{test}: {found.sentences:,} sentences; A {found.names[0]}, B {found.names[1]}")
    console.print(_numbers(found))
    as_good = len(found.differences) - found.wins - found.losses
    console.print(
        f"Sentences: {found.wins:,} better by B, {found.losses:,} by A, {as_good:,} as good, "
        f"{found.alike:,} word for word alike."
    )
    for difference in found.differences[:examples]:
        for line in _lines(difference, console.is_terminal):
            console.print(line)
    console.print("\n" + found.verdict, style="bold")


def _numbers(found: SystemComparison) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    for column in ("A", "B", "B - A", "95 %", "p bootstrap", "p random"):
        table.add_column(column, justify="right", no_wrap=True)
    for tests in found.tests.values():
        one = tests["bootstrap"]
        low, high = one.interval
        table.add_row(
            one.first.name,
            f"{one.first.value:.2f}",
            f"{one.second.value:.2f}",
            f"{one.difference:+.2f}",
            f"{low:+.2f} … {high:+.2f}",
            *(f"{comparison.p_value:.4f}" for comparison in tests.values()),
        )
    return table


def _lines(difference: Difference, colours: bool) -> Iterator[Text]:
    gain = f"{abs(difference.gain):.1f} chrF2 better by {'B' if difference.gain > 0 else 'A'}"
    yield Text(f"\nline {difference.line:,}, {gain}", style="bold")
    if difference.source is not None:
        yield Text(f"  source     {difference.source}", style="dim")
    yield Text(f"  reference  {difference.reference}", style="dim")
    words = Text("  A → B      ")
    for side, text in word_diff(difference.first, difference.second):
        before, behind = ("", "") if colours else _MARKS[side]
        words.append(f"{before}{text}{behind}", style=_STYLES[side])
    yield words
