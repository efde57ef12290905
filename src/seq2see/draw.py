"""Pictures from plain numbers: the only importer of matplotlib. The ending names the format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seq2see.errors import InputError

BLUE, ORANGE, GREEN, RED, GREY = "#3b6ea5", "#d9822b", "#4c9a62", "#c0392b", "#8a8f98"
FORMATS = (".png", ".svg", ".pdf")
_SERIES = (BLUE, ORANGE)
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


def panels(path: Path | str, title: str, parts: Sequence[Histogram | Bars]) -> None:
    """Draw histograms and bars, two in a row."""
    rows = -(-len(parts) // 2)
    with figure(path, (10, 3.2 * rows)) as picture:
        picture.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
        for number, part in enumerate(parts, 1):
            axes = picture.add_subplot(rows, 2, number)
            axes.set_title(part.title)
            if isinstance(part, Histogram):
                _histogram(axes, part)
            else:
                _bars(axes, part)


@contextmanager
def figure(path: Path | str, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw on, and write it at the end."""
    with mpl.rc_context(_STYLE):
        picture = Figure(figsize=size, layout="constrained")
        yield picture
        _write(picture, Path(path))


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


def _bars(axes: Axes, bars: Bars) -> None:
    names = list(bars.values)
    drawn = axes.barh(names, list(bars.values.values()), color=bars.colours)
    axes.bar_label(drawn, fmt="{:,.0f}", padding=3)
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
