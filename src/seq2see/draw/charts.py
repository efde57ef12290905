"""Histograms, bar charts, line charts, heatmaps, and the attention figure.

The size of the attention figure is computed from the measured width of its text, so that nothing
overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.draw.figure import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    measure_max_text_width,
    open_figure_saved_on_exit,
    style_axes_frame,
    wrap_text,
)

_SERIES_COLORS = (BLUE, ORANGE, GREEN, RED, GRAY)
_MAX_MARKED_POINTS = 40
"""Lines with at most this number of points have markers."""


class Histogram(NamedTuple):
    """Histogram of one or more series."""

    title: str
    x_label: str
    """Label of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[int]]]
    """Edges of the bins (one more than bins) and counts of each series, by name."""

    def draw_on(self, axes: Axes) -> None:
        """Draw the chart."""
        for (name, (edges, counts)), color in zip(
            self.series.items(), _SERIES_COLORS, strict=False
        ):
            axes.stairs(counts, edges, fill=True, color=color, alpha=0.55, label=name)
        axes.set_xlabel(self.x_label)
        axes.yaxis.set_major_formatter("{x:,.0f}")


class BarChart(NamedTuple):
    """Horizontal bar chart with one bar per name."""

    title: str
    values: Mapping[str, float]
    colors: Sequence[str]

    def draw_on(self, axes: Axes) -> None:
        """Draw the chart."""
        names = list(self.values)
        drawn = axes.barh(names, list(self.values.values()), color=self.colors)
        are_counts = all(float(value).is_integer() for value in self.values.values())
        axes.bar_label(drawn, fmt="{:,.0f}" if are_counts else "{:,.1f}", padding=3)
        axes.invert_yaxis()  # first bar at the top
        axes.margins(x=0.15)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)


