"""Heatmaps, and the attention figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.draw.figures import BLUE, figure, inches, quiet, wrapped


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


_TITLE, _CAPTION, _LABEL, _SMALL = 11, 10, 9, 7
"""Sizes of text, in points."""


_LINE = 0.2


_MARGIN = 0.12


_GAP = 0.35


_SLANT = math.radians(60)


_BARS = 1.1


_NUMBER = 0.5


_THUMBNAIL = 1.1
"""The longer side of a small grid; all of these are inches."""


_WIDE = 6.5
"""Small grids stand below a grid that is wider, so that the picture fits a page."""


class Thumbnails(NamedTuple):
    """Small grids in rows, for looking at many at once; each row has a name."""

    title: str
    names: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Any]]
    """By row and column, each a matrix of numbers from 0 to 1."""


class Series(NamedTuple):
    """A number from 0 to 1 for each row of a grid."""

    title: str
    values: Sequence[float]


class _Box(NamedTuple):
    """A place on the picture, in inches from its upper left corner."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def axes(self, picture: Figure) -> Axes:
        width, height = picture.get_size_inches()
        below = 1 - self.bottom / height
        return picture.add_axes(
            (self.left / width, below, self.width / width, self.height / height)
        )


def attention(
    path: Path | str, title: str, grid: Grid, small: Thumbnails | None, series: Series | None
) -> None:
    """Draw a grid; beside its rows the series, and beside or below it the small grids."""
    names = inches(grid.rows, _LABEL) + 0.1
    above = math.sin(_SLANT) * inches(grid.columns, _LABEL) + 0.15
    cell = 0.3 if max(len(grid.rows), len(grid.columns)) <= 40 else 0.22
    box = _Box(_MARGIN + names, above, cell * len(grid.columns), cell * len(grid.rows))
    bars = _Box(_end(grid, box) + 0.15, box.top, _BARS, box.height)
    right = max(bars.right + _NUMBER, bars.left + inches([series.title], _LABEL)) if series else 0
    right = max(right, _end(grid, box), _MARGIN + inches([grid.title], _CAPTION))
    heads = _heads_box(small, box, right) if small else box
    width = max(right, heads.right) + _MARGIN
    lines = [x for part in title.split("\n") for x in _lines(part, width)]
    down = _MARGIN + _LINE * len(lines) + 0.35
    with figure(path, (width, down + max(box.bottom, heads.bottom) + _MARGIN)) as picture:
        picture.set_layout_engine("none")
        for number, line in enumerate(lines):
            _write(picture, line, _MARGIN, _MARGIN + _LINE * number, _TITLE, "bold")
        _write(picture, grid.title, _MARGIN, down - 0.2, _CAPTION)
        _grid(_down(box, down).axes(picture), grid)
        if series:
            _write(picture, series.title, bars.left, down + bars.top - 0.2, _LABEL)
            _bars(_down(bars, down).axes(picture), series)
        if small:
            _thumbnails(picture, small, _down(heads, down))


def _lines(text: str, width: float) -> list[str]:
    return wrapped(text, width - 2 * _MARGIN, _TITLE, "bold")


def _down(box: _Box, by: float) -> _Box:
    return box._replace(top=box.top + by)


def _write(
    picture: Figure, text: str, left: float, top: float, size: float, weight: str = "normal"
) -> None:
    width, height = picture.get_size_inches()
    where = (left / width, 1 - top / height)
    picture.text(*where, text, fontsize=size, fontweight=weight, va="top", ha="left")


def _end(grid: Grid, box: _Box) -> float:
    """Return where a grid ends, or the last of its slanted names."""
    cell = box.width / len(grid.columns)
    return max(
        box.left + (column + 0.5) * cell + math.cos(_SLANT) * inches([name], _LABEL) + 0.1
        for column, name in enumerate((*grid.columns, ""))
    )


def _heads_box(small: Thumbnails, box: _Box, right: float) -> _Box:
    """Return the place of the small grids and of all their names."""
    width, height = _pitch(small)
    size = (
        max(_side(small) + width * len(small.columns), inches([small.title], _CAPTION)),
        height * len(small.names) + 2 * _LINE,
    )
    if box.width > _WIDE:
        return _Box(_MARGIN, box.bottom + _GAP, *size)
    return _Box(right + _GAP, -0.2, *size)  # its title beside the grid's


def _side(small: Thumbnails) -> float:
    """Return the room for the names of the rows."""
    return inches(small.names, _SMALL) + 0.1


def _pitch(small: Thumbnails) -> tuple[float, float]:
    """Return how far small grids stand from each other."""
    width, height = _thumbnail(small)
    return max(width, inches(small.columns, _SMALL)) + 0.1, max(height, 0.15) + 0.1


def _thumbnail(small: Thumbnails) -> tuple[float, float]:
    rows, columns = len(small.values[0][0]), len(small.values[0][0][0])
    cell = _THUMBNAIL / max(rows, columns)
    return cell * columns, cell * rows


def _grid(axes: Axes, grid: Grid) -> None:
    """Draw a grid with its columns' names above, as one reads it."""
    axes.imshow(grid.values, cmap="Blues", vmin=0, vmax=grid.most, aspect="auto")
    axes.set_xticks(range(len(grid.columns)), grid.columns)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=math.degrees(_SLANT), ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    quiet(axes)


def _bars(axes: Axes, series: Series) -> None:
    places = range(len(series.values))
    axes.barh(places, series.values, color=BLUE, height=0.6)
    for place, value in zip(places, series.values, strict=True):
        axes.text(1.03, place, f"{value:.1%}", va="center", fontsize=_SMALL)
    axes.set(xlim=(0, 1), ylim=(len(series.values) - 0.5, -0.5), xticks=[], yticks=[])
    quiet(axes)


def _thumbnails(picture: Figure, small: Thumbnails, place: _Box) -> None:
    _write(picture, small.title, place.left, place.top, _CAPTION)
    across, down = _pitch(small)
    width, height = _thumbnail(small)
    left, top = place.left + _side(small), place.top + 2 * _LINE
    for c, name in enumerate(small.columns):
        _write(picture, name, left + c * across, top - 0.13, _SMALL)
    for r, name in enumerate(small.names):
        _write(picture, name, place.left, top + r * down + height / 2 - 0.05, _SMALL)
        for c, values in enumerate(small.values[r]):
            axes = _Box(left + c * across, top + r * down, width, height).axes(picture)
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set(xticks=[], yticks=[])
            quiet(axes)
