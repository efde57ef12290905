"""Output of traces and reports: JSON, self-contained HTML pages, figures."""

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
from seq2see.explain.trace_format import AttentionModuleTrace, Trace

TRACE_FORMATS = (".json", ".html", *draw.FIGURE_FORMATS)
MIN_COLOR_SCALE_MAX = 0.25
"""Minimum value of the strongest color, so that small weights look small."""

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
"""JavaScript modules, each after those that it imports; the page contains them as one script."""
_MODULE_SYNTAX = re.compile(r"^import .*$|^export (?=\w)", re.MULTILINE)

_REPORT_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – seq2see</title>
<link rel="icon" href="data:,"><style>{style}</style></head>
<body><header class="top"><div class="pair"><p id="target">{title}</p></div></header>
<main>{paragraphs}{body}</main></body></html>
"""


def save_trace(trace: Trace, path: Path) -> None:
    """Write a trace in the format of the extension: JSON, HTML or a figure.

    Raises:
        InputError: If the extension is unknown or the file cannot be written.
    """
    suffix = path.suffix.lower()
    if suffix in draw.FIGURE_FORMATS:
        save_cross_attention_figure(trace, path)
        return
    check_trace_path(path)
    text = trace.to_json() if suffix == ".json" else render_trace_html(trace)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def check_trace_path(path: Path) -> None:
    """Raise InputError if a trace cannot be written to this path."""
    if path.suffix.lower() not in TRACE_FORMATS:
        allowed = ", ".join(TRACE_FORMATS)
        raise InputError(f"the output file must end with one of {allowed}, but is {path} instead")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {path.parent}")


def render_trace_html(trace: Trace) -> str:
    """Return a self-contained HTML page of a trace."""
    parts = {
        "title": escape(f"{trace.source.text} – seq2see"),
        "style": read_page_file("style.css"),
        "script": _join_scripts(),
        # "</" would end the script element, and "<!--" with "<script" would change where it ends.
        "trace": trace.to_json().replace("<", "\\u003c"),
    }
    template = read_page_file("page.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def render_notebook_iframe(trace: Trace) -> str:
    """Return the page in an iframe, so that it does not share styles with the notebook."""
    page = escape(render_trace_html(trace))
    return (
        f'<iframe srcdoc="{page}" style="width:100%;height:900px;border:0" '
        f'title="{escape(trace.source.text)}"></iframe>'
    )


@cache
def _join_scripts() -> str:
    return "\n".join(_MODULE_SYNTAX.sub("", read_page_file(f"{name}.js")) for name in _SCRIPTS)


@cache
def read_page_file(name: str) -> str:
    """Return the text of a file of the page."""
    return (files("seq2see.explain") / "page" / name).read_text(encoding="utf-8")


def save_cross_attention_figure(trace: Trace, path: Path) -> None:
    """Draw the cross-attention (mean and all heads) and the probability of each step.

    Raises:
        InputError: If all decoder layers are ablated.
    """
    maps = [each for each in trace.attention if each.kind == "cross"]
    if not maps:
        raise InputError("the figure needs cross-attention, but all decoder layers are ablated")
    heatmap = _build_heatmap(
        "cross-attention, mean over heads and layers",
        trace.axis_labels("target"),
        trace.axis_labels("source"),
        trace.mean_cross_attention(),
    )
    steps = draw.HeatmapRowBars("probability", [step.probability for step in trace.steps])
    title = f"{trace.source.text}\n{trace.translation.text}"
    draw.save_attention_figure(path, title, heatmap, _build_thumbnails(maps), steps)


def save_attention_map_figure(
    trace: Trace, path: Path, attention_map: AttentionModuleTrace, head: int | None
) -> None:
    """Draw one head of an attention map, or the mean of its heads if `head` is None.

    Raises:
        InputError: If the map does not have this head.
    """
    if head is not None and head >= len(attention_map.weights):
        raise InputError(
            f"`head` must be below {len(attention_map.weights)}, but is {head} instead"
        )
    weights = attention_map.weights.mean(0) if head is None else attention_map.weights[head]
    name = "mean over heads" if head is None else f"head {head}"
    rows = trace.axis_labels(attention_map.query_axis, weights.shape[0])
    columns = trace.axis_labels(attention_map.key_axis, weights.shape[1])
    heatmap = _build_heatmap(f"{attention_map.address}, {name}", rows, columns, weights)
    draw.save_attention_figure(path, trace.source.text, heatmap, None, None)


def _build_heatmap(
    title: str, rows: list[str], columns: list[str], weights: NDArray[np.float32]
) -> draw.Heatmap:
    max_value = max(MIN_COLOR_SCALE_MAX, float(weights.max()))
    full_title = f"{title} (darkest: {max_value:.2f})"
    return draw.Heatmap(full_title, rows, columns, weights.tolist(), max_value)


def _build_thumbnails(maps: list[AttentionModuleTrace]) -> draw.HeatmapThumbnails:
    top_first = maps[::-1]
    return draw.HeatmapThumbnails(
        "All heads",
        [f"layer {each.layer}" for each in top_first],
        [f"head {head}" for head in range(len(maps[0].weights))],
        [list(each.weights) for each in top_first],
    )


def render_html_report_page(title: str, paragraphs: Iterable[str], body: str) -> str:
    """Return a self-contained HTML page; `body` is HTML, title and paragraphs are text."""
    return _REPORT_PAGE.format(
        title=escape(title),
        paragraphs="".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs),
        body=body,
        style=read_page_file("style.css"),
    )


def render_html_heat_table(
    table: DivergingHeatmap, max_value: float, unsigned: bool = False
) -> str:
    """Return an HTML table with colored cells: blue for negative values, red for positive ones.

    Args:
        table: Labels and values; NaN for an empty cell.
        max_value: Absolute value of the strongest color.
        unsigned: Values are not negative and all blue.
    """
    rows = zip(table.row_labels, table.values, strict=True)
    cells = (
        f"<tr><td>{escape(name)}</td>{''.join(_cell(v, max_value, unsigned) for v in values)}</tr>"
        for name, values in rows
    )
    return _render_table_html(["", *table.column_labels], "".join(cells))


def render_html_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts."""
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return _render_table_html(headers, body)


def _render_table_html(headers: Sequence[str], body: str) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _cell(value: float, max_value: float, unsigned: bool) -> str:
    if math.isnan(value):
        return "<td></td>"
    color = "--positive" if unsigned or value < 0 else "--negative"
    percentage = round(70 * min(1, abs(value) / max_value))
    text = f"{value:.2f}" if unsigned else f"{value:+.2f}"
    style = f"background:color-mix(in srgb, var({color}) {percentage}%, transparent)"
    return f'<td style="{style}">{text}</td>'
