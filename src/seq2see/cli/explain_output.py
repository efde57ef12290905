"""Output of `seq2see explain`: tables on the terminal, and files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from unicodedata import combining, east_asian_width

import typer

from seq2see import draw
from seq2see.cli.inputs import refuse_ending
from seq2see.cli.interventions import Place, Wanted
from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.explain import Subject, Trace, explainer, output as outputs
from seq2see.explain.head_ablation import HeadReport, head_importance
from seq2see.explain.interventions import parse_attention
from seq2see.explain.output import head_picture
from seq2see.explain.pronoun_test import CASES, PronounReport, pronoun_report
from seq2see.search import SearchConfig
from seq2see.translator import Translator

SHOWN = 4
"""Of the likeliest tokens, on a line."""


def parse_plot_attention(site: str | None) -> Place | None:
    """Return the attention that a picture shows alone."""
    return None if site is None else parse_attention(site)


def refuse_name(path: Path | None, site: str | None) -> None:
    """Complain before the work."""
    if path:
        refuse_ending(path, outputs.FORMATS, "--output")
    if site and (path is None or path.suffix.lower() not in draw.FORMATS):
        raise ConfigError(["`--site` must have a picture to draw, -o NAME.svg or NAME.png"])


def traced(
    translator: Translator, sentence: str, target: str | None, search: SearchConfig, wanted: Wanted
) -> Trace:
    """Explain one sentence."""
    subject = explainer.subject_of(translator, sentence)
    if problems := list(wanted.misfits(subject, sentence)):
        raise ConfigError(problems)
    try:
        return explainer.explain(
            translator,
            sentence,
            target,
            search=search,
            interventions=wanted.interventions,
            detail=wanted.detail,
        )
    except InputError as error:
        raise wanted.renamed(error) from None


def show(trace: Trace, path: Path | None, where: Place | None, as_json: bool) -> None:
    """Write the file, and print the rest."""
    if path and where:
        stack, layer, kind, head = where
        head_picture(trace, path, trace.at(stack, layer, kind), head)
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


def pronoun(translator: Translator, cases: int | None, path: Path | None, as_json: bool) -> None:
    """Ask what "it" means."""
    subject = _subject(translator)
    short = any("fables-short" in data.name for data in translator.bundle.origin.data)
    report = pronoun_report(subject, short, cases or CASES)
    _report(report, path, as_json, report.verdict())


def heads(
    translator: Translator, files: list[str], most: int | None, path: Path | None, as_json: bool
) -> None:
    """Switch off each head in turn."""
    corpus = Corpus(CorpusConfig(files=files), translator.languages)
    pairs = list(corpus)[:most]
    if not pairs:
        raise InputError(f"{corpus.name} must have at least one sentence, but has none")
    sources, references = ([*side] for side in zip(*pairs, strict=True))

    def told(done: int, of: int) -> None:
        typer.echo(f"\rhead {done} of {of}", err=True, nl=done == of)

    report = head_importance(
        _subject(translator), sources, references, told=told if sys.stderr.isatty() else None
    )
    _report(report, path, as_json, _head_lines(report))


def _subject(translator: Translator) -> Subject:
    engine = translator.engine
    if not isinstance(engine, TorchEngine):
        return Subject.of(translator.bundle)
    return Subject(engine.model, translator.tokenizers, translator.languages, engine.framing)


def _report(
    report: PronounReport | HeadReport, path: Path | None, as_json: bool, lines: Iterable[str]
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


def _head_lines(report: HeadReport) -> Iterator[str]:
    yield report.title
    yield report.signature
    for table in report.tables():
        yield f"\n{table.title}"
        cells = [
            [name, *(f"{value:+.2f}" for value in row)]
            for name, row in zip(table.rows, table.values, strict=True)
        ]
        yield from _table(["", *table.columns], cells)


def _change(trace: Trace) -> Iterator[str]:
    if trace.change is None:
        return
    before, now = trace.change.baseline, trace.change.baseline_now
    yield f"without the intervention: {before.text}"
    if all(kind == "same" for kind, _ in trace.change.words):
        yield "the same translation"
    else:
        marks = {"same": "", "gone": "−", "new": "+"}
        yield "difference: " + " ".join(f"{marks[kind]}{word}" for kind, word in trace.change.words)
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
            "  ".join(f"{c.text} {c.probability:.1%}" for c in step.top[:SHOWN]),
        ]
        for token, step in zip(trace.target.tokens, trace.steps, strict=True)
    ]
    yield from _table(["token", "probability", "entropy", "likeliest"], rows)


def _words(trace: Trace) -> Iterator[str]:
    if not trace.words:
        return
    yield ""
    rows = [
        [
            trace.target.words[choice.word].text,
            f"{choice.probability:.1%}",
            "  ".join(f"{c.text} {c.probability:.1%}" for c in choice.alternatives),
        ]
        for choice in trace.words
    ]
    yield from _table(["word", "probability", "instead"], rows)


def _attributions(trace: Trace) -> Iterator[str]:
    """Yield for each method the source word that mattered most for each step."""
    if not trace.attributions:
        return
    yield ""
    sources = [word.text for word in trace.source.words]
    rows = [
        [token.text, *(sources[int(abs(found.words[t]).argmax())] for found in trace.attributions)]
        for t, token in enumerate(trace.target.tokens)
    ]
    yield from _table(["token", *(found.method for found in trace.attributions)], rows)
    if trace.agreement:
        yield "\nrank correlation"
        table = zip(trace.agreement.methods, trace.agreement.correlation.tolist(), strict=True)
        cells = [[name, *(f"{value:.2f}" for value in row)] for name, row in table]
        yield from _table(["", *trace.agreement.methods], cells)


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
