"""A report on translations for people: on the terminal, as a picture, and as a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from seq2see import draw
from seq2see.cli.inputs import read_translations
from seq2see.cli.progress import FLAGS, Told
from seq2see.data.readers import one_line
from seq2see.errors import InputError
from seq2see.evaluate import (
    Evaluation,
    HeldOut,
    ScoringConfig,
    alignment_report,
    evaluate,
    judged,
)
from seq2see.metrics import MetricName
from seq2see.translator import TranslationOptions, Translator

_LABELS: dict[MetricName, str] = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "ter": "TER",
    "exact": "exact match",
}


def of_model(
    translator: Translator,
    held_out: HeldOut,
    options: TranslationOptions,
    scoring: ScoringConfig,
    told: Told,
) -> Evaluation:
    """Translate and score; where gold alignments are known, align as well."""
    report = evaluate(translator, held_out, options, scoring, lambda n: told(n, len(held_out)))
    if not held_out.fables:
        return report
    aligned = alignment_report(translator.bundle, held_out.fables, held_out.tuning)
    return replace(report, alignment=aligned)


def of_file(name: str, held_out: HeldOut, scoring: ScoringConfig) -> Evaluation:
    """Score translations that are there already."""
    return judged(read_translations(name, held_out), held_out, scoring)


def show(report: Evaluation) -> None:
    """Print the report."""
    console = Console(highlight=False)
    console.print(f"[bold]{escape(report.name)}[/bold]: {_sentences(len(report.texts))}")
    console.print(_scores(report))
    if len(report.buckets) > 1:
        console.print(_lengths(report))
    for line in _remarks(report):
        console.print(line, soft_wrap=True)
    for score in report.scores.values():
        console.print(f"[dim]{score.name}: {score.signature}[/dim]", soft_wrap=True)


def _scores(report: Evaluation) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("metric")
    table.add_column("score", justify="right")
    table.add_column("95 %", justify="right")
    for score in report.scores.values():
        low_high = "–".join(f"{end:.2f}" for end in score.interval) if score.interval else ""
        table.add_row(score.name, f"{score.value:.2f}", low_high)
    return table


def _lengths(report: Evaluation) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("length")
    table.add_column("sentences", justify="right")
    for metric in report.scores:
        table.add_column(_LABELS[metric], justify="right")
    for bucket in report.buckets:
        values = (f"{value:.2f}" for value in bucket.values.values())
        table.add_row(_span(bucket.shortest, bucket.longest), f"{bucket.sentences:,}", *values)
    return table


def _span(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}–{high}"


def _sentences(count: int) -> str:
    return "1 sentence" if count == 1 else f"{count:,} sentences"


def _remarks(report: Evaluation) -> Iterator[str]:
    if report.pronouns:
        found = report.pronouns
        yield (
            f"Of {found.cases:,} decisive pronouns {found.right:,} are right ({found.share:.1f} %)."
        )
    if report.alignment:
        best = report.alignment
        place = f"decoder.{best.layer}.cross.{best.head}"  # as `explain` names it
        yield f"Words aligned by {place}: AER {best.score.aer:.1f} %."
    for flag, count in report.flags.items():
        if flag in FLAGS:
            yield f"Translations {FLAGS[flag]}: {count:,}."
    for line, reason in report.errors.items():
        yield escape(f"Line {line:,} has no translation: {reason}")
    if report.seconds:
        speed = len(report.texts) / report.seconds
        yield f"[dim]Translated in {report.seconds:.1f} s, {speed:,.0f} sentences a second.[/dim]"


def write(report: Evaluation, path: Path) -> None:
    """Write the translations, a line each."""
    aside = path.with_name(f"{path.name}.partial")
    try:
        text = "".join(f"{one_line(text)}\n" for text in report.texts)
        aside.write_text(text, "utf-8", newline="\n")
        aside.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def plot(report: Evaluation, path: Path) -> None:
    """Draw the scores, and how they depend on length."""
    shown = {s.name: s.value for s in report.scores.values()}
    panels = [draw.Bars("Scores", shown, [draw.BLUE] * len(shown))]
    for metric in report.scores:
        values = {_span(b.shortest, b.longest): b.values[metric] for b in report.buckets}
        title = f"{_LABELS[metric]} by length of the sentence"
        panels.append(draw.Bars(title, values, [draw.ORANGE] * len(values)))
    draw.panels(path, f"{report.name}: {_sentences(len(report.texts))}", panels)
