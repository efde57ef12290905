"""Pictures from plain numbers: the only importer of matplotlib. The ending names the format."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import findSystemFonts, fontManager

from seq2see.errors import InputError

BLUE, ORANGE, GREEN, RED, GREY = "#3b6ea5", "#d9822b", "#4c9a62", "#c0392b", "#8a8f98"
FORMATS = (".png", ".svg", ".pdf")
_SERIES = (BLUE, ORANGE)
_LINES = (BLUE, ORANGE, GREEN, RED, GREY)
_FEW = 40
"""Points that are marked one by one."""
_STYLE: Any = {  # matplotlib types the keys as one Literal of them all
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "figure.dpi": 120,
    "svg.fonttype": "none",  # words stay words
    "text.parse_math": False,  # a $ is a $
}


class Histogram(NamedTuple):
    """Counts in bins, for one series or several in the same bins or their own."""

    title: str
    label: str
    """Of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[int]]]
    """Edges of the bins, one more than there are, and counts."""


class Bars(NamedTuple):
    """A number for each name."""

    title: str
    values: Mapping[str, float]
    colours: Sequence[str]


class Curves(NamedTuple):
    """Lines through points, for one series or several."""

    title: str
    label: str
    """Of the x-axis."""
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    """The x and the y of each point."""
    top: float | None = None
    """Where the y-axis ends; it begins with 0 then."""
    log: bool = False
    """The x-axis by its logarithm, with a tick at each point; the y-axis begins with 0."""


