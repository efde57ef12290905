"""`seq2see score`: log-probability of given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import columns_of, refuse_missing
from seq2see.cli.options import (
    Columns,
    Device,
    Engine,
    Format,
    Model,
    Threads,
    dying_of_interrupts,
    loaded,
)
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.data.readers import Pair
    from seq2see.translator import Scored, Translator

AT_ONCE = 1024


def score(
    model: Model,
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILES…",
            help="Two text files side by side, or one .tsv, .jsonl or .tmx (also packed). By "
            "default a TSV on standard input.",
        ),
    ] = None,
    columns: Columns = None,
    form: Format = None,
    engine: Engine = "auto",
    device: Device = "auto",
    threads: Threads = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="An object a line, with every token.")
    ] = False,
) -> None:
    """Print the log-probability of each pair: in all, by token, and the number of tokens."""
    from seq2see.data.corpus import Corpus, CorpusConfig

    refuse_missing(files or [])
    table = {"files": files or ["-"], "columns": columns_of(columns, form or "")}
    config = CorpusConfig.model_validate({**table, "format": form})
    written = scored_as_json if as_json else scored_as_text
    total, tokens, failed = 0.0, 0, 0
    with dying_of_interrupts():
        translator = loaded(model, engine, device, threads)
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


def _scored(translator: Translator, pairs: Iterator[Pair]) -> Iterator[Scored | str]:
    """Yield the score of each pair, or why it has none."""
    while some := list(islice(pairs, AT_ONCE)):
        try:
            yield from translator.score(some)
        except InputError:  # of one of them, which must not stop the others
            for pair in some:
                try:
                    yield from translator.score([pair])
                except InputError as error:
                    yield str(error)


def scored_as_text(scored: Scored | str) -> str:
    """Return the log-probability, that of a token on average, and the number of tokens."""
    if isinstance(scored, str):
        return ""
    return f"{scored.log_prob:.4f}\t{scored.score:.4f}\t{len(scored.tokens)}"


def scored_as_json(scored: Scored | str) -> str:
    """Return an object; a text says why there is no score."""
    if isinstance(scored, str):
        return json.dumps({"error": scored}, ensure_ascii=False)
    return json.dumps(asdict(scored), ensure_ascii=False)
