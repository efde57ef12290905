"""Tables of the reports that commands print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table


def build_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table for the terminal; columns of numbers are aligned to the right."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
