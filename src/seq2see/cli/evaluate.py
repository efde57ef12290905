"""`seq2see evaluate`: score a model, or a file with translations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli import corpora_and_path_checks, options
from seq2see.cli.usage_errors import call_all_collecting_errors, given_options
from seq2see.errors import ConfigError, writing
from seq2see.registries import METRICS, EngineName, Precision, Tokenization

if TYPE_CHECKING:
    from rich.table import Table

    from seq2see.evaluate import Evaluation


def evaluate(
    context: typer.Context,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[MODEL] [FILES]...")] = None,
    test_files: options.TestSetOption = None,
    hypotheses: Annotated[str | None, typer.Option(metavar="FILE")] = None,
    references: options.ReferencesOption = None,
    test_columns: options.TestColumnsOption = None,
    test_format: options.FormatOption = None,
    language: options.ReferenceLanguageOption = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", metavar="|".join(METRICS))
    ] = None,
    tokenize: Tokenization | None = None,
    lowercase: options.LowercaseOption = None,
    resamples: Annotated[int, typer.Option(min=0, max=100_000)] = 1000,
    engine: EngineName = "auto",
    device: options.DeviceOption = "auto",
    threads: options.ThreadsOption = None,
    precision: Precision = "float32",
    ensemble: options.EnsembleOption = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    search_settings: options.SearchOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE")] = None,
    as_json: options.JsonOption = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Score a model, or a file with translations.

    A model translates a test set; the translations are compared with the references.

    Args:
        arguments: MODEL is a model directory; leave it out with --hypotheses. FILES are further
            files of --test-set or, with --hypotheses and without --test-set, of --reference.
        hypotheses: Text file with one translation per line to score instead of translating with a
            model.
        metrics: Metric to compute; `exact` is the percentage of translations that equal a
            reference. May be repeated. Default: all four.
        resamples: Number of bootstrap resamples of the test set for the 95 % confidence intervals;
            0 computes no intervals.
        output: Also write the translations to this file.
        plot: Also plot the scores, and each metric by sentence length, to this file (.png, .svg or
            .pdf).
    """
    from seq2see.cli.corpus_and_translation_progress import show_progress
    from seq2see.evaluate import evaluate as evaluate_model, score_translations

    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    model, files = None, arguments or []
    if not hypotheses and files:
        model, *files = files
    _, (corpus, all_references), scoring, translation_options, _ = call_all_collecting_errors(
        lambda: _check_model_or_hypotheses(context, files, model, hypotheses),
        lambda: corpora_and_path_checks.build_test_set_config(
            test_files, references, files, bool(model), test_columns, test_format
        ),
        lambda: options.build_metrics_config(metrics, tokenize, lowercase, resamples),
        lambda: options.build_translation_options(search, search_settings=search_settings or ()),
        lambda: corpora_and_path_checks.check_plot_path(plot),
    )
    for path in (output, plot):
        corpora_and_path_checks.check_output_path(path)
    with show_progress() as on_progress:
        translator = (
            options.load_translator(Path(model), engine, device, threads, precision, ensemble)
            if model
            else None
        )
        languages = translator.languages if translator else None
        test_set = corpora_and_path_checks.read_test_set(
            corpus, all_references, languages, language
        )
        if translator:
            report = evaluate_model(translator, test_set, translation_options, scoring, on_progress)
        else:
            texts = corpora_and_path_checks.read_translations(hypotheses or "", test_set)
            report = score_translations(texts, test_set, scoring)
    if output:
        _write_translations(report, output)
    if plot:
        _plot_report(report, plot)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        _print_report(report)
    if report.errors:
        raise typer.Exit(1)


def _check_model_or_hypotheses(
    context: typer.Context, files: list[str], model: str | None, hypotheses: str | None
) -> None:
    """Raise ConfigError if neither is given, or `--hypotheses` with a model or its options."""
    if not hypotheses:
        if not model:
            raise ConfigError("a MODEL or `--hypotheses` must be given")
        return
    problems = [
        f"the MODEL {name} must be left out with `--hypotheses`"
        for name in files
        if Path(name).is_dir()
    ]
    names = "output", "beam_size", "length_penalty", "search_settings", "ensemble", "precision"
    if unused := given_options(context, *names, "engine", "device", "threads"):
        problems.append(
            f"{', '.join(unused)} must be left out with `--hypotheses`: nothing is translated"
        )
    if problems:
        raise ConfigError(*problems)


