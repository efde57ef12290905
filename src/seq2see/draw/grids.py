"""Numbers in rows and columns, as colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seq2see.draw.paper import figure, inches, quiet


class Grid(NamedTuple):
    """Numbers from 0 up in rows and columns, darker for more."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    most: float = 1.0
    """The number that is darkest."""


def grids(path: Path | str, title: str, parts: Sequence[Grid]) -> None:
    """Draw grids, one below the other."""
    height = sum(0.25 * len(part.rows) + 1.1 for part in parts)
    with figure(path, (9, height + 0.4)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(len(parts), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="Blues", vmin=0, vmax=part.most, aspect="auto")
            axes.set_xticks(range(len(part.columns)), part.columns, rotation=45, ha="right")
            axes.set_yticks(range(len(part.rows)), part.rows)
            axes.tick_params(length=0)


class Signed(NamedTuple):
    """Numbers above and below 0 in rows and columns, written into their cells."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    """NaN leaves a cell empty."""


def signed(path: Path | str, title: str, parts: Sequence[Signed]) -> None:
    """Draw such grids, one below the other, on one scale of colours: blue below 0, red above."""
    flat = [abs(v) for part in parts for row in part.values for v in row if not math.isnan(v)]
    most = max([*flat, 1e-9])
    width = 0.62 * max(len(part.columns) for part in parts) + 2.2
    height = sum(0.34 * len(part.rows) + 0.9 for part in parts)
    with figure(path, (max(width, inches([title], 11, "bold") + 0.3), height + 0.4)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(len(parts), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
            axes.set_xticks(range(len(part.columns)), part.columns)
            axes.set_yticks(range(len(part.rows)), part.rows)
            quiet(axes)
            for r, row in enumerate(part.values):
                for c, value in enumerate(row):
                    if not math.isnan(value):
                        ink = "white" if abs(value) > 0.6 * most else "black"
                        axes.text(
                            c, r, f"{value:+.1f}", ha="center", va="center", color=ink, size=8
                        )
