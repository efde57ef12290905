"""Style, fonts and text measurement of figures, and writing them to files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.text import Text

from seq2see.errors import InputError, writing

BLUE, ORANGE, GREEN, RED, GRAY = "#3b6ea5", "#d9822b", "#4c9a62", "#c0392b", "#8a8f98"


FIGURE_FORMATS = (".png", ".svg", ".pdf")


_EAST_ASIAN_FONTS = (
    *("CJK", "PingFang", "YaHei", "SimHei"),
    *("Hiragino", "IPA", "WenQuanYi", "Noto Sans SC"),
)
"""Parts of the names of fonts with Chinese, Japanese and Korean characters."""
_POINTS_PER_INCH = 72
_BREAKABLE = re.compile(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+")
"""Units after which a line may break: a word, or a character of a script without spaces."""
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


def measure_max_text_width(texts: Sequence[str], size: float, weight: str = "normal") -> float:
    """Return the width of the widest text in inches; `size` is in points."""
    return max((_measure_width(text, size, weight) for text in texts), default=0.0)


def _measure_width(text: str, size: float, weight: str) -> float:
    canvas = _measuring_canvas()
    drawn = Text(text=text, parse_math=False, fontsize=size, fontweight=weight)
    drawn.set(fontfamily=list(list_figure_fonts()), figure=canvas.figure)
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    return float(drawn.get_window_extent(renderer).width) / _POINTS_PER_INCH


def wrap_text(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Return the lines of a text that is wrapped to a width in inches."""
    lines = [""]
    for unit in _BREAKABLE.findall(text):
        if lines[-1] and _measure_width((lines[-1] + unit).rstrip(), size, weight) > width:
            lines.append("")
        lines[-1] += unit
    return [line.rstrip() for line in lines]


def style_axes_frame(axes: Axes) -> None:
    """Replace the lines of the axes by a light frame without ticks."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set(visible=True, color="#d0d4da")


def check_figure_path(path: Path) -> None:
    """Check that a figure can be written to this path.

    Raises:
        InputError: If the format is not supported or the directory does not exist.
    """
    if path.suffix.lower() not in FIGURE_FORMATS:
        formats = ", ".join(FIGURE_FORMATS)
        raise InputError(f"the name of a figure must end with one of {formats}, but is {path}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: the directory {path.parent} does not exist")


def _write_figure(figure: Figure, path: Path, bbox_inches: Literal["tight"] | None) -> None:
    check_figure_path(path)
    with writing(path):
        figure.savefig(path, format=path.suffix.lower()[1:], bbox_inches=bbox_inches)
