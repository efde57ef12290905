"""`seq2see info`: what a model is made of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from seq2see.cli.options import Json
from seq2see.errors import InputError

Preset = Literal["tiny", "small", "base", "big"]


def info(
    model: Annotated[
        str,
        typer.Argument(help=f"A model directory, or a usual size: {', '.join(get_args(Preset))}."),
    ],
    vocab_size: Annotated[
        int, typer.Option(min=1, max=2**31, help="Of a usual size: pieces of its vocabulary.")
    ] = 37_000,
    as_json: Json = False,
) -> None:
    """Print the card of a model and the engines that can run it, or the parts of a usual size."""
    if Path(model).is_dir():
        _show_directory(Path(model), as_json)
    elif model in get_args(Preset):
        _show_preset(model, vocab_size, as_json)
    else:
        sizes = ", ".join(get_args(Preset))
        raise InputError(f"{model} is not the directory of a model, nor one of {sizes}")


def _show_directory(home: Path, as_json: bool) -> None:
    from seq2see.bundle import Bundle
    from seq2see.engines.loading import unusable

    bundle = Bundle.load(home)
    reason = unusable(bundle)
    if as_json:
        typer.echo(json.dumps(_facts(bundle, reason), ensure_ascii=False))
        return
    typer.echo(bundle.card().rstrip() + "\n\n## Engines here\n")
    typer.echo("- torch: yes\n- ctranslate2: " + (f"no, {reason}" if reason else "yes"))


def _facts(bundle: Any, reason: str | None) -> dict[str, Any]:
    from seq2see.model import count_parameters

    return {
        "languages": bundle.languages,
        "config": bundle.config.model_dump(),
        "parameters": count_parameters(bundle.model()),
        "max_length": bundle.max_length,
        "origin": bundle.origin.model_dump(),
        "engines": {"torch": None, "ctranslate2": reason},
    }


def _show_preset(name: str, vocab_size: int, as_json: bool) -> None:
    import torch

    from seq2see.model import ModelConfig, Transformer, count_parameters, summary

    config = ModelConfig.preset(name, vocab_size=vocab_size)
    with torch.device("meta"):  # shapes without memory
        model = Transformer.from_config(config)
    if as_json:
        typer.echo(
            json.dumps({"config": config.model_dump(), "parameters": count_parameters(model)})
        )
    else:
        typer.echo(summary(model))
