"""Heatmaps, and the attention figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.draw.figures import BLUE, draw_light_frame, measure_text_width, new_figure, wrap_text


class Heatmap(NamedTuple):
    """Numbers from 0 up in rows and columns, darker for more."""

    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: Sequence[Sequence[float]]
    max_value: float = 1.0
    """The number that is darkest."""


def draw_heatmaps(path: Path | str, title: str, heatmaps: Sequence[Heatmap]) -> None:
    """Draw grids, one below the other."""
    height = sum(0.25 * len(part.row_labels) + 1.1 for part in heatmaps)
    with new_figure(path, (9, height + 0.4)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(heatmaps, 1):
            axes = picture.add_subplot(len(heatmaps), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="Blues", vmin=0, vmax=part.max_value, aspect="auto")
            axes.set_xticks(
                range(len(part.column_labels)), part.column_labels, rotation=45, ha="right"
            )
            axes.set_yticks(range(len(part.row_labels)), part.row_labels)
            axes.tick_params(length=0)


class DivergingHeatmap(NamedTuple):
    """Numbers above and below 0 in rows and columns, written into their cells."""

    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: Sequence[Sequence[float]]
    """NaN leaves a cell empty."""


def draw_diverging_heatmaps(
    path: Path | str, title: str, heatmaps: Sequence[DivergingHeatmap]
) -> None:
    """Draw such grids, one below the other, on one scale of colours: blue below 0, red above."""
    flat = [abs(v) for part in heatmaps for row in part.values for v in row if not math.isnan(v)]
    most = max([*flat, 1e-9])
    width = 0.62 * max(len(part.column_labels) for part in heatmaps) + 2.2
    height = sum(0.34 * len(part.row_labels) + 0.9 for part in heatmaps)
    with new_figure(
        path, (max(width, measure_text_width([title], 11, "bold") + 0.3), height + 0.4)
    ) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(heatmaps, 1):
            axes = picture.add_subplot(len(heatmaps), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
            axes.set_xticks(range(len(part.column_labels)), part.column_labels)
            axes.set_yticks(range(len(part.row_labels)), part.row_labels)
            draw_light_frame(axes)
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


class HeatmapThumbnails(NamedTuple):
    """Small grids in rows, for looking at many at once; each row has a name."""

    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: Sequence[Sequence[Any]]
    """By row and column, each a matrix of numbers from 0 to 1."""


class RowBars(NamedTuple):
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


def draw_attention(
    path: Path | str,
    title: str,
    heatmap: Heatmap,
    thumbnails: HeatmapThumbnails | None,
    row_bars: RowBars | None,
) -> None:
    """Draw a grid; beside its rows the series, and beside or below it the small grids."""
    names = measure_text_width(heatmap.row_labels, _LABEL) + 0.1
    above = math.sin(_SLANT) * measure_text_width(heatmap.column_labels, _LABEL) + 0.15
    cell = 0.3 if max(len(heatmap.row_labels), len(heatmap.column_labels)) <= 40 else 0.22
    box = _Box(
        _MARGIN + names, above, cell * len(heatmap.column_labels), cell * len(heatmap.row_labels)
    )
    bars = _Box(_end(heatmap, box) + 0.15, box.top, _BARS, box.height)
    right = (
        max(bars.right + _NUMBER, bars.left + measure_text_width([row_bars.title], _LABEL))
        if row_bars
        else 0
    )
    right = max(right, _end(heatmap, box), _MARGIN + measure_text_width([heatmap.title], _CAPTION))
    heads = _heads_box(thumbnails, box, right) if thumbnails else box
    width = max(right, heads.right) + _MARGIN
    lines = [x for part in title.split("\n") for x in _lines(part, width)]
    down = _MARGIN + _LINE * len(lines) + 0.35
    with new_figure(path, (width, down + max(box.bottom, heads.bottom) + _MARGIN)) as picture:
        picture.set_layout_engine("none")
        for number, line in enumerate(lines):
            _write(picture, line, _MARGIN, _MARGIN + _LINE * number, _TITLE, "bold")
        _write(picture, heatmap.title, _MARGIN, down - 0.2, _CAPTION)
        _grid(_down(box, down).axes(picture), heatmap)
        if row_bars:
            _write(picture, row_bars.title, bars.left, down + bars.top - 0.2, _LABEL)
            _bars(_down(bars, down).axes(picture), row_bars)
        if thumbnails:
            _thumbnails(picture, thumbnails, _down(heads, down))


def _lines(text: str, width: float) -> list[str]:
    return wrap_text(text, width - 2 * _MARGIN, _TITLE, "bold")


def _down(box: _Box, by: float) -> _Box:
    return box._replace(top=box.top + by)


def _write(
    picture: Figure, text: str, left: float, top: float, size: float, weight: str = "normal"
) -> None:
    width, height = picture.get_size_inches()
    where = (left / width, 1 - top / height)
    picture.text(*where, text, fontsize=size, fontweight=weight, va="top", ha="left")


def _end(grid: Heatmap, box: _Box) -> float:
    """Return where a grid ends, or the last of its slanted names."""
    cell = box.width / len(grid.column_labels)
    return max(
        box.left
        + (column + 0.5) * cell
        + math.cos(_SLANT) * measure_text_width([name], _LABEL)
        + 0.1
        for column, name in enumerate((*grid.column_labels, ""))
    )


def _heads_box(small: HeatmapThumbnails, box: _Box, right: float) -> _Box:
    """Return the place of the small grids and of all their names."""
    width, height = _pitch(small)
    size = (
        max(
            _side(small) + width * len(small.column_labels),
            measure_text_width([small.title], _CAPTION),
        ),
        height * len(small.row_labels) + 2 * _LINE,
    )
    if box.width > _WIDE:
        return _Box(_MARGIN, box.bottom + _GAP, *size)
    return _Box(right + _GAP, -0.2, *size)  # its title beside the grid's


def _side(small: HeatmapThumbnails) -> float:
    """Return the room for the names of the rows."""
    return measure_text_width(small.row_labels, _SMALL) + 0.1


def _pitch(small: HeatmapThumbnails) -> tuple[float, float]:
    """Return how far small grids stand from each other."""
    width, height = _thumbnail(small)
    return max(width, measure_text_width(small.column_labels, _SMALL)) + 0.1, max(
        height, 0.15
    ) + 0.1


def _thumbnail(small: HeatmapThumbnails) -> tuple[float, float]:
    rows, columns = len(small.values[0][0]), len(small.values[0][0][0])
    cell = _THUMBNAIL / max(rows, columns)
    return cell * columns, cell * rows


def _grid(axes: Axes, grid: Heatmap) -> None:
    """Draw a grid with its columns' names above, as one reads it."""
    axes.imshow(grid.values, cmap="Blues", vmin=0, vmax=grid.max_value, aspect="auto")
    axes.set_xticks(range(len(grid.column_labels)), grid.column_labels)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=math.degrees(_SLANT), ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(grid.row_labels)), grid.row_labels)
    draw_light_frame(axes)


def _bars(axes: Axes, series: RowBars) -> None:
    places = range(len(series.values))
    axes.barh(places, series.values, color=BLUE, height=0.6)
    for place, value in zip(places, series.values, strict=True):
        axes.text(1.03, place, f"{value:.1%}", va="center", fontsize=_SMALL)
    axes.set(xlim=(0, 1), ylim=(len(series.values) - 0.5, -0.5), xticks=[], yticks=[])
    draw_light_frame(axes)


def _thumbnails(picture: Figure, small: HeatmapThumbnails, place: _Box) -> None:
    _write(picture, small.title, place.left, place.top, _CAPTION)
    across, down = _pitch(small)
    width, height = _thumbnail(small)
    left, top = place.left + _side(small), place.top + 2 * _LINE
    for c, name in enumerate(small.column_labels):
        _write(picture, name, left + c * across, top - 0.13, _SMALL)
    for r, name in enumerate(small.row_labels):
        _write(picture, name, place.left, top + r * down + height / 2 - 0.05, _SMALL)
        for c, values in enumerate(small.values[r]):
            axes = _Box(left + c * across, top + r * down, width, height).axes(picture)
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set(xticks=[], yticks=[])
            draw_light_frame(axes)
