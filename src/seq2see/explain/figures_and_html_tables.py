"""Figures of a trace, and HTML pages of reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seq2see import draw
from seq2see.errors import InputError
from seq2see.web import build_static_page

if TYPE_CHECKING:  # these modules import this one
    from seq2see.explain.trace_format import AttentionModuleTrace, Trace

MIN_COLOR_SCALE_MAX = 0.25
"""Minimum value of the strongest color, so that small weights look small."""

_DARK_THEME_SCRIPT = (
    "<script>document.documentElement.dataset.theme = "
    'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";</script>'
)


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
    thumbnails = draw.HeatmapThumbnails(
        "All heads",
        [f"layer {each.layer}" for each in reversed(maps)],
        [f"head {head}" for head in range(len(maps[0].weights))],
        [list(each.weights) for each in reversed(maps)],
    )
    steps = draw.HeatmapRowBars("probability", [step.probability for step in trace.steps])
    title = f"{trace.source.text}\n{trace.translation.text}"
    draw.save_attention_figure(path, title, heatmap, thumbnails, steps)


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


def render_html_report(title: str, paragraphs: Sequence[str], cards: Sequence[str]) -> str:
    """Return a self-contained HTML page; `cards` are HTML, title and paragraphs are text."""
    parts = [
        f"<main>{_DARK_THEME_SCRIPT}<h1>{escape(title)}</h1>",
        *(f'<p class="lead">{escape(paragraph)}</p>' for paragraph in paragraphs),
        *(f'<section class="card">{card}</section>' for card in cards),
        "</main>",
    ]
    return build_static_page(title, "\n".join(parts))


def build_head_table(values: Iterable[tuple[str, int, float]]) -> draw.Heatmap:
    """Return a table of a value per head, from addresses of attention modules, heads and values."""
    by_head = {(address, head): value for address, head, value in values}
    addresses = list(dict.fromkeys(address for address, _ in by_head))
    heads = sorted({head for _, head in by_head})
    cells = [[by_head.get((address, head), math.nan) for head in heads] for address in addresses]
    return draw.Heatmap("", addresses, [f"head {head}" for head in heads], cells)


def render_html_heat_table(table: draw.Heatmap, max_value: float | None = None) -> str:
    """Return an HTML table with colored cells: blue for negative values, orange for positive ones.

    Args:
        table: Labels and values; NaN for an empty cell.
        max_value: With it, the values are from 0 to this number and all blue.
    """
    unsigned = max_value is not None
    max_value = max_value or float(np.nanmax(np.abs(table.values), initial=1e-9))
    rows = [
        [f"<td>{escape(name)}</td>", *(_render_cell(v, max_value, unsigned) for v in values)]
        for name, values in zip(table.row_labels, table.values, strict=True)
    ]
    return _render_table(["", *table.column_labels], rows)


def render_html_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table of texts."""
    return _render_table(headers, [[f"<td>{escape(text)}</td>" for text in row] for row in rows])


def _render_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _render_cell(value: float, max_value: float, unsigned: bool) -> str:
    if math.isnan(value):
        return "<td></td>"
    color = "positive" if unsigned or value < 0 else "negative"
    opacity = 0.7 * min(1, abs(value) / max_value)
    text = f"{value:.2f}" if unsigned else f"{value:+.2f}"
    return f'<td style="background: rgb(var(--{color}) / {opacity:.2f})">{text}</td>'
