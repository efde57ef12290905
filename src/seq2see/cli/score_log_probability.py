"""`seq2see score`: log-probability of given translations."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli import inputs, options
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.data.readers import SentencePair
    from seq2see.translator import PairScore, Translator

PAIRS_PER_CALL = 1024
"""Sentence pairs that are scored together."""


def score(
    model: options.ModelArgument,
    files: Annotated[list[str] | None, typer.Argument(metavar="FILES")] = None,
    *,
    columns: options.ColumnsOption = None,
    format_name: options.FormatOption = None,
    engine_options: options.InferenceOptions,
    as_json: options.JsonOption = False,
) -> None:
    """Print the log-probability of the target sentence of each pair.

    The output has one line per pair, with three columns separated by tabs: the log-probability of
    the target given the source, the log-probability divided by the number of target tokens, and
    this number.

    Args:
        files: Sentence pairs to score: two text files with the same number of lines, or one file in
            another format of parallel text, optionally compressed (.gz, .xz, .zst). Default: TSV on
            standard input.
        engine: Inference backend. It does not change the scores, which torch always computes;
            `ctranslate2` reports an error if ctranslate2 does not support the model.
        device: Device, for example cpu or cuda:0. `auto` uses cuda if it is available, otherwise
            mps (Apple), otherwise cpu.
        as_json: Print one JSON object per sentence pair, with the log-probability of each token.
    """
    from seq2see.data.corpus_config_and_reading import Corpus

    inputs.check_files_exist(files or [])
    config = inputs.build_corpus_config(files or [inputs.STANDARD_INPUT], columns, format_name)
    log_prob, num_tokens, num_failed = 0.0, 0, 0
    translator = engine_options.load_translator(model)
    pairs = iter(Corpus(config, translator.languages))
    for number, result in enumerate(_score_pairs(translator, pairs), 1):
        typer.echo(_format_score(result, as_json))
        if isinstance(result, str):
            typer.echo(f"seq2see: line {number:,} has no score: {result}", err=True)
            num_failed += 1
        else:
            log_prob, num_tokens = log_prob + result.log_prob, num_tokens + len(result.tokens)
    if num_tokens:
        perplexity = math.exp(min(-log_prob / num_tokens, 700))
        totals = f"log-probability {log_prob:,.2f}, perplexity {perplexity:,.3f}"
        typer.echo(f"seq2see: {num_tokens:,} tokens, {totals}", err=True)
    if num_failed:
        raise typer.Exit(1)


def _score_pairs(
    translator: Translator, pairs: Iterator[SentencePair]
) -> Iterator[PairScore | str]:
    """Yield the score of each pair, or an error message if it cannot be scored."""
    while chunk := list(islice(pairs, PAIRS_PER_CALL)):
        try:
            yield from translator.score(chunk)
        except InputError:  # one invalid pair must not stop the others
            for pair in chunk:
                try:
                    yield from translator.score([pair])
                except InputError as error:
                    yield str(error)


def _format_score(result: PairScore | str, as_json: bool) -> str:
    """Return the columns or the JSON object of a score.

    An error message is an empty line, or a JSON object with the key `error`.
    """
    if as_json:
        record = {"error": result} if isinstance(result, str) else asdict(result)
        return json.dumps(record, ensure_ascii=False)
    if isinstance(result, str):
        return ""
    return f"{result.log_prob:.4f}\t{result.score:.4f}\t{len(result.tokens)}"
