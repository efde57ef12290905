"""What the verbs that report have in common: for machines, or as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seq2see.cli.usage import refuse_ending
from seq2see.errors import InputError

Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Plot = Annotated[Path | None, typer.Option(help="Also draw a picture: .png, .svg, .pdf.")]


def refuse_plot(plot: Path | None) -> None:
    """Refuse a name that no picture can have, before the work."""
    from seq2see import draw

    if plot:
        refuse_ending(plot, draw.FORMATS, "--plot")


def refuse_no_folder(*folders: Path | None) -> None:
    """Refuse folders that are none, before the work."""
    for folder in folders:
        if folder is not None and not folder.is_dir():
            kind = "a file" if folder.exists() else "not there"
            raise InputError(f"{folder} must be a folder, but is {kind}")


def refuse_place(path: Path | None) -> None:
    """Refuse a file that cannot be written where it shall be, before the work."""
    if path and path.is_dir():
        raise InputError(f"{path} cannot be written: it is a folder")
    if path and not (folder := path.absolute().parent).is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {folder}")
