"""Output of `seq2see explain`: tables on the terminal, and files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unicodedata import combining, east_asian_width

import typer

from seq2see import draw
from seq2see.cli.inputs import check_extension
from seq2see.cli.interventions import AttentionAddress, ExplainArguments
from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.explain import ExplainedModel, Trace, explainer, output as outputs
from seq2see.explain.head_ablation import HeadImportanceReport, measure_head_importance
from seq2see.explain.interventions import parse_attention_address
from seq2see.explain.output import draw_attention_map
from seq2see.explain.pronoun_test import DEFAULT_CASES, PronounReport, run_pronoun_test
from seq2see.search import SearchConfig
from seq2see.translator import Translator

NUM_TOP_TOKENS = 4
"""Of the likeliest tokens, on a line."""


def parse_plot_attention(site: str | None) -> AttentionAddress | None:
    """Return the attention that a picture shows alone."""
    return None if site is None else parse_attention_address(site)


def check_output_name(path: Path | None, plot_attention: str | None) -> None:
    """Complain before the work."""
    if path:
        check_extension(path, outputs.TRACE_FORMATS, "--output")
    if plot_attention and (path is None or path.suffix.lower() not in draw.FIGURE_FORMATS):
        raise ConfigError(
            ["`--plot-attention` needs --output with a figure, for example attention.svg"]
        )


def trace_sentence(
    translator: Translator,
    sentence: str,
    target: str | None,
    search: SearchConfig,
    arguments: ExplainArguments,
) -> Trace:
    """Explain one sentence."""
    subject = explainer.build_explained_model(translator, sentence)
    if problems := list(arguments.find_problems(subject, sentence)):
        raise ConfigError(problems)
    try:
        return explainer.explain(
            translator,
            sentence,
            target,
            search=search,
            interventions=arguments.interventions,
            options=arguments.trace_options,
        )
    except InputError as error:
        raise arguments.with_option_name(error) from None


def output_trace(
    trace: Trace, path: Path | None, plot_attention: AttentionAddress | None, as_json: bool
) -> None:
    """Write the file, and print the rest."""
    if path and plot_attention:
        stack, layer, kind, head = plot_attention
        draw_attention_map(trace, path, trace.attention_map(stack, layer, kind), head)
    elif path:
        trace.save(path)
    if as_json:
        typer.echo(trace.to_json())
        return
    typer.echo(trace.translation.text)
    typer.echo()
    for line in (*_change(trace), *_steps(trace), *_words(trace), *_attributions(trace)):
        typer.echo(line)
    if path:
        typer.echo(f"seq2see: written to {path}", err=True)


def output_pronoun_test(
    translator: Translator, cases: int | None, path: Path | None, as_json: bool
) -> None:
    """Ask what "it" means."""
    subject = _subject(translator)
    short = any("fables-short" in data.name for data in translator.bundle.provenance.data)
    report = run_pronoun_test(subject, short, cases or DEFAULT_CASES)
    _report(report, path, as_json, report.summary_lines())


def output_head_importance(
    translator: Translator,
    files: list[str],
    max_sentences: int | None,
    path: Path | None,
    as_json: bool,
) -> None:
    """Switch off each head in turn."""
    corpus = Corpus(CorpusConfig(files=files), translator.languages)
    pairs = list(corpus)[:max_sentences]
    if not pairs:
        raise InputError(f"{corpus.name} must have at least one sentence, but has none")
    sources, references = ([*side] for side in zip(*pairs, strict=True))

    def told(done: int, of: int) -> None:
        typer.echo(f"\rhead {done} of {of}", err=True, nl=done == of)

    report = measure_head_importance(
        _subject(translator), sources, references, on_progress=told if sys.stderr.isatty() else None
    )
    _report(report, path, as_json, _head_lines(report))


def _subject(translator: Translator) -> ExplainedModel:
    engine = translator.engine
    if not isinstance(engine, TorchEngine):
        return ExplainedModel.from_bundle(translator.bundle)
    return ExplainedModel(
        engine.model, translator.tokenizers, translator.languages, engine.special_tokens
    )


def _report(
    report: PronounReport | HeadImportanceReport,
    path: Path | None,
    as_json: bool,
    lines: Iterable[str],
) -> None:
    if path:
        report.save(path)
    if as_json:
        typer.echo(report.model_dump_json())
    else:
        for line in lines:
            typer.echo(line)
    if path:
        typer.echo(f"seq2see: written to {path}", err=True)


def _head_lines(report: HeadImportanceReport) -> Iterator[str]:
    yield report.title
    yield report.signature
    for table in report.build_tables():
        yield f"\n{table.title}"
        cells = [
            [name, *(f"{value:+.2f}" for value in row)]
            for name, row in zip(table.row_labels, table.values, strict=True)
        ]
        yield from _table(["", *table.column_labels], cells)


def _change(trace: Trace) -> Iterator[str]:
    if trace.intervention_effect is None:
        return
    before, now = (
        trace.intervention_effect.baseline,
        trace.intervention_effect.baseline_log_prob_after,
    )
    yield f"without the intervention: {before.text}"
    if all(kind == "same" for kind, _ in trace.intervention_effect.word_diff):
        yield "the same translation"
    else:
        marks = {"same": "", "removed": "−", "added": "+"}
        yield "difference: " + " ".join(
            f"{marks[kind]}{word}" for kind, word in trace.intervention_effect.word_diff
        )
    yield (
        f"log-probability of the text without: {before.log_prob:.3f}, with: {now:.3f}, "
        f"change {now - before.log_prob:+.3f}"
    )
    yield ""


def _steps(trace: Trace) -> Iterator[str]:
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
    yield from _table(["token", "probability", "entropy", "likeliest"], rows)


def _words(trace: Trace) -> Iterator[str]:
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
    yield from _table(["word", "probability", "instead"], rows)


def _attributions(trace: Trace) -> Iterator[str]:
    """Yield for each method the source word that mattered most for each step."""
    if not trace.attributions:
        return
    yield ""
    sources = [word.text for word in trace.source.words]
    rows = [
        [
            token.text,
            *(sources[int(abs(found.word_scores[t]).argmax())] for found in trace.attributions),
        ]
        for t, token in enumerate(trace.target.tokens)
    ]
    yield from _table(["token", *(found.method for found in trace.attributions)], rows)
    if trace.rank_correlation:
        yield "\nrank correlation"
        table = zip(
            trace.rank_correlation.methods, trace.rank_correlation.correlation.tolist(), strict=True
        )
        cells = [[name, *(f"{value:.2f}" for value in row)] for name, row in table]
        yield from _table(["", *trace.rank_correlation.methods], cells)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield columns that stand below each other, in any script."""
    widths = [max(map(_width, column)) for column in zip(titles, *rows, strict=True)]
    for row in (titles, *rows):
        cells = (
            cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes: a Chinese character takes two."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
