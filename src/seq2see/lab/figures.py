"""Declared figures: they name quantities and arrays of an experiment and are drawn as SVG.

Lines and texts of an SVG have the color of the page (`currentColor`), and there is no background.
Captions and labels are texts of the TOML file, else names of quantities, else the names themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from seq2see import draw
from seq2see.draw import BLUE, GRAY, GREEN, ORANGE, RED
from seq2see.lab.core import Measurement
from seq2see.lab.texts import Language

if TYPE_CHECKING:
    from seq2see.lab.runner import Result

COLORS = (BLUE, ORANGE, GREEN, RED, "#8456a8", GRAY)
WIDTH, HEIGHT = 7.0, 3.2


@dataclass(frozen=True)
class FigureData:
    """What a figure may draw, in one language."""

    result: Result
    language: Language

    def label(self, name: str) -> str:
        """Return the label with this name."""
        return self.result.texts.find_label(name).get(self.language)

    def array(self, name: str) -> Any:
        """Return the array with this name of the first seed."""
        return self.result.arrays[0][name]

    def arrays(self, name: str) -> list[Any]:
        """Return the array with this name of each seed."""
        return [arrays[name] for arrays in self.result.arrays]

    def measurement(self, name: str) -> Measurement:
        """Return the measurement with this name."""
        return next(each for each in self.result.measurements if each.name == name)


@dataclass(frozen=True, slots=True)
class DeclaredFigure:
    """A figure of an experiment; subclasses draw it."""

    caption: str
    """Name of its caption in the TOML file."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return WIDTH, HEIGHT

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Draw on an empty matplotlib figure."""
        raise NotImplementedError

    def render(self, result: Result, language: Language) -> str:
        """Return the figure as SVG."""
        with TemporaryDirectory() as directory, catch_warnings():
            filterwarnings("ignore", "Glyph .* missing")  # the page has fonts for it
            path = Path(directory) / "figure.svg"
            with draw.open_figure_saved_on_exit(path, self.size) as figure:
                self.draw(figure, FigureData(result, language))
                for axes in figure.axes:
                    axes.set_facecolor("none")
                    _format_log_axes(axes)
            return _adapt_to_page(path.read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Heatmaps(DeclaredFigure):
    """Matrices side by side, of the first seed; queries are rows and keys are columns."""

    names: Sequence[str]
    """Names of matrices; their labels are the titles."""
    ticks: Sequence[str] = ()
    """Labels of the columns, and of the rows unless `rows` is given."""
    rows: Sequence[str] = ()
    limits: tuple[float, float] | None = None
    """Values of the ends of the color map; None: those of each matrix, with a color bar."""
    colors: str = "Blues"
    numbers: bool = True
    columns: int = 4
    """Maximum number of matrices per row."""
    cell_size: float = 2.6

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        across = min(self.columns, len(self.names))
        down = -(-len(self.names) // across)
        return max(self.cell_size * across, 3.0), self.cell_size * down + 0.4

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Draw the matrices."""
        across = min(self.columns, len(self.names))
        low, high = self.limits or (None, None)
        columns = [data.label(tick) for tick in self.ticks]
        rows = [data.label(tick) for tick in self.rows or self.ticks]
        for index, name in enumerate(self.names):
            axes = figure.add_subplot(-(-len(self.names) // across), across, index + 1)
            matrix = data.array(name)
            image = axes.imshow(matrix, cmap=self.colors, vmin=low, vmax=high, aspect="auto")
            axes.set_title(data.label(name))
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
            axes.set_xticks(range(len(columns)), columns)
            axes.set_yticks(range(len(rows)), rows)
            if self.limits is None:
                figure.colorbar(image, ax=axes)
            for i, j in _cells(matrix) if self.numbers else ():
                value = matrix[i][j]
                color = _contrasting_color(image.to_rgba(value))  # type: ignore[arg-type]
                axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=7, color=color)


@dataclass(frozen=True, slots=True)
class Curves(DeclaredFigure):
    """Lines over the same x: means over seeds, with a band from the smallest to the largest."""

    x: str
    """Name of the array of x; its label is that of the axis."""
    y: Sequence[str]
    """Names of arrays; their labels are in the legend."""
    y_label: str = ""
    x_scale: str = "linear"
    y_scale: str = "linear"
    marker: str = ""

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Draw the lines."""
        axes, x = figure.subplots(), data.array(self.x)
        for name, color in zip(self.y, COLORS, strict=False):
            columns = list(zip(*data.arrays(name), strict=False))
            style: Any = {"color": color, "marker": self.marker, "markersize": 4}
            axes.plot(
                x[: len(columns)], [fmean(c) for c in columns], label=data.label(name), **style
            )
            lows, highs = [min(c) for c in columns], [max(c) for c in columns]
            if lows != highs:
                axes.fill_between(
                    x[: len(columns)], lows, highs, color=color, alpha=0.2, linewidth=0
                )
        axes.set(xscale=self.x_scale, yscale=self.y_scale, xlabel=data.label(self.x))
        axes.set_ylabel(data.label(self.y_label or self.y[0]))
        if self.x_scale == "log":
            axes.set_xticks(x, minor=False)
            axes.xaxis.set_minor_locator(NullLocator())
        if len(self.y) > 1:
            axes.legend()


@dataclass(frozen=True, slots=True)
class Bars(DeclaredFigure):
    """A horizontal bar per quantity, with its interval over seeds."""

    names: Sequence[str]
    x_label: str
    scale: str = "linear"

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return WIDTH, 0.6 + 0.36 * len(self.names)

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Draw the bars."""
        axes, found = figure.subplots(), [data.measurement(name) for name in self.names]
        means = [each.mean for each in found]
        errors = [(max(m.mean - m.low, 0), max(m.high - m.mean, 0)) for m in found]
        labels = [data.label(name) for name in self.names]
        bars = axes.barh(labels, means, xerr=list(zip(*errors, strict=True)), color=BLUE)
        axes.bar_label(bars, fmt="{:.3g}", padding=4)
        axes.set_xscale(self.scale)
        axes.invert_yaxis()
        axes.margins(x=0.15)
        axes.set_xlabel(data.label(self.x_label))


@dataclass(frozen=True, slots=True)
class DensityHistogram(DeclaredFigure):
    """Densities of arrays of the first seed."""

    names: Sequence[str]
    x_label: str
    limits: tuple[float, float]
    bins: int = 120

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Draw the outlines."""
        axes = figure.subplots()
        for name, color in zip(self.names, COLORS, strict=False):
            axes.hist(
                data.array(name), bins=self.bins, range=self.limits, density=True,
                histtype="step", color=color, label=data.label(name),
            )  # fmt: skip
        axes.set_xlabel(data.label(self.x_label))
        axes.legend()


@dataclass(frozen=True, slots=True)
class Drawing(DeclaredFigure):
    """A figure that a function of the experiment's module draws."""

    function: Callable[[Figure, FigureData], None]
    width: float = WIDTH
    height: float = HEIGHT

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return self.width, self.height

    def draw(self, figure: Figure, data: FigureData) -> None:
        """Call the function."""
        self.function(figure, data)


@dataclass(frozen=True, slots=True)
class Animation(DeclaredFigure):
    """Frames that one SVG shows in turn; without animation, the last one."""

    function: Callable[..., None]
    """Draws a frame: takes the figure, its data, and the `index` of the frame."""
    frames: int
    seconds: float = 1.5
    """Time for which each frame is shown."""

    def render(self, result: Result, language: Language) -> str:
        """Return the frames as one animated SVG."""
        svgs = [
            Drawing(self.caption, partial(self.function, index=i)).render(result, language)
            for i in range(self.frames)
        ]
        start = svgs[0].index(">") + 1
        groups = [
            f'<g visibility="{"visible" if i == self.frames - 1 else "hidden"}">'
            f'<animate attributeName="visibility" calcMode="discrete" repeatCount="indefinite" '
            f'dur="{self.seconds * self.frames:g}s" values="'
            + ";".join("visible" if i == shown else "hidden" for shown in range(self.frames))
            + f'"/>{svg[svg.index(">") + 1 : svg.rindex("</svg>")]}</g>'
            for i, svg in enumerate(svgs)
        ]
        return svgs[0][:start] + "".join(groups) + "</svg>"


def render_figures(result: Result, declared: Sequence[DeclaredFigure]) -> list[dict[str, Any]]:
    """Return caption and SVG of each figure in both languages, as JSON; none after an error."""
    return [
        {
            "caption": result.texts.find_label(each.caption).to_json(),
            "svg": {"en": each.render(result, "en"), "zh": each.render(result, "zh")},
        }
        for each in ([] if result.error else declared)
    ]


def _cells(matrix: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    return [(i, j) for i, row in enumerate(matrix) for j in range(len(row))]


def _contrasting_color(background: Sequence[float]) -> str:
    red, green, blue, *_ = background
    return "#1a1a1a" if 0.3 * red + 0.6 * green + 0.1 * blue > 0.5 else "#ffffff"


def _format_log_axes(axes: Axes) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        if axis.get_scale() == "log":
            axis.set_major_formatter(lambda value, _: _format_power(value))
            axis.set_minor_formatter(NullFormatter())


def _format_power(value: float) -> str:
    """Return 0.1, 1 and 64 unchanged, and 1e-8 as 10⁻⁸."""
    if 1e-3 <= value < 1e5:
        return f"{value:g}"
    exponent = f"{math.log10(value):.0f}" if value > 0 else ""
    return "10" + exponent.translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


_PAGE_ADAPTATIONS = (
    (r"<metadata>.*?</metadata>", ""),
    (r'<g id="patch_1">.*?</g>', ""),  # the background
    (r' width="[\d.]+pt" height="[\d.]+pt"', ""),  # the page decides; the viewBox stays
    (r'<g id="[\w.]+">', "<g>"),  # ids must be unique on a page with several figures
    (r"font-family: [^;\"]*", "font-family: inherit"),
    (r"(stroke|fill): #000000", r"\1: currentColor"),
)


def _adapt_to_page(svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    for pattern, replacement in _PAGE_ADAPTATIONS:
        svg = re.sub(pattern, replacement, svg, flags=re.DOTALL)
    return svg
