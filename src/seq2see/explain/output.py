"""Writes traces and reports: JSON, self-contained HTML pages, figures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2see import draw
from seq2see.draw import DivergingHeatmap
from seq2see.errors import InputError
from seq2see.explain.trace import AttentionMap, Trace

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – seq2see</title>
<link rel="icon" href="data:,"><style>{style}</style></head>
<body><header class="top"><div class="pair"><p id="target">{title}</p></div></header>
<main>{notes}{body}</main></body></html>
"""


def render_report(title: str, paragraphs: Iterable[str], body: str) -> str:
    """Return a page that needs nothing but itself."""
    told = "".join(f"<p>{escape(note)}</p>" for note in paragraphs)
    return _PAGE.format(
        title=escape(title), notes=told, body=body, style=read_page_file("style.css")
    )


def render_heat_table(table: DivergingHeatmap, max_value: float, unsigned: bool = False) -> str:
    """Return numbers with colours behind them: blue below 0, red above; or shares, all blue."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *table.column_labels))
    rows = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(_cell(v, max_value, unsigned) for v in values)}</tr>"
        for name, values in zip(table.row_labels, table.values, strict=True)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return words in rows."""
    head = "".join(f"<th>{escape(title)}</th>" for title in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _cell(value: float, most: float, shares: bool) -> str:
    if math.isnan(value):
        return "<td></td>"
    colour = "--positive" if shares or value < 0 else "--negative"
    share = round(70 * min(1, abs(value) / most))
    text = f"{value:.2f}" if shares else f"{value:+.2f}"
    behind = f"background:color-mix(in srgb, var({colour}) {share}%, transparent)"
    return f'<td style="{behind}">{text}</td>'


@cache
def read_page_file(name: str) -> str:
    """Return a file of the page."""
    return (files("seq2see.explain") / "page" / name).read_text(encoding="utf-8")


MIN_COLOR_SCALE_MAX = 0.25
"""Weights that are all below must look faint, as they are."""


def draw_trace(trace: Trace, path: Path) -> None:
    """Draw cross-attention, mean over all, its heads, and how sure each step was."""
    cross = [each for each in trace.attention if each.kind == "cross"]
    if not cross:
        raise InputError("a picture must have cross-attention to show, but every layer is off")
    who = "cross-attention, mean over heads and layers"
    grid = _grid(
        who, trace.axis_labels("target"), trace.axis_labels("source"), trace.mean_cross_attention()
    )
    steps = draw.RowBars("probability", [step.probability for step in trace.steps])
    title = f"{trace.source.text}\n{trace.translation.text}"
    draw.draw_attention(path, title, grid, _thumbnails(cross), steps)


def draw_attention_map(
    trace: Trace, path: Path, attention_map: AttentionMap, head: int | None
) -> None:
    """Draw one attention alone: a head, or the mean of all."""
    if head is not None and head >= len(attention_map.weights):
        raise InputError(
            f"`head` must be below {len(attention_map.weights)}, but is {head} instead"
        )
    weights = attention_map.weights.mean(0) if head is None else attention_map.weights[head]
    who = "mean over heads" if head is None else f"head {head}"
    rows = trace.axis_labels(attention_map.query_axis, weights.shape[0])
    columns = trace.axis_labels(attention_map.key_axis, weights.shape[1])
    grid = _grid(f"{attention_map.address}, {who}", rows, columns, weights)
    draw.draw_attention(path, trace.source.text, grid, None, None)


def _grid(
    what: str, rows: list[str], columns: list[str], weights: NDArray[np.float32]
) -> draw.Heatmap:
    most = max(MIN_COLOR_SCALE_MAX, float(weights.max()))
    return draw.Heatmap(f"{what} (darkest: {most:.2f})", rows, columns, weights.tolist(), most)


def _thumbnails(maps: list[AttentionMap]) -> draw.HeatmapThumbnails:
    top_first = maps[::-1]
    return draw.HeatmapThumbnails(
        "Every head",
        [f"layer {each.layer}" for each in top_first],
        [f"head {head}" for head in range(len(maps[0].weights))],
        [list(each.weights) for each in top_first],
    )


TRACE_FORMATS = (".json", ".html", *draw.FIGURE_FORMATS)


_SCRIPTS = (
    "dom",
    "matrix",
    "attention",
    "attention_steps",
    "steps",
    "beam_tree",
    "attribution",
    "main",
)
"""Each after those that it imports: in the page they are one."""


_MODULE_WORDS = re.compile(r"^import .*$|^export (?=\w)", re.MULTILINE)


def save_trace(trace: Trace, path: Path) -> None:
    """Write the file that the name asks for."""
    ending = path.suffix.lower()
    if ending in draw.FIGURE_FORMATS:
        draw_trace(trace, path)
        return
    check_trace_path(path)
    text = trace.to_json() if ending == ".json" else render_trace_html(trace)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def check_trace_path(path: Path) -> None:
    """Raise an error if no trace can have this name."""
    if path.suffix.lower() not in TRACE_FORMATS:
        wanted = ", ".join(TRACE_FORMATS)
        raise InputError(f"the output's name must end with one of {wanted}, but is {path} instead")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")


def render_trace_html(trace: Trace) -> str:
    """Return one HTML page that needs no network and no other file."""
    parts = {
        "title": escape(f"{trace.source.text} – seq2see"),
        "style": read_page_file("style.css"),
        "script": _script(),
        # In a script element "</" ends it, and "<!--" with "<script" changes where it ends.
        "trace": trace.to_json().replace("<", "\\u003c"),
    }
    template = read_page_file("page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def render_notebook_iframe(trace: Trace) -> str:
    """Return the page inside a frame, so that a notebook's styles and ours do not meet."""
    return (
        f'<iframe srcdoc="{escape(render_trace_html(trace))}" style="width:100%;height:900px;border:0" '
        f'title="{escape(trace.source.text)}"></iframe>'
    )


@cache
def _script() -> str:
    return "\n".join(_MODULE_WORDS.sub("", read_page_file(f"{name}.js")) for name in _SCRIPTS)