def panels(path: Path | str, title: str, parts: Sequence[Histogram | Bars | Curves]) -> None:
    """Draw histograms, bars and curves, two in a row."""
    rows = -(-len(parts) // 2)
    with figure(path, (10, 3.2 * rows)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(rows, 2, number)
            axes.set_title(part.title)
            if isinstance(part, Histogram):
                _histogram(axes, part)
            elif isinstance(part, Curves):
                _curves(axes, part)
            else:
                _bars(axes, part)


@contextmanager
def figure(path: Path | str, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw on, and write it at the end."""
    with mpl.rc_context({**_STYLE, "font.family": list(fonts())}):
        picture = Figure(figsize=size, layout="constrained")
        yield picture
        _write(picture, Path(path))


_EAST_ASIAN = ("CJK", "PingFang", "YaHei", "SimHei", "Hiragino", "IPA", "WenQuanYi", "Noto Sans SC")


@cache
def fonts() -> tuple[str, ...]:
    """Return the fonts to write with: the usual one, and for what it lacks one that has Chinese,
    Japanese and Korean, if this computer has any."""
    others = _east_asian()
    if not others:  # matplotlib lists fonts once, and knows none that came later
        for path in findSystemFonts():
            if any(part in Path(path).name for part in _EAST_ASIAN):
                fontManager.addfont(path)
        others = _east_asian()
    sans = [name for name in others if "Serif" not in name and "Mono" not in name]
    return ("DejaVu Sans", *(sans or others)[:2])


def _east_asian() -> list[str]:
    names = sorted({font.name for font in fontManager.ttflist})
    return [name for name in names if any(part in name for part in _EAST_ASIAN)]


def refuse_name(path: Path) -> None:
    """Raise an error if no picture can have this name."""
    if path.suffix.lower() not in FORMATS:
        wanted = ", ".join(FORMATS)
        raise InputError(f"a picture's name must end with one of {wanted}, but is {path} instead")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")


def _write(picture: Figure, path: Path) -> None:
    refuse_name(path)
    try:
        picture.savefig(path, format=path.suffix.lower().removeprefix("."))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def _histogram(axes: Axes, histogram: Histogram) -> None:
    for (name, (edges, counts)), colour in zip(histogram.series.items(), _SERIES, strict=False):
        axes.stairs(counts, edges, fill=True, color=colour, alpha=0.55, label=name)
    axes.set_xlabel(histogram.label)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    if len(histogram.series) > 1:
        axes.legend()


def _curves(axes: Axes, curves: Curves) -> None:
    for (name, (x, y)), colour in zip(curves.series.items(), _LINES, strict=False):
        mark = "o" if len(x) <= _FEW else ""
        axes.plot(x, y, color=colour, label=name, linewidth=1.2, marker=mark, markersize=3)
    axes.set_xlabel(curves.label)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    if curves.log:
        ticks = sorted({x for xs, _ in curves.series.values() for x in xs})
        axes.set_xscale("log")
        axes.set_xticks(ticks, [_short(x) for x in ticks])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    if curves.top:
        axes.set_ylim(0, curves.top)
    if len(curves.series) > 1:
        axes.legend()


def _short(number: float) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number:,.0f}"


def _bars(axes: Axes, bars: Bars) -> None:
    names = list(bars.values)
    drawn = axes.barh(names, list(bars.values.values()), color=bars.colours)
    are_counts = all(float(value).is_integer() for value in bars.values.values())
    axes.bar_label(drawn, fmt="{:,.0f}" if are_counts else "{:,.1f}", padding=3)
    axes.invert_yaxis()  # the first on top
    axes.margins(x=0.15)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)


class Grid(NamedTuple):
    """Numbers from 0 to 1 in rows and columns, darker for more."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]


def grids(path: Path | str, title: str, parts: Sequence[Grid]) -> None:
    """Draw grids, one below the other."""
    height = sum(0.25 * len(part.rows) + 1.1 for part in parts)
    with figure(path, (9, height + 0.4)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(len(parts), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_xticks(range(len(part.columns)), part.columns, rotation=45, ha="right")
            axes.set_yticks(range(len(part.rows)), part.rows)
            axes.tick_params(length=0)


class Thumbnails(NamedTuple):
    """Small grids in rows, for looking at many at once; each row has a name."""

    title: str
    names: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[Any]]
    """By row and column, each a matrix of numbers from 0 to 1."""


class Series(NamedTuple):
    """A number from 0 to 1 for each of some tokens."""

    title: str
    labels: Sequence[str]
    values: Sequence[float]


def attention(
    path: Path | str, title: str, grid: Grid, small: Thumbnails | None, series: Series | None
) -> None:
    """Draw one attention large, all heads small beside it, and the steps below."""
    cell = 0.3 if len(grid.columns) <= 40 else 0.22
    longest = max(map(len, grid.rows))
    width = cell * len(grid.columns) + 0.09 * longest + 0.6
    height = cell * len(grid.rows) + 0.07 * max(map(len, grid.columns)) + 0.8
    beside = 0.85 * len(small.columns) + 1.1 if small else 0.0
    below = 2.1 if series else 0.0
    with figure(path, (max(width, 2.5) + beside, height + below)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        above: Figure | SubFigure = picture
        if series:
            ratios = (height, below)
            above, steps = picture.subfigures(2, 1, squeeze=False, height_ratios=ratios).flat
            _series(steps.add_subplot(), series)
        left = above
        if small:
            ratios = (width, beside)
            left, right = above.subfigures(1, 2, squeeze=False, width_ratios=ratios).flat
            _thumbnails(right, small)
        _grid(left.add_subplot(), grid)


def _grid(axes: Axes, grid: Grid) -> None:
    """Draw a grid with its columns' names above, as one reads it."""
    axes.set_title(grid.title, pad=8)
    axes.imshow(grid.values, cmap="Blues", vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(grid.columns)), grid.columns)
    axes.xaxis.tick_top()
    axes.tick_params(axis="x", pad=1)
    for label in axes.get_xticklabels():
        label.set(rotation=60, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    _quiet(axes)


def _quiet(axes: Axes) -> None:
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set(visible=True, color="#d0d4da")


def _thumbnails(home: Figure | SubFigure, small: Thumbnails) -> None:
    home.suptitle(small.title, fontsize=9, x=0.02, ha="left")
    rows, columns = len(small.names), len(small.columns)
    for r, name in enumerate(small.names):
        for c, column in enumerate(small.columns):
            axes = home.add_subplot(rows, columns, r * columns + c + 1)
            values = small.values[r][c]
            axes.imshow(values, cmap="Blues", vmin=0, vmax=1, aspect="auto")
            axes.set_box_aspect(len(values) / len(values[0]))
            axes.set_xticks([])
            axes.set_yticks([])
            _quiet(axes)
            if r == 0:
                axes.set_title(column, fontsize=7, loc="center", pad=2)
            if c == 0:
                axes.set_ylabel(name, fontsize=7)


def _series(axes: Axes, series: Series) -> None:
    places = range(len(series.labels))
    axes.set_title(series.title)
    axes.bar(places, series.values, color=BLUE, width=0.7)
    axes.set_xticks(places, series.labels, rotation=45, ha="right")
    axes.set_ylim(0, 1)
    axes.margins(x=0.01)


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
    with figure(path, (max(width, 0.09 * len(title)), height + 0.4)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(len(parts), 1, number)
            axes.set_title(part.title)
            axes.imshow(part.values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto")
            axes.set_xticks(range(len(part.columns)), part.columns)
            axes.set_yticks(range(len(part.rows)), part.rows)
            _quiet(axes)
            for r, row in enumerate(part.values):
                for c, value in enumerate(row):
                    if not math.isnan(value):
                        ink = "white" if abs(value) > 0.6 * most else "black"
                        axes.text(
                            c, r, f"{value:+.1f}", ha="center", va="center", color=ink, size=8
                        )
