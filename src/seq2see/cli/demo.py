"""`seq2see demo`: see a translator learn, and see through it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.train import let_threads_sleep, refuse_file


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the run.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[
        float | None,
        typer.Option(min=0.001, max=1000, help="How long to learn.", show_default="8"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=2**63 - 1, help="Another seed, another run.", show_default="1"),
    ] = None,
) -> None:
    """Train a small translator on built-in fables (two minutes), and ask what "it" means."""
    refuse_file(output)
    let_threads_sleep()
    from seq2see.cli.fable import align, learn, refuse_others, show

    if (output / "config.json").exists():
        refuse_others(output, {"epochs": epochs, "seed": seed})
    else:
        learn(output, 8.0 if epochs is None else epochs, 1 if seed is None else seed)
    align(output)
    show(output)
