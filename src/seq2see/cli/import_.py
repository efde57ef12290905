"""`seq2see import`: convert a MarianMT model to a model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.corpora_and_path_checks import parse_languages

_DirectoryArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIRECTORY", help="Directory of a MarianMT model in Hugging Face format."
    ),
]
_OutputOption = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIRECTORY", help="Model directory to create; must not exist."
    ),
]
_LanguagesOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="Language codes of source and target, for example en,de. Default: read from the "
        "configuration or the name of the model.",
    ),
]


def import_(
    directory: _DirectoryArgument, output: _OutputOption, languages: _LanguagesOption = None
) -> None:
    """Convert a MarianMT model to a seq2see model directory."""
    from seq2see import interop
    from seq2see.data.corpus_splitting_and_writing import check_not_existing

    check_not_existing([output])
    bundle = interop.import_model(directory, parse_languages(languages))
    bundle.save(output)
    source, target = bundle.languages
    typer.echo(f"{output}: {source} → {target}", err=True)
    typer.echo(f"Try it: seq2see translate {output} < input.txt", err=True)
