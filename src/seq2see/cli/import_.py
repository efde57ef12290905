"""`seq2see import`: convert a MarianMT model to a model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.inputs import parse_languages


def import_(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIRECTORY")],
    languages: Annotated[str | None, typer.Option(metavar="SOURCE,TARGET")] = None,
) -> None:
    """Convert a MarianMT model to a seq2see model directory.

    Args:
        directory: Directory of a MarianMT model in Hugging Face format.
        output: Model directory to create; must not exist.
        languages: Language codes of source and target, for example en,de. Default: read from the
            configuration or the name of the model.
    """
    from seq2see import interop
    from seq2see.data.corpus_splitting_and_writing import check_not_existing

    check_not_existing([output])
    bundle = interop.import_model(directory, parse_languages(languages))
    bundle.save(output)
    source, target = bundle.languages
    typer.echo(f"{output}: {source} → {target}", err=True)
    typer.echo(f"Try it: seq2see translate {output} < input.txt", err=True)
