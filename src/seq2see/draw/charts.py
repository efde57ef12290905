"""Histograms, bar charts and line charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes

from seq2see.draw.figure_style_and_files import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    open_figure_saved_on_exit,
)

_HISTOGRAM_COLORS = (BLUE, ORANGE)


_LINE_COLORS = (BLUE, ORANGE, GREEN, RED, GRAY)


_MAX_MARKED_POINTS = 40
"""Lines with at most this number of points have markers."""


class Histogram(NamedTuple):
    """Histogram of one or more series."""

    title: str
    x_label: str
    """Label of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[int]]]
    """Edges of the bins (one more than bins) and counts of each series, by name."""


class BarChart(NamedTuple):
    """Horizontal bar chart with one bar per name."""

    title: str
    values: Mapping[str, float]
    colors: Sequence[str]


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


def save_charts(
    path: Path | str, title: str, charts: Sequence[Histogram | BarChart | LineChart]
) -> None:
    """Draw charts in one figure, two per row."""
    rows = -(-len(charts) // 2)
    with open_figure_saved_on_exit(path, (10, 3.2 * rows)) as figure:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, chart in enumerate(charts, 1):
            axes = figure.add_subplot(rows, 2, number)
            axes.set_title(chart.title)
            if isinstance(chart, Histogram):
                _draw_histogram(axes, chart)
            elif isinstance(chart, LineChart):
                _draw_lines(axes, chart)
            else:
                _draw_bars(axes, chart)


def _draw_histogram(axes: Axes, chart: Histogram) -> None:
    series = zip(chart.series.items(), _HISTOGRAM_COLORS, strict=False)
    for (name, (edges, counts)), color in series:
        axes.stairs(counts, edges, fill=True, color=color, alpha=0.55, label=name)
    axes.set_xlabel(chart.x_label)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if len(chart.series) > 1:
        axes.legend()


def _draw_lines(axes: Axes, chart: LineChart) -> None:
    for (name, (x, y)), color in zip(chart.series.items(), _LINE_COLORS, strict=False):
        marker = "o" if len(x) <= _MAX_MARKED_POINTS else ""
        axes.plot(x, y, color=color, label=name, linewidth=1.2, marker=marker, markersize=3)
    axes.set_xlabel(chart.x_label)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if chart.has_log_x:
        ticks = sorted({x for xs, _ in chart.series.values() for x in xs})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [_format_tick(x) for x in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if chart.y_max:
        axes.set_ylim(0, chart.y_max)
    if len(chart.series) > 1:
        axes.legend()


def _format_tick(number: float) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number:,.0f}"


def _draw_bars(axes: Axes, chart: BarChart) -> None:
    names = list(chart.values)
    drawn = axes.barh(names, list(chart.values.values()), color=chart.colors)
    are_counts = all(float(value).is_integer() for value in chart.values.values())
    axes.bar_label(drawn, fmt="{:,.0f}" if are_counts else "{:,.1f}", padding=3)
    axes.invert_yaxis()  # first bar at the top
    axes.margins(x=0.15)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
