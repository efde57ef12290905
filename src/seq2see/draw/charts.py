"""Histograms, bar charts and line charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes

from seq2see.draw.figures import BLUE, GRAY, GREEN, ORANGE, RED, new_figure

_SERIES = (BLUE, ORANGE)


_LINES = (BLUE, ORANGE, GREEN, RED, GRAY)


_FEW = 40
"""Points that are marked one by one."""


class Histogram(NamedTuple):
    """Counts in bins, for one series or several in the same bins or their own."""

    title: str
    x_label: str
    """Of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[int]]]
    """Edges of the bins, one more than there are, and counts."""


class BarChart(NamedTuple):
    """A number for each name."""

    title: str
    values: Mapping[str, float]
    colors: Sequence[str]


class LineChart(NamedTuple):
    """Lines through points, for one series or several."""

    title: str
    x_label: str
    """Of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    """The x and the y of each point."""
    y_max: float | None = None
    """Where the y-axis ends; it begins with 0 then."""
    has_log_x: bool = False
    """The x-axis by its logarithm, with a tick at each point; the y-axis begins with 0."""


def draw_charts(
    path: Path | str, title: str, charts: Sequence[Histogram | BarChart | LineChart]
) -> None:
    """Draw histograms, bars and curves, two in a row."""
    rows = -(-len(charts) // 2)
    with new_figure(path, (10, 3.2 * rows)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(charts, 1):
            axes = picture.add_subplot(rows, 2, number)
            axes.set_title(part.title)
            if isinstance(part, Histogram):
                _histogram(axes, part)
            elif isinstance(part, LineChart):
                _curves(axes, part)
            else:
                _bars(axes, part)


def _histogram(axes: Axes, histogram: Histogram) -> None:
    for (name, (edges, counts)), colour in zip(histogram.series.items(), _SERIES, strict=False):
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.55, label=name)
    axes.set_xlabel(histogram.x_label)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if len(histogram.series) > 1:
        axes.legend()


def _curves(axes: Axes, curves: LineChart) -> None:
    for (name, (x, y)), colour in zip(curves.series.items(), _LINES, strict=False):
        mark = "o" if len(x) <= _FEW else ""
        axes.plot(x, y, color=colour, label=name, linewidth=1.2, marker=mark, markersize=3)
    axes.set_xlabel(curves.x_label)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if curves.has_log_x:
        ticks = sorted({x for xs, _ in curves.series.values() for x in xs})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [_short(x) for x in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if curves.y_max:
        axes.set_ylim(0, curves.y_max)
    if len(curves.series) > 1:
        axes.legend()


def _short(number: float) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number:,.0f}"


def _bars(axes: Axes, bars: BarChart) -> None:
    names = list(bars.values)
    drawn = axes.barh(names, list(bars.values.values()), color=bars.colors)
    are_counts = all(float(value).is_integer() for value in bars.values.values())
    axes.bar_label(drawn, fmt="{:,.0f}" if are_counts else "{:,.1f}", padding=3)
    axes.invert_yaxis()  # the first on top
    axes.margins(x=0.15)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
