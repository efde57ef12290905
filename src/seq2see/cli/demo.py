"""`seq2see demo`: see the model learn, and see through it."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    steps: Annotated[int, typer.Option(min=1, max=1_000_000, help="Updates to learn for.")] = 800,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Another seed, another run.")] = 1,
) -> None:
    """Teach a small Transformer to reverse digits (half a minute), and see through it."""
    from seq2see.cli.reversal import run

    run(steps, seed)
