"""Output of `seq2see explain`: tables on the terminal, and files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import typer
from rich.cells import cell_len, set_cell_size

from seq2see.cli.corpus_and_translation_progress import show_progress
from seq2see.cli.inputs import build_corpus_config
from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.errors import ConfigError, InputError
from seq2see.explain import ExplainedModel, Trace
from seq2see.explain.head_ablation import HeadImportanceReport, measure_head_importance
from seq2see.explain.pronoun_test import DEFAULT_CASES, run_pronoun_test
from seq2see.explain.trace_format import SavableResult
from seq2see.translator import Translator

AttentionAddress = tuple[str, int, str, int | None]
"""Stack, layer, kind and head of an attention; None means all heads."""
NUM_TOP_TOKENS = 4
"""Most likely tokens that are printed per step."""


def output_trace(
    trace: Trace, path: Path | None, plot_attention: AttentionAddress | None, as_json: bool
) -> None:
    """Write the trace or a plot to a file if requested, and print the trace."""
    lines = chain(
        (trace.translation.text, ""),
        _format_intervention_effect(trace),
        _format_steps(trace),
        _format_word_alternatives(trace),
        _format_attributions(trace),
    )
    if path and plot_attention:
        stack, layer, kind, head = plot_attention
        try:
            trace.save_attention_map_figure(path, trace.attention_map(stack, layer, kind), head)
        except InputError as error:
            raise ConfigError(f"`--plot-attention`: {error}") from None
    elif path:
        trace.save(path)
    _print_result(trace, path, as_json, lines)


def run_and_print_pronoun_test(
    translator: Translator, cases: int | None, path: Path | None, as_json: bool
) -> None:
    """Run the pronoun test, write its report to a file if requested, and print it."""
    explained = ExplainedModel(translator)
    short = any("fables-short" in data.name for data in translator.bundle.provenance.data)
    report = run_pronoun_test(explained, short, cases or DEFAULT_CASES)
    if path:
        report.save(path)
    _print_result(report, path, as_json, report.summary_lines())


def measure_and_print_head_importance(
    translator: Translator,
    files: list[str],
    max_sentences: int | None,
    path: Path | None,
    as_json: bool,
) -> None:
    """Measure the importance of each head; write the report if requested, and print it."""
    config = build_corpus_config(files, None, None, "`--head-importance`")
    corpus = Corpus(config, translator.languages)
    pairs = list(corpus)[:max_sentences]
    if not pairs:
        raise InputError(f"{corpus.name} must have at least one sentence, but has none")
    sources, references = ([*side] for side in zip(*pairs, strict=True))

    explained = ExplainedModel(translator)
    with show_progress("measuring heads") as on_progress:
        report = measure_head_importance(explained, sources, references, on_progress=on_progress)
    if path:
        report.save(path)
    _print_result(report, path, as_json, _format_head_importance(report))


def _print_result(
    result: SavableResult, path: Path | None, as_json: bool, lines: Iterable[str]
) -> None:
    typer.echo(result.to_json() if as_json else "\n".join(lines))
    if path:
        typer.echo(f"seq2see: wrote {path}", err=True)


def _format_head_importance(report: HeadImportanceReport) -> Iterator[str]:
    yield report.title
    yield report.signature
    table = report.build_table()
    cells = [
        [name, *(f"{value:+.2f}" for value in row)]
        for name, row in zip(table.row_labels, table.values, strict=True)
    ]
    yield from _format_table(["", *table.column_labels], cells)


def _format_intervention_effect(trace: Trace) -> Iterator[str]:
    """Yield the translation without the intervention, and how the intervention changes it."""
    effect = trace.intervention_effect
    if effect is None:
        return
    before, after = effect.baseline.log_prob, effect.baseline_log_prob_after
    yield f"without the intervention: {effect.baseline.text}"
    if all(kind == "same" for kind, _ in effect.word_diff):
        yield "the same translation"
    else:
        marks = {"same": "", "removed": "−", "added": "+"}
        words = [f"{marks[kind]}{word}" for kind, word in effect.word_diff]
        yield "difference: " + " ".join(words)
    yield (
        f"log-probability of the translation without the intervention: {before:.3f}, with it: "
        f"{after:.3f}, change {after - before:+.3f}"
    )
    yield ""


def _format_steps(trace: Trace) -> Iterator[str]:
    rows = [
        [
            token.text,
            f"{step.probability:.1%}",
            f"{step.entropy:.2f}",
            "  ".join(
                f"{c.text} {c.probability:.1%}" for c in step.top_candidates[:NUM_TOP_TOKENS]
            ),
        ]
        for token, step in zip(trace.target.tokens, trace.steps, strict=True)
    ]
    yield from _format_table(["token", "probability", "entropy", "most likely tokens"], rows)


def _format_word_alternatives(trace: Trace) -> Iterator[str]:
    if not trace.word_alternatives:
        return
    yield ""
    rows = [
        [
            trace.target.words[choice.word_index].text,
            f"{choice.probability:.1%}",
            "  ".join(f"{c.text} {c.probability:.1%}" for c in choice.alternatives),
        ]
        for choice in trace.word_alternatives
    ]
    yield from _format_table(["word", "probability", "alternatives"], rows)


def _format_attributions(trace: Trace) -> Iterator[str]:
    """Yield for each target token the source word with the highest attribution by each method."""
    if not trace.attributions:
        return
    yield ""
    sources = [word.text for word in trace.source.words]
    rows = [
        [
            token.text,
            *(sources[int(abs(each.word_scores[t]).argmax())] for each in trace.attributions),
        ]
        for t, token in enumerate(trace.target.tokens)
    ]
    yield from _format_table(["token", *(each.method for each in trace.attributions)], rows)
    if ranks := trace.rank_correlation:
        yield "\nrank correlation of the methods"
        table = zip(ranks.methods, ranks.correlation.tolist(), strict=True)
        cells = [[name, *(f"{value:.2f}" for value in row)] for name, row in table]
        yield from _format_table(["", *ranks.methods], cells)


def _format_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with aligned columns, also for scripts with wide characters."""
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        yield "  ".join(map(set_cell_size, row, widths)).rstrip()
