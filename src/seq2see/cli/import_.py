"""`seq2see import`: a model of another system becomes one of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.inputs import stated


def import_(
    directory: Annotated[Path, typer.Argument(help="A MarianMT model, as Hugging Face keeps it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model directory to write.")],
    languages: Annotated[
        str | None,
        typer.Option(metavar="SOURCE,TARGET", help="Where the model does not tell, such as en,de."),
    ] = None,
) -> None:
    """Read a model of another system and write it as a model directory."""
    from seq2see import interop
    from seq2see.data.writers import refuse_existing

    refuse_existing([output])
    bundle = interop.read(directory, stated(languages))
    bundle.save(output)
    source, target = bundle.languages
    typer.echo(f"{output}: {source} → {target}", err=True)
    typer.echo(f"Try it: seq2see translate {output} < input.txt", err=True)
