"""Pictures for the report: SVG whose lines and words take the colour of the page around them.

What is black in them becomes `currentColor`, and there is no background, so that one picture serves
light pages and dark ones. Labels may be given in both languages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from warnings import catch_warnings, filterwarnings

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import NullFormatter, NullLocator

from seq2see import draw
from seq2see.draw import BLUE, GRAY, GREEN, ORANGE, RED
from seq2see.lab.old.experiment import Figure, Text

Label = str | Text
Name = TypeVar("Name", bound=Label)
"""What a mapping has for keys: labels of one kind, or of both."""
COLOURS = (BLUE, ORANGE, GREEN, RED, "#8456a8", GRAY)


class Sketch:
    """A picture in the making: a matplotlib figure, and the words that have a translation."""

    def __init__(self, caption: Text, canvas: Canvas) -> None:
        self.caption = caption
        self.canvas = canvas
        self._words: list[Text] = []
        self._svg = ""

    def word(self, label: Label) -> str:
        """Return a label to draw, and remember its translation."""
        if isinstance(label, str):
            return label
        self._words.append(label)
        return label.en

    def finish(self, svg: str) -> None:
        """Take what was drawn."""
        self._svg = _adapted(svg)

    @property
    def figure(self) -> Figure:
        """The picture, once the sketch is closed."""
        assert self._svg, "the sketch is still open"
        return Figure(self.caption, self._svg, tuple(self._words))


@contextmanager
def sketch(caption: Text, width: float = 7.0, height: float = 3.2) -> Iterator[Sketch]:
    """Give a canvas to draw on, in inches; `.figure` is the picture afterwards."""
    with TemporaryDirectory() as folder, catch_warnings():
        filterwarnings("ignore", "Glyph .* missing")  # words stay words: the page has the font
        path = Path(folder) / "picture.svg"
        with draw.open_figure_saved_on_exit(path, (width, height)) as canvas:
            made = Sketch(caption, canvas)
            yield made
            for axes in canvas.axes:
                _finish(axes)
        made.finish(path.read_text("utf-8"))


def _finish(axes: Axes) -> None:
    """Let the page show through, and write powers of ten without the language of formulas."""
    axes.set_facecolor("none")
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(lambda value, _: _power(value))
            axis.set_minor_formatter(NullFormatter())


def _power(value: float) -> str:
    """Write 0.1, 1 and 64 as they are, and 1e-8 as 10⁻⁸."""
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    exponent = f"{math.log10(value):.0f}" if value > 0 else ""
    return "10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def curves(
    caption: Text,
    x: Sequence[float],
    series: Mapping[Name, Sequence[float]],
    labels: tuple[Label, Label],
    *,
    x_scale: str = "linear",
    y_scale: str = "linear",
    spreads: Mapping[Name, Sequence[float]] | None = None,
    marker: str = "",
) -> Figure:
    """Draw lines over the same x, with a band where a spread is given."""
    with sketch(caption) as made:
        axes = made.canvas.subplots()
        for (name, y), colour in zip(series.items(), COLOURS, strict=False):
            axes.plot(x, y, color=colour, marker=marker, markersize=4, label=made.word(name))
            if spreads and name in spreads:
                pairs = list(zip(y, spreads[name], strict=True))
                lows, highs = [v - s for v, s in pairs], [v + s for v, s in pairs]
                axes.fill_between(x, lows, highs, color=colour, alpha=0.2, linewidth=0)
        axes.set(xscale=x_scale, yscale=y_scale)
        if x_scale == "log":
            axes.set_xticks(list(x), minor=False)
            axes.xaxis.set_minor_locator(NullLocator())
        _named(made, axes, labels)
        if len(series) > 1:
            axes.legend()
    return made.figure


def bars(
    caption: Text, values: Mapping[Name, float], label: Label, spreads: Sequence[float] = ()
) -> Figure:
    """Draw a bar for each name, one below the other."""
    with sketch(caption, height=0.6 + 0.36 * len(values)) as made:
        axes = made.canvas.subplots()
        names = [made.word(name) for name in values]
        drawn = axes.barh(names, list(values.values()), xerr=spreads or None, color=BLUE)
        axes.bar_label(drawn, fmt="{:.3g}", padding=4)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_xlabel(made.word(label))
    return made.figure


def grids(
    caption: Text,
    values: Mapping[Name, Sequence[Sequence[float]]],
    rows: Sequence[Label] = (),
    columns: Sequence[Label] = (),
    *,
    limits: tuple[float, float] | None = (0.0, 1.0),
    colours: str = "Blues",
    numbers: bool = False,
    across: int = 4,
    size: float = 2.2,
    height: float | None = None,
) -> Figure:
    """Draw matrices side by side. Queries are rows and keys are columns, as everywhere here."""
    across = min(across, len(values))
    down = -(-len(values) // across)
    with sketch(caption, max(size * across, 3.0), (height or size) * down + 0.4) as made:
        for place, (name, matrix) in enumerate(values.items(), 1):
            axes = made.canvas.add_subplot(down, across, place)
            _matrix(made, axes, matrix, limits, colours, numbers)
            axes.set_title(made.word(name))
            axes.set_xticks(
                range(len(columns)), [made.word(c) for c in columns], rotation=45, ha="right"
            )
            first = (place - 1) % across == 0
            axes.set_yticks(range(len(rows)), [made.word(r) if first else "" for r in rows])
    return made.figure


def _matrix(
    made: Sketch,
    axes: Axes,
    matrix: Sequence[Sequence[float]],
    limits: tuple[float, float] | None,
    colours: str,
    numbers: bool,
) -> None:
    low, high = limits or (None, None)
    image = axes.imshow(matrix, cmap=colours, vmin=low, vmax=high, aspect="auto")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if limits is None:
        made.canvas.colorbar(image, ax=axes)
    for place in _cells(matrix) if numbers else ():
        row, column = place
        value = matrix[row][column]
        colour = _readable_on(image.to_rgba(value))  # type: ignore[arg-type]
        axes.text(
            column, row, _two_places(value), ha="center", va="center", fontsize=7, color=colour
        )


def _two_places(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _cells(matrix: Sequence[Sequence[Any]]) -> Iterator[tuple[int, int]]:
    return ((row, column) for row, line in enumerate(matrix) for column in range(len(line)))


def _readable_on(background: Sequence[float]) -> str:
    """Return nearly black or white: whichever stands out."""
    red, green, blue, *_ = background
    return "#1a1a1a" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "#ffffff"


def _named(made: Sketch, axes: Axes, labels: tuple[Label, Label]) -> None:
    axes.set_xlabel(made.word(labels[0]))
    axes.set_ylabel(made.word(labels[1]))


def _adapted(svg: str) -> str:
    """Leave out what no page needs, and let black be the colour of the page's words."""
    svg = svg[svg.index("<svg") :]
    for pattern, replacement in _ADAPTATIONS:
        svg = re.sub(pattern, replacement, svg, flags=re.DOTALL)
    return svg


_ADAPTATIONS = (
    (r"<metadata>.*?</metadata>", ""),
    (r'<g id="patch_1">.*?</g>', ""),  # the background
    (r' width="[\d.]+pt" height="[\d.]+pt"', ""),  # the page decides; the viewBox stays
    (r'<g id="[\w.]+">', "<g>"),  # a page has many pictures, and an id must be the only one
    (r"font-family: [^;\"]*", "font-family: inherit"),
    (r"(stroke|fill): #000000", r"\1: currentColor"),
)
