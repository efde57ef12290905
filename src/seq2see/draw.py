"""Charts, heatmaps and the attention figure, written as PNG, SVG or PDF with matplotlib.

The parts of the attention figure are placed by the measured extents of what is drawn already, so
that nothing overlaps.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.text import Text

from seq2see.errors import InputError, writing
from seq2see.registries import FIGURE_FORMATS

BLUE, ORANGE, GREEN, RED, GRAY = "#3b6ea5", "#d9822b", "#4c9a62", "#c0392b", "#8a8f98"

_EAST_ASIAN_FONTS = (
    *("CJK", "PingFang", "YaHei", "SimHei"),
    *("Hiragino", "IPA", "WenQuanYi", "Noto Sans SC"),
)
"""Parts of the names of fonts with Chinese, Japanese and Korean characters."""
_POINTS_PER_INCH = 72
_STYLE: Any = {  # matplotlib types the keys as a Literal
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 120,
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # $ has no special meaning
}


@contextmanager
def open_figure_saved_on_exit(
    path: Path | str, size: tuple[float, float], title: str = "", is_cropped: bool = False
) -> Iterator[Figure]:
    """Yield a new figure, and write it to `path` at the end of the `with` block.

    Args:
        path: File to write; its suffix selects the format.
        size: Width and height in inches.
        title: Title above all charts of the figure.
        is_cropped: Place axes by hand, and make the file as large as what is drawn.

    Raises:
        InputError: If the file cannot be written.
    """
    with mpl.rc_context({**_STYLE, "font.family": list(list_figure_fonts())}):
        figure = Figure(figsize=size, layout=None if is_cropped else "constrained")
        if title:
            figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        yield figure
        _write_figure(figure, Path(path), "tight" if is_cropped else None)


@cache
def list_figure_fonts() -> tuple[str, ...]:
    """Return the font families of figures: the default font, and installed East Asian fonts."""
    fonts = _find_east_asian_fonts()
    if not fonts:  # matplotlib caches its list of fonts, so it misses fonts installed later
        for path in findSystemFonts():
            if any(part in Path(path).name for part in _EAST_ASIAN_FONTS):
                fontManager.addfont(path)
        fonts = _find_east_asian_fonts()
    sans = [name for name in fonts if "Serif" not in name and "Mono" not in name]
    return ("DejaVu Sans", *(sans or fonts)[:2])


def _find_east_asian_fonts() -> list[str]:
    names = sorted({font.name for font in fontManager.ttflist})
    return [name for name in names if any(part in name for part in _EAST_ASIAN_FONTS)]


@cache
def _measuring_canvas() -> FigureCanvasAgg:
    return FigureCanvasAgg(Figure(dpi=_POINTS_PER_INCH))


def measure_text_width(text: str, size: float, weight: str = "normal") -> float:
    """Return the width of a text in inches; `size` is in points."""
    canvas = _measuring_canvas()
    drawn = Text(text=text, parse_math=False, fontsize=size, fontweight=weight)
    drawn.set(fontfamily=list(list_figure_fonts()), figure=canvas.figure)
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return float(drawn.get_window_extent(renderer).width) / _POINTS_PER_INCH


def wrap_text(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Return the lines of a text that is wrapped to approximately a width in inches."""
    num_lines = measure_text_width(text, size, weight) / width
    return textwrap.wrap(text, max(1, int(len(text) / max(1, num_lines))))


