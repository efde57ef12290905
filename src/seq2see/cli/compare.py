"""`seq2see compare`: compare two systems on a test set."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli import options
from seq2see.cli.inputs import is_model, read_translations
from seq2see.cli.usage_errors import call_all_collecting_errors
from seq2see.registries import METRICS

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from seq2see.evaluate import SystemComparison
    from seq2see.evaluate.comparison import SentenceDifference

DEFAULT_METRICS = tuple(name for name, metric in METRICS.items() if metric.is_compared)

_DIFF_MARKS = {"both": ("", ""), "first": ("[-", "-]"), "second": ("{+", "+}")}
"""Marks around words of one translation only, as in wdiff, for terminals without color."""
_DIFF_STYLES = {"both": "", "first": "red strike", "second": "green bold"}


def compare(
    context: typer.Context,
    *,
    first: Annotated[str, typer.Argument(metavar="A")],
    second: Annotated[str, typer.Argument(metavar="B")],
    files: Annotated[list[str] | None, typer.Argument(metavar="FILES")] = None,
    test_set_options: options.EvaluationSetOptions,
    scoring_options: options.ScoringOptions,
    resamples: Annotated[int | None, typer.Option(min=1, max=1_000_000)] = None,
    num_examples: Annotated[int, typer.Option(min=0)] = 5,
    engine_options: options.InferenceOptions,
    beam_search: options.BeamSearchOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Compare two systems on a test set.

    Shows the scores, and whether their difference is significant.

    Args:
        first: First system: model directory, or text file with one translation per line.
        second: Second system: model directory, or text file with one translation per line.
        files: Further files of --test-set or, without --test-set, of --reference.
        metrics: Metric to compute; `exact` is the percentage of translations that equal a
            reference. May be repeated; the first one decides which system is better. Default: bleu,
            chrf and ter.
        resamples: Number of resamples in each of the two significance tests, which are both run.
            Default: 1,000 in the paired bootstrap test, 10,000 in approximate randomization.
        num_examples: Number of sentences to show whose translations differ most in quality.
    """
    from seq2see.cli.corpus_and_translation_progress import show_progress
    from seq2see.evaluate import compare_systems, translate_evaluation_set

    systems = first, second
    model_names = [system for system in systems if is_model(system)]
    has_model = bool(model_names)
    _, _, test_set_options, scoring, translation_options = call_all_collecting_errors(
        lambda: options.check_no_unused_model_options(context, has_model),
        lambda: options.check_systems_come_first(context, "A B", first, files),
        lambda: test_set_options.with_arguments(files or (), has_model),
        lambda: scoring_options.build_config(metrics=DEFAULT_METRICS),
        lambda: options.build_translation_options(beam_search),
    )
    with show_progress() as on_progress:
        models = {name: engine_options.load_translator(Path(name)) for name in model_names}
        languages = next((model.languages for model in models.values()), None)
        test_set = test_set_options.read(languages)
        outputs = []
        for system in systems:
            if translator := models.get(system):
                translations = translate_evaluation_set(
                    translator, test_set, translation_options, on_progress
                )
                outputs.append([translation.text for translation in translations])
            else:
                outputs.append(read_translations(system, test_set))
    comparison = compare_systems(systems, outputs[0], outputs[1], test_set, scoring, resamples)
    if as_json:
        typer.echo(json.dumps(comparison.to_json(num_examples), ensure_ascii=False))
    else:
        _print_comparison(comparison, test_set.name, num_examples)


def _print_comparison(comparison: SystemComparison, test_set: str, num_examples: int) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    first, second = comparison.systems
    console.print(f"{test_set}: {comparison.num_sentences:,} sentences; A {first}, B {second}")
    console.print(_build_score_table(comparison))
    ties = len(comparison.differences) - comparison.wins - comparison.losses
    console.print(
        f"Sentences: {comparison.wins:,} better by B, {comparison.losses:,} better by A, "
        f"{ties:,} equally good, {comparison.identical:,} identical."
    )
    for difference in comparison.differences[:num_examples]:
        for line in _format_difference(difference, console.is_terminal):
            console.print(line)
    console.print("\n" + comparison.verdict, style="bold")


def _build_score_table(comparison: SystemComparison) -> Table:
    from seq2see.cli.report_tables import build_table

    rows = []
    for one in comparison.metrics.values():
        values = f"{one.first.value:.2f}", f"{one.second.value:.2f}"
        interval = " … ".join(f"{end:+.2f}" for end in one.interval)
        p_values = (f"{p_value:.4f}" for p_value in one.p_values.values())
        rows.append((one.first.name, *values, f"{one.difference:+.2f}", interval, *p_values))
    return build_table(("metric", "A", "B", "B - A", "95 %", "p bootstrap", "p random"), rows)


def _format_difference(difference: SentenceDifference, has_color: bool) -> Iterator[Text]:
    """Yield source, reference and the word diff of the two translations of a sentence."""
    from rich.text import Text

    from seq2see.evaluate.comparison import diff_words

    better = "B" if difference.gain > 0 else "A"
    title = f"line {difference.line:,}, {abs(difference.gain):.1f} chrF2 better by {better}"
    yield Text(f"\n{title}", style="bold")
    if difference.source is not None:
        yield Text(f"  source     {difference.source}", style="dim")
    yield Text(f"  reference  {difference.reference}", style="dim")
    words = Text("  A → B      ")
    for side, text in diff_words(difference.first, difference.second):
        before, after = ("", "") if has_color else _DIFF_MARKS[side]
        words.append(f"{before}{text}{after}", style=_DIFF_STYLES[side])
    yield words
