"""`seq2see info`: describe a model or a preset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.options import JsonOption
from seq2see.errors import InputError
from seq2see.registries import PRESETS

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
    from seq2see.cli.training_text_output import format_training_text
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
        typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        typer.echo(bundle.format_card().rstrip() + "\n\n## Training text\n")
        typer.echo(format_training_text(bundle.training_text) + "\n\n## Available engines\n")
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