class LineChart(NamedTuple):
    """Line chart of one or more series."""

    title: str
    x_label: str
    """Label of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    """x and y values of each series, by name."""
    y_max: float | None = None
    """Upper limit of the y-axis, which then starts at 0."""
    has_log_x: bool = False
    """Logarithmic x-axis with a tick at each point; the y-axis starts at 0."""

    def draw_on(self, axes: Axes) -> None:
        """Draw the chart."""
        for (name, (x, y)), color in zip(self.series.items(), _SERIES_COLORS, strict=False):
            marker = "o" if len(x) <= _MAX_MARKED_POINTS else ""
            axes.plot(x, y, color=color, label=name, linewidth=1.2, marker=marker, markersize=3)
        axes.set_xlabel(self.x_label)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        if self.has_log_x:
            ticks = sorted({x for xs, _ in self.series.values() for x in xs})
            axes.set_xscale("log")
            axes.set_xticks(ticks, [_format_tick(x) for x in ticks])
            axes.minorticks_off()
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_formatter("{x:,.0f}")
        if self.y_max:
            axes.set_ylim(0, self.y_max)


def _format_tick(number: float) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number:,.0f}"


def save_charts(
    path: Path | str, title: str, charts: Sequence[Histogram | BarChart | LineChart]
) -> None:
    """Draw charts in one figure, two per row."""
    rows = -(-len(charts) // 2)
    with open_figure_saved_on_exit(path, (10, 3.2 * rows), title) as figure:
        for number, chart in enumerate(charts, 1):
            axes = figure.add_subplot(rows, 2, number)
            axes.set_title(chart.title)
            chart.draw_on(axes)
            if len(axes.get_legend_handles_labels()[0]) > 1:
                axes.legend()


_TITLE, _CAPTION, _LABEL, _SMALL = 11, 10, 9, 7
"""Font sizes in points."""
_LABEL_ANGLE = math.radians(60)

# Lengths in inches.
_LINE_HEIGHT = 0.2
_MARGIN = 0.12
_GAP = 0.35
_BAR_WIDTH = 1.1
_BAR_LABEL_WIDTH = 0.5
_THUMBNAIL_SIZE = 1.1
"""Longer side of a thumbnail."""
_MAX_SIDE_WIDTH = 6.5
"""Thumbnails are drawn below a wider heatmap, so that the figure fits on a page."""


class Heatmap(NamedTuple):
    """Heatmap of a table of numbers."""

    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: Sequence[Sequence[float]]
    """Numbers by row and column; NaN is an empty cell."""
    max_value: float = 1.0
    """The number with the darkest color, in a heatmap of numbers from 0."""


def save_heatmaps(path: Path | str, title: str, heatmaps: Sequence[Heatmap]) -> None:
    """Draw heatmaps in one figure, one below the other."""
    height = sum(0.25 * len(heatmap.row_labels) + 1.1 for heatmap in heatmaps)
    with open_figure_saved_on_exit(path, (9, height + 0.4), title) as figure:
        for number, heatmap in enumerate(heatmaps, 1):
            axes = figure.add_subplot(len(heatmaps), 1, number, title=heatmap.title)
            axes.imshow(heatmap.values, cmap="Blues", vmin=0, vmax=heatmap.max_value, aspect="auto")
            _label_cells(axes, heatmap)
            axes.tick_params(length=0)
            axes.tick_params(axis="x", rotation=45, rotation_mode="xtick")


def _label_cells(axes: Axes, heatmap: Heatmap) -> None:
    axes.set_xticks(range(len(heatmap.column_labels)), heatmap.column_labels)
    axes.set_yticks(range(len(heatmap.row_labels)), heatmap.row_labels)


def save_diverging_heatmap(path: Path | str, title: str, heatmap: Heatmap) -> None:
    """Draw a heatmap with numbers in its cells: blue below 0, red above."""
    max_size = float(np.nanmax(np.abs(heatmap.values), initial=1e-9))
    width = 0.62 * len(heatmap.column_labels) + 2.2
    width = max(width, measure_max_text_width([title], 11, "bold") + 0.3)
    size = (width, 0.34 * len(heatmap.row_labels) + 1.3)
    with open_figure_saved_on_exit(path, size, title) as figure:
        axes = figure.add_subplot()
        axes.imshow(heatmap.values, cmap="RdBu_r", vmin=-max_size, vmax=max_size, aspect="auto")
        _label_cells(axes, heatmap)
        style_axes_frame(axes)
        for (row, column), value in np.ndenumerate(np.asarray(heatmap.values)):
            if not math.isnan(value):
                color = "white" if abs(value) > 0.6 * max_size else "black"
                style: Any = {"ha": "center", "va": "center", "color": color, "size": 8}
                axes.text(column, row, f"{value:+.1f}", **style)


class HeatmapThumbnails(NamedTuple):
    """Grid of small heatmaps, with a label for each row and column of the grid."""

    title: str
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    values: Sequence[Sequence[Any]]
    """Matrices of numbers from 0 to 1, by row and column of the grid."""


class HeatmapRowBars(NamedTuple):
    """Bars beside the rows of a heatmap, with a number from 0 to 1 per row."""

    title: str
    values: Sequence[float]


class _Box(NamedTuple):
    """A rectangle in the figure, in inches from its upper left corner."""

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

    def add_axes(self, figure: Figure, top: float = 0.0) -> Axes:
        """Return new axes in the rectangle, moved down by `top`."""
        width, height = figure.get_size_inches()
        bottom = 1 - (top + self.bottom) / height
        return figure.add_axes(
            (self.left / width, bottom, self.width / width, self.height / height)
        )


def save_attention_figure(
    path: Path | str,
    title: str,
    heatmap: Heatmap,
    thumbnails: HeatmapThumbnails | None,
    row_bars: HeatmapRowBars | None,
) -> None:
    """Draw a heatmap with bars beside its rows, and thumbnails beside or below it."""
    label_width = measure_max_text_width(heatmap.row_labels, _LABEL) + 0.1
    label_height = (
        math.sin(_LABEL_ANGLE) * measure_max_text_width(heatmap.column_labels, _LABEL) + 0.15
    )
    cell = 0.3 if max(len(heatmap.row_labels), len(heatmap.column_labels)) <= 40 else 0.22
    box = _Box(
        _MARGIN + label_width,
        label_height,
        cell * len(heatmap.column_labels),
        cell * len(heatmap.row_labels),
    )
    bars = _Box(_find_right_end(heatmap, box) + 0.15, box.top, _BAR_WIDTH, box.height)
    ends = [
        _find_right_end(heatmap, box),
        _MARGIN + measure_max_text_width([heatmap.title], _CAPTION),
    ]
    if row_bars:
        title_width = measure_max_text_width([row_bars.title], _LABEL)
        ends += [bars.right + _BAR_LABEL_WIDTH, bars.left + title_width]
    right = max(ends)
    grid = _place_thumbnails(thumbnails, box, right) if thumbnails else box
    width = max(right, grid.right) + _MARGIN
    lines = [
        line
        for part in title.split("\n")
        for line in wrap_text(part, width - 2 * _MARGIN, _TITLE, "bold")
    ]
    top = _MARGIN + _LINE_HEIGHT * len(lines) + 0.35
    with open_figure_saved_on_exit(
        path, (width, top + max(box.bottom, grid.bottom) + _MARGIN)
    ) as figure:
        figure.set_layout_engine("none")
        for number, line in enumerate(lines):
            _write_text(figure, line, _MARGIN, _MARGIN + _LINE_HEIGHT * number, _TITLE, "bold")
        _write_text(figure, heatmap.title, _MARGIN, top - 0.2, _CAPTION)
        _draw_heatmap(box.add_axes(figure, top), heatmap)
        if row_bars:
            _write_text(figure, row_bars.title, bars.left, top + bars.top - 0.2, _LABEL)
            _draw_bars(bars.add_axes(figure, top), row_bars)
        if thumbnails:
            _draw_thumbnails(figure, thumbnails, grid._replace(top=grid.top + top))


def _write_text(
    figure: Figure, text: str, left: float, top: float, size: float, weight: str = "normal"
) -> None:
    width, height = figure.get_size_inches()
    position = (left / width, 1 - top / height)
    figure.text(*position, text, fontsize=size, fontweight=weight, va="top", ha="left")


def _find_right_end(heatmap: Heatmap, box: _Box) -> float:
    """Return the right end of a heatmap or of its slanted column labels."""
    cell = box.width / len(heatmap.column_labels)
    return max(
        box.left
        + (column + 0.5) * cell
        + math.cos(_LABEL_ANGLE) * measure_max_text_width([name], _LABEL)
        + 0.1
        for column, name in enumerate((*heatmap.column_labels, ""))
    )


def _place_thumbnails(thumbnails: HeatmapThumbnails, box: _Box, right: float) -> _Box:
    """Return the rectangle of the thumbnails with their labels."""
    width, height = _thumbnail_distance(thumbnails)
    size = (
        max(
            _label_width(thumbnails) + width * len(thumbnails.column_labels),
            measure_max_text_width([thumbnails.title], _CAPTION),
        ),
        height * len(thumbnails.row_labels) + 2 * _LINE_HEIGHT,
    )
    if box.width > _MAX_SIDE_WIDTH:
        return _Box(_MARGIN, box.bottom + _GAP, *size)
    return _Box(right + _GAP, -0.2, *size)  # its title is beside that of the heatmap


def _label_width(thumbnails: HeatmapThumbnails) -> float:
    """Return the width of the row labels."""
    return measure_max_text_width(thumbnails.row_labels, _SMALL) + 0.1


def _thumbnail_distance(thumbnails: HeatmapThumbnails) -> tuple[float, float]:
    """Return the horizontal and vertical distance of thumbnails."""
    width, height = _thumbnail_size(thumbnails)
    return max(width, measure_max_text_width(thumbnails.column_labels, _SMALL)) + 0.1, max(
        height, 0.15
    ) + 0.1


def _thumbnail_size(thumbnails: HeatmapThumbnails) -> tuple[float, float]:
    rows, columns = len(thumbnails.values[0][0]), len(thumbnails.values[0][0][0])
    cell = _THUMBNAIL_SIZE / max(rows, columns)
    return cell * columns, cell * rows


def _draw_heatmap(axes: Axes, heatmap: Heatmap) -> None:
    """Draw a heatmap with its column labels above."""
    axes.imshow(heatmap.values, cmap="Blues", vmin=0, vmax=heatmap.max_value, aspect="auto")
    _label_cells(axes, heatmap)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=math.degrees(_LABEL_ANGLE), ha="left", rotation_mode="anchor")
    style_axes_frame(axes)


def _draw_bars(axes: Axes, bars: HeatmapRowBars) -> None:
    rows = range(len(bars.values))
    axes.barh(rows, bars.values, color=BLUE, height=0.6)
    for row, value in zip(rows, bars.values, strict=True):
        axes.text(1.03, row, f"{value:.1%}", va="center", fontsize=_SMALL)
    axes.set(xlim=(0, 1), ylim=(len(bars.values) - 0.5, -0.5), xticks=[], yticks=[])
    style_axes_frame(axes)


def _draw_thumbnails(figure: Figure, thumbnails: HeatmapThumbnails, box: _Box) -> None:
    _write_text(figure, thumbnails.title, box.left, box.top, _CAPTION)
    across, down = _thumbnail_distance(thumbnails)
    width, height = _thumbnail_size(thumbnails)
    left, top = box.left + _label_width(thumbnails), box.top + 2 * _LINE_HEIGHT
    for c, name in enumerate(thumbnails.column_labels):
        _write_text(figure, name, left + c * across, top - 0.13, _SMALL)
    for r, name in enumerate(thumbnails.row_labels):
        _write_text(figure, name, box.left, top + r * down + height / 2 - 0.05, _SMALL)
        for c, values in enumerate(thumbnails.values[r]):
            axes = _Box(left + c * across, top + r * down, width, height).add_axes(figure)
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set(xticks=[], yticks=[])
            style_axes_frame(axes)
