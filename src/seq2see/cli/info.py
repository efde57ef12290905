"""`seq2see info`: what a model is made of."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

Preset = Literal["tiny", "small", "base", "big"]


def info(
    preset: Annotated[Preset, typer.Argument(help="A usual size.")],
    vocab_size: Annotated[
        int, typer.Option(min=1, max=2**31, help="Pieces of the shared vocabulary.")
    ] = 37_000,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Print a model's parts as a tree, with shapes and parameter counts."""
    import torch

    from seq2see.model import ModelConfig, Transformer, count_parameters, summary

    config = ModelConfig.preset(preset, vocab_size=vocab_size)
    with torch.device("meta"):  # shapes without memory
        model = Transformer.from_config(config)
    if as_json:
        typer.echo(
            json.dumps({"config": config.model_dump(), "parameters": count_parameters(model)})
        )
    else:
        typer.echo(summary(model))
