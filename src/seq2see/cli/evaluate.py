"""`seq2see evaluate`: score a model, or a file with translations."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from seq2see.cli import corpora_and_path_checks, options
from seq2see.cli.usage_errors import call_all_collecting_errors, format_given_option_names
from seq2see.errors import ConfigError, Problem, writing
from seq2see.registries import METRICS, EngineName, Precision, Tokenization

if TYPE_CHECKING:
    from rich.table import Table

    from seq2see.data.corpus_config_and_reading import CorpusConfig
    from seq2see.evaluate import Evaluation


def evaluate(
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
    from seq2see.cli.corpus_and_translation_progress import show_sentence_progress
    from seq2see.evaluate import evaluate as evaluate_model, score_translations

    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    model_options: dict[str, object] = {"output": output, **search, "search": search_settings}
    model_options |= {"ensemble": ensemble, "precision": precision != "float32"}
    model_options |= {"engine": engine != "auto", "device": device != "auto", "threads": threads}
    build_corpus = partial(
        corpora_and_path_checks.build_test_set_config, columns=test_columns, format_name=test_format
    )
    task: _EvaluationTask
    task, scoring, translation_options, _ = call_all_collecting_errors(
        lambda: _parse_arguments(
            list(arguments or ()), hypotheses, test_files, references, model_options, build_corpus
        ),
        lambda: options.build_metrics_config(metrics, tokenize, lowercase, resamples),
        lambda: options.build_translation_options(search, search_settings=search_settings or ()),
        lambda: corpora_and_path_checks.check_plot_path(plot),
    )
    for path in (output, plot):
        corpora_and_path_checks.check_output_path(path)
    with show_sentence_progress() as on_progress:
        load = partial(options.load_translator, engine=engine, device=device, threads=threads)
        load = partial(load, precision=precision, ensemble=ensemble)
        translator = load(task.model) if task.model else None
        languages = translator.languages if translator else None
        test_set = corpora_and_path_checks.read_test_set(
            task.test_set, task.references, languages, language
        )
        if translator:
            report = evaluate_model(translator, test_set, translation_options, scoring, on_progress)
        else:
            texts = corpora_and_path_checks.read_translations(task.hypotheses, test_set)
            report = score_translations(texts, test_set, scoring)
    _output_report(report, output, plot, as_json)
    if report.errors:
        raise typer.Exit(1)


class _EvaluationTask(NamedTuple):
    """A model or a file with translations, and the test set that it is scored on."""

    model: Path | None
    hypotheses: str
    test_set: CorpusConfig | None
    references: list[str]


def _parse_arguments(
    arguments: list[str],
    hypotheses: str | None,
    test_files: list[str] | None,
    references: list[str] | None,
    model_options: Mapping[str, object],
    build_corpus: Callable[[list[str]], CorpusConfig | None],
) -> _EvaluationTask:
    """Assign the arguments: Click parses `--test-set a.en a.de` as an option and an argument.

    `model_options` has the options that require a model, by name. `build_corpus` returns the config
    of the test set for a list of files.
    """
    if hypotheses:
        if problems := list(_hypotheses_conflicts(arguments, model_options)):
            raise ConfigError(*problems)
    elif not arguments:
        raise ConfigError("a MODEL or `--hypotheses` must be given")
    model = None if hypotheses else Path(arguments.pop(0))
    all_test_files, all_references = list(test_files or ()), list(references or ())
    (all_test_files if test_files or model else all_references).extend(arguments)
    if model and not all_test_files:
        raise ConfigError(
            Problem("--test-set", "must be given: the sentences that the model translates")
        )
    return _EvaluationTask(model, hypotheses or "", build_corpus(all_test_files), all_references)


def _hypotheses_conflicts(
    arguments: list[str], model_options: Mapping[str, object]
) -> Iterator[str]:
    """Yield a message for each argument and option that must not be given with `--hypotheses`."""
    for name in arguments:
        if Path(name).is_dir():
            yield f"the MODEL {name} must be left out with `--hypotheses`"
    if names := format_given_option_names(model_options):
        yield f"{names} must be left out with `--hypotheses`: nothing is translated"


def _output_report(
    report: Evaluation, output: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Write the translations and the plot if requested, and print the scores."""
    if output:
        _write_translations(report, output)
    if plot:
        _plot_report(report, plot)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        _print_report(report)


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
