"""Pages that are tables: no script, only the style of the trace's page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from seq2see.draw import Signed

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} – seq2see</title>
<link rel="icon" href="data:,"><style>{style}</style></head>
<body><header class="top"><div class="pair"><p id="target">{title}</p></div></header>
<main>{notes}{body}</main></body></html>
"""


def report_page(title: str, notes: Iterable[str], body: str) -> str:
    """Return a page that needs nothing but itself."""
    told = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return _PAGE.format(title=escape(title), notes=told, body=body, style=asset("style.css"))


def heat_table(table: Signed, most: float, shares: bool = False) -> str:
    """Return numbers with colours behind them: blue below 0, red above; or shares, all blue."""
    head = "".join(f"<th>{escape(name)}</th>" for name in ("", *table.columns))
    rows = "".join(
        f"<tr><td>{escape(name)}</td>{''.join(_cell(v, most, shares) for v in values)}</tr>"
        for name, values in zip(table.rows, table.values, strict=True)
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )


def plain_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return words in rows."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
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
    colour = "--mark" if shares or value < 0 else "--against"
    share = round(70 * min(1, abs(value) / most))
    text = f"{value:.2f}" if shares else f"{value:+.2f}"
    behind = f"background:color-mix(in srgb, var({colour}) {share}%, transparent)"
    return f'<td style="{behind}">{text}</td>'


@cache
def asset(name: str) -> str:
    """Return a file of the page."""
    return (files("seq2see.explain") / "page" / name).read_text(encoding="utf-8")
