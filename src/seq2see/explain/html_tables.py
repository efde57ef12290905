"""HTML pages of reports, with tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from seq2see import draw
from seq2see.web import build_static_page

_DARK_THEME_SCRIPT = (
    "<script>document.documentElement.dataset.theme = "
    'matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";</script>'
)


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
