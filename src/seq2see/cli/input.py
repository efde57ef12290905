"""What is to be translated, refused before a model is loaded and anything is written."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path

from seq2see.cli.document import is_document, is_packed
from seq2see.data.readers import BLOCK, STANDARD_INPUT, open_bytes
from seq2see.documents.encodings import refuse_no_text
from seq2see.documents.formats import refuse_unreadable
from seq2see.errors import InputError


def refuse_swapped(model: Path, file: str) -> None:
    """Raise an error if there is a file in the place of the model."""
    if model.is_file():
        again = f", such as seq2see translate {file} {model}" if Path(file).is_dir() else ""
        raise InputError(f"{model} is a file: give the directory of a model, then the text{again}")


def refuse_input(file: str, model: Path) -> None:
    """Raise an error if there is nothing to read, or what is there is neither text nor document."""
    if file == STANDARD_INPUT:
        return
    path = Path(file)
    if not _exists(path):
        if " " in file:
            again = f"echo {shlex.quote(file)} | seq2see translate {model}"
            raise InputError(f"{file!r} is not a file: to translate it as text, {again}")
        raise InputError(f"{file} cannot be read: {os.strerror(errno.ENOENT)}")
    if path.is_dir():
        raise InputError(f"{file} cannot be read: {os.strerror(errno.EISDIR)}")
    if is_packed(file) and is_document(path.stem):
        raise InputError(f"{file} must be unpacked first: a document is not read packed")
    refuse_unreadable(path)
    if path.is_file() and not is_document(file):  # a pipe can be read only once
        with open_bytes(file) as opened:
            refuse_no_text(opened.read(BLOCK), file)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a sentence may be too long for a name
        return False
