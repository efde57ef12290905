"""`seq2see info`: describe a model or a preset."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.options import JsonOption
from seq2see.errors import InputError, escape_control_characters
from seq2see.registries import PRESETS

if TYPE_CHECKING:
    from seq2see.text.training_text_statistics import (
        LengthRatioBucket,
        SideStatistics,
        TrainingTextStatistics,
    )

_ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=f"Model directory or name of a preset: {', '.join(PRESETS)}.",
    ),
]


def info(
    model: _ModelArgument,
    vocab_size: Annotated[int, typer.Option(min=1, max=2**31)] = 37_000,
    as_json: JsonOption = False,
) -> None:
    """Describe a model, or the architecture of a preset.

    For a model: architecture, number of parameters, training data, scores and statistics of the
    training text. For a preset: the modules with their numbers of parameters.

    Args:
        vocab_size: Vocabulary size of a preset. Ignored for a model directory.
    """
    if Path(model).is_dir():
        _print_model(Path(model), as_json)
    elif model in PRESETS:
        _print_preset(model, vocab_size, as_json)
    else:
        raise InputError(
            f"{model} must be a model directory or one of {', '.join(PRESETS)}, but is neither"
        )


def _print_model(directory: Path, as_json: bool) -> None:
    from seq2see.bundle import Bundle
    from seq2see.engines.loading import find_ctranslate2_problem
    from seq2see.model import count_parameters

    bundle = Bundle.load(directory)
    problem = find_ctranslate2_problem(bundle)
    if as_json:
        record = {
            "languages": bundle.languages,
            "config": bundle.config.model_dump(),
            "parameters": count_parameters(bundle.build_model()),
            "max_length": bundle.max_length,
            "max_sentences_per_line": bundle.max_sentences_per_line,
            "training_text": bundle.training_text.model_dump() if bundle.training_text else None,
            "provenance": bundle.provenance.model_dump(),
            "engines": {"torch": None, "ctranslate2": problem},
        }
        typer.echo(escape_control_characters(json.dumps(record, ensure_ascii=False)))
    else:
        typer.echo(bundle.format_card().rstrip() + "\n\n## Training text\n")
        training_text = escape_control_characters(format_training_text(bundle.training_text))
        typer.echo(training_text + "\n\n## Available engines\n")
        typer.echo("- torch: yes\n- ctranslate2: " + (f"no, {problem}" if problem else "yes"))


def _print_preset(name: str, vocab_size: int, as_json: bool) -> None:
    import torch

    from seq2see.model import ModelConfig, Transformer, count_parameters, format_model_summary

    config = ModelConfig.from_preset(name, vocab_size=vocab_size)
    with torch.device("meta"):  # shapes without values
        model = Transformer.from_config(config)
    if as_json:
        record = {"config": config.model_dump(), "parameters": count_parameters(model)}
        typer.echo(json.dumps(record))
    else:
        typer.echo(format_model_summary(model))


NOT_MEASURED = "Not measured: the model counts as trained on 1 sentence per line."


def format_training_text(statistics: TrainingTextStatistics | None) -> str:
    """Return a Markdown list of the statistics, or a sentence if there are none."""
    if statistics is None:
        return NOT_MEASURED
    return "\n".join(f"- {line}" for line in _describe(statistics))


def _describe(statistics: TrainingTextStatistics) -> Iterator[str]:
    sides = {"source": statistics.source, "target": statistics.target}
    yield f"measured: {statistics.num_pairs:,} pairs"
    yield (
        f"sentences per line: up to {statistics.max_sentences_per_line} in at least 5 % of the "
        "source lines"
    )
    for name, side in sides.items():
        yield f"{name} lines by number of sentences: {_format_sentence_shares(side)}"
    for name, side in sides.items():
        mean = f"{side.mean_tokens:.1f}"
        yield f"tokens per {name} line: {mean} on average, at most {side.max_tokens}"
    for bucket, following in zip_longest(statistics.length_ratios, statistics.length_ratios[1:]):
        yield _format_length_ratio(bucket, following)
    for name, side in sides.items():
        yield f"scripts of the {name}: {_format_scripts(side.scripts)}"


def _format_sentence_shares(side: SideStatistics) -> str:
    shares = {number: share for number, share in enumerate(side.sentence_shares, 1) if share}
    last = len(side.sentence_shares)
    return ", ".join(
        f"{number}{' or more' * (number == last > 1)}: {share:.2%}"
        for number, share in shares.items()
    )


def _format_length_ratio(bucket: LengthRatioBucket, following: LengthRatioBucket | None) -> str:
    """Return the usual ratio of a range of source lengths, two standard deviations around it."""
    limit = f" to {following.min_source_tokens - 1}" if following else " or more"
    low, high = (math.exp(bucket.mean + number * bucket.deviation) for number in (-2, 2))
    return (
        f"target/source tokens for {bucket.min_source_tokens}{limit} source tokens: "
        f"{math.exp(bucket.mean):.2f}, usually {low:.2f} to {high:.2f} ({bucket.num_pairs:,} pairs)"
    )


def _format_scripts(scripts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {share:.1%}" for name, share in scripts.items()) or "no letters"
