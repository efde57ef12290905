"""`seq2see score`: log-probability of given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import check_files_exist, parse_columns
from seq2see.cli.options import (
    ColumnsOption,
    DeviceOption,
    EngineOption,
    FormatOption,
    ModelArgument,
    ThreadsOption,
    exit_on_interrupt,
    load_translator,
)
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.data.readers import SentencePair
    from seq2see.translator import PairScore, Translator

PAIRS_PER_CALL = 1024


def score(
    model: ModelArgument,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES…",
            help="Sentence pairs to score: two text files with the same number of lines, or one "
            ".tsv, .jsonl or .tmx file, optionally compressed (.gz, .xz, .zst). Default: TSV on "
            "standard input.",
        ),
    ] = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    engine: EngineOption = "auto",
    device: DeviceOption = "auto",
    threads: ThreadsOption = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per sentence pair, with the log-probability of each token.",
        ),
    ] = False,
) -> None:
    """Print the log-probability of the target of each sentence pair, its mean and token count.

    One line per pair has three columns, separated by tabs: the log-probability of the target given
    the source, its mean per token, and the number of target tokens.
    """
    from seq2see.data.corpus import Corpus, CorpusConfig

    check_files_exist(files or [])
    table = {"files": files or ["-"], "columns": parse_columns(columns, form or "")}
    config = CorpusConfig.model_validate({**table, "format": form})
    written = format_score_json if as_json else format_score_text
    total, tokens, failed = 0.0, 0, 0
    with exit_on_interrupt():
        translator = load_translator(model, engine, device, threads)
        pairs = iter(Corpus(config, translator.languages))
        for number, scored in enumerate(_scored(translator, pairs), 1):
            typer.echo(written(scored))
            if isinstance(scored, str):
                typer.echo(f"seq2see: line {number:,} has no score: {scored}", err=True)
                failed += 1
            else:
                total, tokens = total + scored.log_prob, tokens + len(scored.tokens)
    if tokens:
        perplexity = math.exp(min(-total / tokens, 700))
        told = f"{tokens:,} tokens, log-probability {total:,.2f}, perplexity {perplexity:,.3f}"
        typer.echo(f"seq2see: {told}", err=True)
    if failed:
        raise typer.Exit(1)


def _scored(translator: Translator, pairs: Iterator[SentencePair]) -> Iterator[PairScore | str]:
    """Yield the score of each pair, or why it has none."""
    while some := list(islice(pairs, PAIRS_PER_CALL)):
        try:
            yield from translator.score(some)
        except InputError:  # of one of them, which must not stop the others
            for pair in some:
                try:
                    yield from translator.score([pair])
                except InputError as error:
                    yield str(error)


def format_score_text(scored: PairScore | str) -> str:
    """Return the log-probability, that of a token on average, and the number of tokens."""
    if isinstance(scored, str):
        return ""
    return f"{scored.log_prob:.4f}\t{scored.score:.4f}\t{len(scored.tokens)}"


def format_score_json(scored: PairScore | str) -> str:
    """Return an object; a text says why there is no score."""
    if isinstance(scored, str):
        return json.dumps({"error": scored}, ensure_ascii=False)
    return json.dumps(asdict(scored), ensure_ascii=False)
