"""Report on the quality of a corpus: printed, as JSON, and as a plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seq2see import draw
from seq2see.cli.progress import format_duration
from seq2see.data.quality.report import (
    CorpusFinding,
    CorpusReport,
    Distribution,
    Severity,
    SideReport,
)

_COLOURS = {"fault": "red", "warning": "yellow", "note": "dim"}


_INKS = {"fault": draw.RED, "warning": draw.ORANGE, "note": draw.GRAY}


_SHOWN = 80
"""Characters of an example's side."""


def print_corpus_report(
    report: CorpusReport, name: str, examples: int, seconds: float | None = None
) -> None:
    """Print the report, with the time that training takes, if it was measured."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/bold]: {_pairs(report)}")
    if report.num_pairs:
        console.print(_lengths(report))
        console.print(_ratio(report), "")
    console.print(_findings(report, examples, seconds))


def corpus_report_to_json(report: CorpusReport, seconds: float | None) -> dict[str, Any]:
    """Return it for machines; `seconds` of the suggestion is null if that was not measured."""
    plain = report.to_json()
    return {**plain, "suggestion": {**plain["suggestion"], "seconds": seconds}}


def _pairs(report: CorpusReport) -> str:
    return "1 pair" if report.num_pairs == 1 else f"{report.num_pairs:,} pairs"


def _findings(report: CorpusReport, examples: int, seconds: float | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column(overflow="fold")
    for finding in report.findings:
        grid.add_row(_coloured(finding.severity), escape(finding.text))
        for line in _examples(finding, examples):
            grid.add_row("", f"[dim]{escape(line)}[/dim]")
    if report.is_clean:
        grid.add_row("[green]healthy[/green]", "Nothing must be mended.")
    for line in report.skipped_checks:
        grid.add_row("[dim]unseen[/dim]", escape(line))
    grid.add_row("[bold]suggested[/bold]", _suggestion(report))
    if seconds is not None:
        duration = format_duration(seconds)
        text = f"about {duration} on this machine, including validation and final evaluation"
        grid.add_row("[bold]training[/bold]", text)
    return grid


def _coloured(severity: Severity) -> str:
    return f"[{_COLOURS[severity]}]{severity}[/]"


def _suggestion(report: CorpusReport) -> str:
    best = report.suggestion
    return f"preset {best.preset}, {best.vocab_size:,} pieces ({escape(best.reason)})"


def _lengths(report: CorpusReport) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in ("", "language", "words", "words a line", "characters a line"):
        table.add_column(column, justify="left" if column in {"", "language"} else "right")
    for name, side in (("source", report.source), ("target", report.target)):
        table.add_row(name, _language(side), f"{side.words_per_line.total:,.0f}", *_spread(side))
    return table


def _ratio(report: CorpusReport) -> str:
    ratio = report.length_ratio
    return (
        f"A target has {ratio.median:.2f} characters for one of its source "
        f"({_between(ratio, '.2f')}); brackets hold 98 % of the lines.\n"
    )


def _language(side: SideReport) -> str:
    return escape(side.declared_language or side.detected_language or "unknown")


def _spread(side: SideReport) -> Iterator[str]:
    for distribution in (side.words_per_line, side.characters_per_line):
        yield f"{distribution.median:,.0f} ({_between(distribution, ',.0f')})"


def _between(distribution: Distribution, form: str) -> str:
    low, high = (distribution.quantiles.get(q, 0.0) for q in ("1", "99"))
    return f"{low:{form}} to {high:{form}}"


def _examples(finding: CorpusFinding, count: int) -> Iterator[str]:
    for example in finding.examples[:count]:
        sides = " ‖ ".join(_short(side) for side in (example.source, example.target))
        yield f"line {example.line:,}: {sides}" + (f" ({example.reason})" if example.reason else "")


def _short(text: str) -> str:
    visible = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    return visible if len(visible) <= _SHOWN else f"{visible[: _SHOWN - 1]}…"


def plot_corpus_report(report: CorpusReport, name: str, path: Path) -> None:
    """Draw lengths, ratios and findings."""
    sides = {"source": report.source, "target": report.target}
    found = {f.name.replace("_", " "): f for f in reversed(report.findings) if f.count}
    found = dict(reversed(found.items()))  # of those with the same name, the gravest
    draw.draw_charts(
        path,
        f"{name}: {_pairs(report)}",
        [
            draw.Histogram(
                "Words a line",
                "words; the last bin has all beyond",
                {n: _bins(s.words_per_line) for n, s in sides.items()},
            ),
            draw.Histogram(
                "Characters a line",
                "characters; the last bin has all beyond",
                {n: _bins(s.characters_per_line) for n, s in sides.items()},
            ),
            draw.Histogram(
                "Characters of the target for one of the source",
                "ratio; the last bin has all beyond",
                {"ratio": _bins(report.length_ratio)},
            ),
            draw.BarChart(
                "Findings (how many)",
                {n: f.count for n, f in found.items()},
                [_INKS[f.severity] for f in found.values()],
            ),
        ],
    )


def _bins(distribution: Distribution) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return distribution.edges or (0.0, 1.0), distribution.counts or (0,)