def _print_report(report: Evaluation) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"[bold]{escape(report.test_set)}[/bold]: {_format_size(report)}")
    console.print(_build_score_table(report))
    if len(report.length_buckets) > 1:
        console.print(_build_length_table(report))
    for line in _format_remarks(report):
        console.print(line, soft_wrap=True)
    for score in report.scores.values():
        console.print(f"[dim]{score.name}: {score.signature}[/dim]", soft_wrap=True)


def _build_score_table(report: Evaluation) -> Table:
    rows = []
    for score in report.scores.values():
        interval = "–".join(f"{end:.2f}" for end in score.interval) if score.interval else ""
        rows.append((score.name, f"{score.value:.2f}", interval))
    return build_table(("metric", "score", "95 %"), rows)


def _build_length_table(report: Evaluation) -> Table:
    rows = [
        (
            _format_range(bucket.min_length, bucket.max_length),
            f"{bucket.num_sentences:,}",
            *(f"{value:.2f}" for value in bucket.values.values()),
        )
        for bucket in report.length_buckets
    ]
    labels = (METRICS[metric].label for metric in report.scores)
    return build_table(("length", "sentences", *labels), rows)


def build_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table for the terminal; all columns but the first are aligned to the right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _format_range(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low}–{high}"


def _format_size(report: Evaluation) -> str:
    count = len(report.translations)
    return "1 sentence" if count == 1 else f"{count:,} sentences"


def _format_remarks(report: Evaluation) -> Iterator[str]:
    """Yield lines on pronouns, alignment, flagged and failed translations, and speed."""
    from rich.markup import escape

    from seq2see.cli.corpus_and_translation_progress import FLAG_DESCRIPTIONS

    if pronouns := report.pronoun_accuracy:
        yield (
            f"Ambiguous pronouns: {pronouns.correct:,} of {pronouns.total:,} are correct "
            f"({pronouns.accuracy:.1f} %)."
        )
    if best := report.alignment:
        address = f"decoder.{best.layer}.cross.{best.head}"  # as in `explain --ablate`
        yield f"Word alignment by the head {address}: AER {best.score.aer:.1f} %."
    for flag, count in report.flags.items():
        if flag in FLAG_DESCRIPTIONS:
            yield f"Translations {FLAG_DESCRIPTIONS[flag]}: {count:,}."
    for line, reason in report.errors.items():
        yield escape(f"Line {line:,} has no translation: {reason}")
    if report.seconds:
        speed = len(report.translations) / report.seconds
        yield f"[dim]Translated in {report.seconds:.1f} s, {speed:,.0f} sentences per second.[/dim]"


def _write_translations(report: Evaluation, path: Path) -> None:
    """Write one translation per line, to a temporary file that is renamed when complete."""
    from seq2see.atomic_files import atomic_write
    from seq2see.data.readers import replace_line_breaks

    text = "".join(f"{replace_line_breaks(text)}\n" for text in report.translations)
    with writing(path), atomic_write(path) as partial_path:
        partial_path.write_text(text, "utf-8", newline="\n")


def _plot_report(report: Evaluation, path: Path) -> None:
    """Plot the scores, and each metric by sentence length."""
    from seq2see import draw

    values = {score.name: score.value for score in report.scores.values()}
    charts = [draw.BarChart("Scores", values, [draw.BLUE] * len(values))]
    for metric in report.scores:
        values = {
            _format_range(bucket.min_length, bucket.max_length): bucket.values[metric]
            for bucket in report.length_buckets
        }
        title = f"{METRICS[metric].label} by sentence length"
        charts.append(draw.BarChart(title, values, [draw.ORANGE] * len(values)))
    draw.save_charts(path, f"{report.test_set}: {_format_size(report)}", charts)
