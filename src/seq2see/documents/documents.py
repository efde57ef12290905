"""A document in, a document out."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from seq2see.documents.formats import format_of
from seq2see.documents.html import translate_page
from seq2see.documents.job import Job, Progress
from seq2see.documents.report import DocumentReport
from seq2see.documents.text import translate_lines
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

LARGEST = 256 * 1024 * 1024
"""Bytes of the largest document that is read."""


def translate_document(
    translator: Translator,
    source: Path,
    target: Path,
    options: TranslationOptions | None = None,
    progress: Progress | None = None,
    *,
    format: str | None = None,  # noqa: A002 as in Python's own shutil
    numbers: bool = False,
    overwrite: bool = False,
) -> DocumentReport:
    """Translate a file to another of the same format, which is written aside and then renamed.

    The format is known by the ending of the source unless it is named. `numbers` keeps numbers as
    they are; `overwrite` also translates what has a translation already (PO, TMX, XLIFF).
    `progress` is told how many sentences are done, and of how many.
    """
    translate = format_of(source, format).load()
    data = _read(source)
    _refuse(target, source)
    job = Job(translator, options, numbers=numbers, overwrite=overwrite, progress=progress)
    _write(target, translate(data, str(source), job))
    return job.report


def translate_text(
    translator: Translator,
    text: str,
    options: TranslationOptions | None = None,
    *,
    numbers: bool = False,
) -> str:
    """Translate a text line by line and sentence by sentence; all white space between stays."""
    return translate_lines(text, Job(translator, options, numbers=numbers))


def translate_html(
    translator: Translator,
    html: str,
    options: TranslationOptions | None = None,
    *,
    numbers: bool = False,
) -> str:
    """Translate a page or a fragment; its tags go where their words went."""
    return translate_page(html, Job(translator, options, numbers=numbers))


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} must have at most {LARGEST >> 20} MB: split it")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _refuse(target: Path, source: Path) -> None:
    """Raise an error if nothing can be written there: better now than when all is translated."""
    if target.exists() and target.samefile(source):
        raise InputError(f"`target` must be another file than the source, but both are {source}")
    if target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{target} cannot be written: name a file in a folder that is there")


def _write(target: Path, content: bytes) -> None:
    """Write a file aside, and give it its name when it is whole."""
    try:
        with TemporaryDirectory(prefix=".partial-", dir=target.parent) as folder:
            aside = Path(folder) / target.name
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(target)
    except OSError as error:
        raise InputError(f"{target} cannot be written: {error.strerror or error}") from None