def style_axes_frame(axes: Axes) -> None:
    """Replace the lines of the axes by a light frame without ticks."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set(visible=True, color="#d0d4da")


def _write_figure(figure: Figure, path: Path, bbox_inches: Literal["tight"] | None) -> None:
    if path.suffix.lower() not in FIGURE_FORMATS:
        formats = ", ".join(FIGURE_FORMATS)
        raise InputError(f"the name of a figure must end with one of {formats}, but is {path}")
    with writing(path):
        figure.savefig(path, format=path.suffix.lower()[1:], bbox_inches=bbox_inches)


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

    def draw_on(self, axes: Axes) -> None:
        """Draw the chart."""
        for (name, (x, y)), color in zip(self.series.items(), _SERIES_COLORS, strict=False):
            marker = "o" if len(x) <= _MAX_MARKED_POINTS else ""
            axes.plot(x, y, color=color, label=name, linewidth=1.2, marker=marker, markersize=3)
        axes.set_xlabel(self.x_label)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        if self.y_max:
            axes.set_ylim(0, self.y_max)


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
_MAX_SIDE_WIDTH = 6.5
"""Thumbnails are drawn below a heatmap that is wider, in inches, so that it fits on a page."""


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
    width = max(width, measure_text_width(title, 11, "bold") + 0.3)
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


def save_attention_figure(
    path: Path | str, title: str, heatmap: Heatmap, thumbnails: HeatmapThumbnails | None = None
) -> None:
    """Draw a heatmap, and thumbnails beside or below it."""
    # All positions are in inches, because the figure has a size of one inch before it is cropped.
    with open_figure_saved_on_exit(path, (1, 1), is_cropped=True) as figure:
        width = _draw_heatmap(figure, heatmap)
        bounds = figure.get_tightbbox()
        figure.text(bounds.x0, bounds.y1 + 0.1, heatmap.title, fontsize=_CAPTION)
        if thumbnails:
            bounds, label_width = figure.get_tightbbox(), _max_small_width(thumbnails.row_labels)
            if width <= _MAX_SIDE_WIDTH:
                left, top = bounds.x1 + 0.35, bounds.y1
            else:
                left, top = bounds.x0, bounds.y0 - 0.35
            figure.text(left, top, thumbnails.title, fontsize=_CAPTION, va="top")
            _draw_thumbnails(figure, thumbnails, left + label_width, top - 0.45)
        bounds = figure.get_tightbbox()
        lines = [
            line
            for part in title.split("\n")
            for line in wrap_text(part, bounds.width, _TITLE, "bold")
        ]
        figure.text(
            bounds.x0, bounds.y1 + 0.2, "\n".join(lines), fontsize=_TITLE, fontweight="bold"
        )


def _draw_heatmap(figure: Figure, heatmap: Heatmap) -> float:
    """Draw a heatmap with its column labels above; return its width."""
    rows, columns = len(heatmap.row_labels), len(heatmap.column_labels)
    cell = 0.3 if max(rows, columns) <= 40 else 0.22
    axes = figure.add_axes((0, 0, cell * columns, cell * rows))
    axes.imshow(heatmap.values, cmap="Blues", vmin=0, vmax=heatmap.max_value, aspect="auto")
    _label_cells(axes, heatmap)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", rotation_mode="anchor")
    style_axes_frame(axes)
    return cell * columns


def _draw_thumbnails(
    figure: Figure, thumbnails: HeatmapThumbnails, left: float, top: float
) -> None:
    """Draw the grid with its upper left corner at this position, and labels outside of it."""
    num_rows, num_columns = np.shape(thumbnails.values[0][0])
    cell = 1.1 / max(num_rows, num_columns)
    width, height = cell * num_columns, cell * num_rows
    across = max(width, _max_small_width(thumbnails.column_labels)) + 0.1
    down = max(height, 0.15) + 0.1
    for r, row in enumerate(thumbnails.values):
        for c, values in enumerate(row):
            axes = figure.add_axes((left + c * across, top - r * down - height, width, height))
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set(xticks=[], yticks=[])
            style_axes_frame(axes)
            if r == 0:
                axes.set_title(thumbnails.column_labels[c], fontsize=_SMALL, pad=3)
            if c == 0:
                style: Any = {"rotation": 0, "ha": "right", "va": "center", "fontsize": _SMALL}
                axes.set_ylabel(thumbnails.row_labels[r], labelpad=4, **style)


def _max_small_width(labels: Sequence[str]) -> float:
    return max(measure_text_width(label, _SMALL) for label in labels) + 0.1
