"""Translate files and HTML strings; the table of supported document formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from seq2see.documents.document_translator import DocumentReport, Job, Progress
from seq2see.documents.html import translate_page
from seq2see.documents.plain_text import translate_lines
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

Translate = Callable[[bytes, str, Job], bytes]
"""Takes a file's content and its name, for messages, and returns the new content."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of document. None needs more than seq2see itself."""

    name: str
    endings: tuple[str, ...]
    mime_type: str
    module: str
    """Where it is translated, in this package."""

    def load(self) -> Translate:
        """Return what translates it."""
        module = import_module(f"seq2see.documents.{self.module}")
        translate: Translate = module.translate
        return translate


_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


_FORMATS = (
    Format("txt", (".txt", ".text"), "text/plain", "text"),
    Format("html", (".html", ".htm"), "text/html", "html"),
    Format("srt", (".srt",), "application/x-subrip", "subtitles"),
    Format("vtt", (".vtt",), "text/vtt", "subtitles"),
    Format("po", (".po", ".pot"), "text/x-gettext-translation", "po"),
    Format("docx", (".docx",), _WORD, "docx"),
    Format("tmx", (".tmx",), "application/x-tmx+xml", "tmx"),
    Format("xliff", (".xlf", ".xliff"), "application/xliff+xml", "xliff"),
)


UNREADABLE = {
    *(".doc", ".docm", ".dot", ".dotx", ".rtf", ".odt", ".ott", ".fodt", ".pages"),
    *(".xls", ".xlsm", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".odg"),
    *(".pdf", ".ps", ".xps", ".djvu", ".epub", ".mobi", ".azw3"),
}
"""Endings of documents that are not read here; some of them would pass for lines of text."""


def formats() -> tuple[Format, ...]:
    """Return the formats that are known."""
    return _FORMATS


def format_of(path: Path, name: str | None = None) -> Format:
    """Return a format by its name, or by the ending of a file."""
    wanted = name if name is not None else path.suffix.lower()
    for one in _FORMATS:
        if wanted == one.name or (name is None and wanted in one.endings):
            return one
    what = f"`{name}`" if name is not None else f"{path}"
    known = ", ".join(one.name for one in _FORMATS)
    raise InputError(f"a document must be one of {known}, but is {what} instead")


def refuse_unreadable(path: Path) -> None:
    """Raise an error if a file is a document that is of none of the formats, by its ending."""
    if path.suffix.lower() in UNREADABLE:
        known = ", ".join(ending for one in _FORMATS for ending in one.endings)
        what = f"must be one of {known}, but is {path.suffix} instead: convert it first"
        raise InputError(f"{path} {what}")


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
