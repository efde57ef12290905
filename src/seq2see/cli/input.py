"""What is to be translated, refused before a model is loaded and anything is written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from seq2see.cli.document import is_document
from seq2see.data.readers import BLOCK, STANDARD_INPUT, open_bytes
from seq2see.documents.encodings import refuse_no_text
from seq2see.documents.formats import refuse_unreadable
from seq2see.errors import InputError


def refuse_input(file: str) -> None:
    """Raise an error if there is nothing to read, or what is there is neither text nor document."""
    if file == STANDARD_INPUT:
        return
    path = Path(file)
    if not path.exists():
        raise InputError(f"{file} cannot be read: {os.strerror(errno.ENOENT)}")
    if path.is_dir():
        raise InputError(f"{file} cannot be read: {os.strerror(errno.EISDIR)}")
    refuse_unreadable(path)
    if path.is_file() and not is_document(file):  # a pipe can be read only once
        with open_bytes(file) as opened:
            refuse_no_text(opened.read(BLOCK), file)
