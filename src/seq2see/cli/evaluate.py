"""`seq2see evaluate`: score a model, or a file with translations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli import inputs, options
from seq2see.cli.usage_errors import call_all_collecting_errors
from seq2see.errors import writing
from seq2see.registries import FIGURE_FORMATS, METRICS

if TYPE_CHECKING:
    from seq2see.evaluate import Evaluation, EvaluationSet
    from seq2see.evaluate.evaluation import LengthBucket
    from seq2see.metrics import MetricScore


def evaluate(
    context: typer.Context,
    *,
    system: Annotated[str, typer.Argument(metavar="SYSTEM")],
    files: Annotated[list[str] | None, typer.Argument(metavar="FILES")] = None,
    test_set_options: options.EvaluationSetOptions,
    scoring_options: options.ScoringOptions,
    resamples: Annotated[int, typer.Option(min=0, max=100_000)] = 1000,
    engine_options: options.EnsembleInferenceOptions,
    beam_search: options.BeamSearchOptions,
    search_settings: options.SearchOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE")] = None,
    as_json: options.JsonOption = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Score a model, or a file with translations.

    A model translates a test set; the translations are compared with the references.

    Args:
        system: Model directory, or text file with one translation per line.
        files: Further files of --test-set or, without --test-set, of --reference.
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

    has_model = inputs.is_model(system)
    test_set_options, scoring, translation_options, *_ = call_all_collecting_errors(
        lambda: test_set_options.with_arguments(files or (), has_model, _has_run(system)),
        lambda: scoring_options.build_config(resamples=resamples),
        lambda: options.build_translation_options(beam_search, search_settings),
        lambda: inputs.check_extension(plot, FIGURE_FORMATS, "--plot"),
        lambda: options.check_no_unused_model_options(context, has_model),
        lambda: options.check_systems_come_first(context, "SYSTEM", system, files),
    )
    for path in (output, plot):
        inputs.check_output_path(path)
    if has_model:
        with show_progress() as on_progress:
            translator = engine_options.load_translator(Path(system))
            if test_set_options.is_given:
                test_set = test_set_options.read(translator.languages)
            else:
                test_set = _read_test_set_of_run(Path(system))
            report = evaluate_model(translator, test_set, translation_options, scoring, on_progress)
    else:
        test_set = test_set_options.read()
        report = score_translations(inputs.read_translations(system, test_set), test_set, scoring)
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


def _has_run(system: str) -> bool:
    from seq2see.bundle.files import RUN_FILE

    return Path(system, RUN_FILE).is_file()


def _read_test_set_of_run(run: Path) -> EvaluationSet:
    """Return the test set of a run, whose text must be that of the start of the run."""
    from seq2see.evaluate import EvaluationSet
    from seq2see.training.run_directory import RunDirectory

    return EvaluationSet.from_corpus(RunDirectory(run).read_test_set())


def _print_report(report: Evaluation) -> None:
    from rich.console import Console
    from rich.markup import escape

    from seq2see.cli.report_tables import build_table

    console = Console(highlight=False)
    console.print(f"[bold]{escape(report.test_set)}[/bold]: {_format_size(report)}")
    console.print(
        build_table(("metric", "score", "95 %"), map(_format_score, report.scores.values()))
    )
    if len(report.length_buckets) > 1:
        titles = ("length", "sentences", *(score.name for score in report.scores.values()))
        console.print(build_table(titles, map(_format_bucket, report.length_buckets)))
    for line in _format_remarks(report):
        console.print(line, soft_wrap=True)
    for score in report.scores.values():
        console.print(f"[dim]{score.name}: {score.signature}[/dim]", soft_wrap=True)


def _format_score(score: MetricScore) -> tuple[str, ...]:
    interval = "–".join(f"{end:.2f}" for end in score.interval) if score.interval else ""
    return score.name, f"{score.value:.2f}", interval


def _format_bucket(bucket: LengthBucket) -> tuple[str, ...]:
    values = (f"{value:.2f}" for value in bucket.values.values())
    return _format_range(bucket.min_length, bucket.max_length), f"{bucket.num_sentences:,}", *values


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
        yield f"Word alignment by the head {address}: AER {best.aer:.1f} %."
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
