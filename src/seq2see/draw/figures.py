"""Style, fonts and text measurement of figures, and writing them to files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import findSystemFonts, fontManager
from matplotlib.text import Text

from seq2see.errors import InputError

BLUE, ORANGE, GREEN, RED, GRAY = "#3b6ea5", "#d9822b", "#4c9a62", "#c0392b", "#8a8f98"


FIGURE_FORMATS = (".png", ".svg", ".pdf")


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


@contextmanager
def new_figure(path: Path | str, size: tuple[float, float]) -> Iterator[Figure]:
    """Give a figure to draw on, and write it at the end."""
    with mpl.rc_context({**_STYLE, "font.family": list(find_fonts())}):
        picture = Figure(figsize=size, layout="constrained")
        yield picture
        _write(picture, Path(path))


_EAST_ASIAN = ("CJK", "PingFang", "YaHei", "SimHei", "Hiragino", "IPA", "WenQuanYi", "Noto Sans SC")


@cache
def find_fonts() -> tuple[str, ...]:
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


_POINTS = 72
"""To an inch."""


_PIECE = re.compile(r"[\u2e80-\uffef]|[^\s\u2e80-\uffef]+\s*|\s+")
"""What a line may end behind: a word, or a character of a script that has no spaces."""


@cache
def _ruler() -> FigureCanvasAgg:
    return FigureCanvasAgg(Figure(dpi=_POINTS))


def measure_text_width(texts: Sequence[str], size: float, weight: str = "normal") -> float:
    """Return how wide the widest of some texts is."""
    return max((_inches(text, size, weight) for text in texts), default=0.0)


def _inches(text: str, size: float, weight: str) -> float:
    ruler = _ruler()
    drawn = Text(text=text, parse_math=False, fontsize=size, fontweight=weight)
    drawn.set(fontfamily=list(find_fonts()), figure=ruler.figure)
    renderer = ruler.get_renderer()  # type: ignore[no-untyped-call]
    return float(drawn.get_window_extent(renderer).width) / _POINTS


def wrap_text(text: str, width: float, size: float, weight: str = "normal") -> list[str]:
    """Return the lines of a text that is to stay within a width in inches."""
    lines = [""]
    for piece in _PIECE.findall(text):
        if lines[-1] and _inches((lines[-1] + piece).rstrip(), size, weight) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def draw_light_frame(axes: Axes) -> None:
    """Leave of the axes' lines a faint frame."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set(visible=True, color="#d0d4da")


def check_figure_path(path: Path) -> None:
    """Raise an error if no picture can have this name."""
    if path.suffix.lower() not in FIGURE_FORMATS:
        wanted = ", ".join(FIGURE_FORMATS)
        raise InputError(f"a picture's name must end with one of {wanted}, but is {path} instead")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")


def _write(picture: Figure, path: Path) -> None:
    check_figure_path(path)
    try:
        picture.savefig(path, format=path.suffix.lower().removeprefix("."))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
