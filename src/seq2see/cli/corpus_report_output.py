"""Report on the quality of a corpus: printed, as JSON, and as a plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seq2see import draw
from seq2see.cli.corpus_and_translation_progress import format_duration
from seq2see.cli.report_tables import build_table
from seq2see.data.quality.report import (
    CorpusFinding,
    CorpusReport,
    Distribution,
    format_count,
)

_SEVERITY_STYLES = {"fault": "red", "warning": "yellow", "note": "dim"}
_SEVERITY_COLORS = {"fault": draw.RED, "warning": draw.ORANGE, "note": draw.GRAY}
_MAX_EXAMPLE_LENGTH = 80
"""Characters of each side of an example that are printed."""


def print_corpus_report(
    report: CorpusReport, name: str, num_examples: int, seconds: float | None = None
) -> None:
    """Print the report, and the estimated training time if there is one."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/bold]: {format_count(report.num_pairs, 'pair')}")
    if report.num_pairs:
        console.print(_build_length_table(report))
        console.print(_format_length_ratio(report), "")
    console.print(_build_finding_table(report, num_examples, seconds))


def _build_finding_table(report: CorpusReport, num_examples: int, seconds: float | None) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column(overflow="fold")
    for finding in report.findings:
        style = _SEVERITY_STYLES[finding.severity]
        grid.add_row(f"[{style}]{finding.severity}[/]", escape(finding.text))
        for line in _format_examples(finding, num_examples):
            grid.add_row("", f"[dim]{escape(line)}[/dim]")
    if report.is_clean:
        grid.add_row("[green]clean[/green]", "No faults and no warnings.")
    for line in report.skipped_checks:
        grid.add_row("[dim]skipped[/dim]", escape(line))
    suggestion = report.suggestion
    text = f"preset {suggestion.preset}, vocabulary size {suggestion.vocab_size:,}"
    grid.add_row("[bold]suggested[/bold]", f"{text} ({escape(suggestion.reason)})")
    if seconds is not None:
        duration = format_duration(seconds)
        text = f"about {duration} on this machine, including validation and final evaluation"
        grid.add_row("[bold]training[/bold]", text)
    return grid


def _build_length_table(report: CorpusReport) -> Table:
    rows = []
    for name, side in (("source", report.source), ("target", report.target)):
        language = side.declared_language or side.detected_language or "unknown"
        medians = (
            f"{lengths.median:,.0f} ({_format_range(lengths, ',.0f')})"
            for lengths in (side.words_per_line, side.characters_per_line)
        )
        rows.append((f"{name}, {escape(language)}", f"{side.words_per_line.total:,.0f}", *medians))
    return build_table(("side, language", "words", "words per line", "characters per line"), rows)


def _format_length_ratio(report: CorpusReport) -> str:
    ratio = report.length_ratio
    return (
        f"Target characters per source character: {ratio.median:.2f} "
        f"({_format_range(ratio, '.2f')}). Parentheses: 1st to 99th percentile.\n"
    )


def _format_range(distribution: Distribution, number_format: str) -> str:
    low, high = (distribution.quantiles.get(q, 0.0) for q in ("1", "99"))
    return f"{low:{number_format}} to {high:{number_format}}"


def _format_examples(finding: CorpusFinding, num_examples: int) -> Iterator[str]:
    for example in finding.examples[:num_examples]:
        sides = " ‖ ".join(_shorten(side) for side in (example.source, example.target))
        yield f"line {example.line:,}: {sides}" + (f" ({example.reason})" if example.reason else "")


def _shorten(text: str) -> str:
    """Return the text without control characters, cut at the maximum length."""
    limit = _MAX_EXAMPLE_LENGTH
    visible = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)
    return visible if len(visible) <= limit else f"{visible[: limit - 1]}…"


def plot_corpus_report(report: CorpusReport, name: str, path: Path) -> None:
    """Plot the distributions of lengths and length ratios, and the number of findings."""
    sides = {"source": report.source, "target": report.target}
    histograms = {
        ("Words per line", "words"): {n: s.words_per_line for n, s in sides.items()},
        ("Characters per line", "characters"): {n: s.characters_per_line for n, s in sides.items()},
        ("Target characters per source character", "ratio"): {"ratio": report.length_ratio},
    }
    # Of findings with the same name, the most severe one is plotted, which comes first.
    findings = {f.name.replace("_", " "): f for f in reversed(report.findings) if f.count}
    findings = dict(reversed(findings.items()))
    charts: list[draw.Histogram | draw.BarChart] = [
        draw.Histogram(
            title,
            f"{unit}; the last bin includes all larger values",
            {name: _histogram_bins(values) for name, values in series.items()},
        )
        for (title, unit), series in histograms.items()
    ]
    counts = {name: finding.count for name, finding in findings.items()}
    colors = [_SEVERITY_COLORS[finding.severity] for finding in findings.values()]
    charts.append(draw.BarChart("Number of findings", counts, colors))
    draw.save_charts(path, f"{name}: {format_count(report.num_pairs, 'pair')}", charts)


def _histogram_bins(distribution: Distribution) -> tuple[tuple[float, ...], tuple[int, ...]]:
    return distribution.edges or (0.0, 1.0), distribution.counts or (0,)
