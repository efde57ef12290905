"""`seq2see demo`: see a translator learn, and see through it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.train import let_threads_sleep


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the run.")] = Path(
        "runs/demo"
    ),
    epochs: Annotated[float, typer.Option(min=0.001, max=1000, help="How long to learn.")] = 8.0,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Another seed, another run.")] = 1,
) -> None:
    """Train a small translator on built-in fables (two minutes), and ask what "it" means."""
    let_threads_sleep()
    from seq2see.cli.fable import learn, show

    if not (output / "config.json").exists():
        learn(output, epochs, seed)
    show(output)
