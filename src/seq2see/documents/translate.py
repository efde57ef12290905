"""Translate files and HTML strings; the table of supported document formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from seq2see.documents.document_translator import DocumentReport, DocumentTranslator
from seq2see.documents.html import translate_html_text
from seq2see.documents.plain_text import translate_plain_text
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.progress import ProgressCallback
    from seq2see.translator import TranslationOptions, Translator

TranslateFunction = Callable[[bytes, str, DocumentTranslator], bytes]
"""Takes a file's content and its name, for messages, and returns the new content."""


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A kind of document. None needs more than seq2see itself."""

    name: str
    extensions: tuple[str, ...]
    mime_type: str
    module: str
    """Where it is translated, in this package."""

    def load_translate_function(self) -> TranslateFunction:
        """Return what translates it."""
        module = import_module(f"seq2see.documents.{self.module}")
        translate: TranslateFunction = module.translate
        return translate


_WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


_FORMATS = (
    DocumentFormat("txt", (".txt", ".text"), "text/plain", "plain_text"),
    DocumentFormat("html", (".html", ".htm"), "text/html", "html"),
    DocumentFormat("srt", (".srt",), "application/x-subrip", "subtitles"),
    DocumentFormat("vtt", (".vtt",), "text/vtt", "subtitles"),
    DocumentFormat("po", (".po", ".pot"), "text/x-gettext-translation", "po"),
    DocumentFormat("docx", (".docx",), _WORD, "docx"),
    DocumentFormat("tmx", (".tmx",), "application/x-tmx+xml", "tmx"),
    DocumentFormat("xliff", (".xlf", ".xliff"), "application/xliff+xml", "xliff"),
)


UNSUPPORTED_EXTENSIONS = {
    *(".doc", ".docm", ".dot", ".dotx", ".rtf", ".odt", ".ott", ".fodt", ".pages"),
    *(".xls", ".xlsm", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".odg"),
    *(".pdf", ".ps", ".xps", ".djvu", ".epub", ".mobi", ".azw3"),
}
"""Endings of documents that are not read here; some of them would pass for lines of text."""


def supported_formats() -> tuple[DocumentFormat, ...]:
    """Return the formats that are known."""
    return _FORMATS


def find_document_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return a format by its name, or by the ending of a file."""
    wanted = name if name is not None else path.suffix.lower()
    for one in _FORMATS:
        if wanted == one.name or (name is None and wanted in one.extensions):
            return one
    what = f"`{name}`" if name is not None else f"{path}"
    known = ", ".join(one.name for one in _FORMATS)
    raise InputError(f"a document must be one of {known}, but is {what} instead")


def check_document_extension(path: Path) -> None:
    """Raise an error if a file is a document that is of none of the formats, by its ending."""
    if path.suffix.lower() in UNSUPPORTED_EXTENSIONS:
        known = ", ".join(ending for one in _FORMATS for ending in one.extensions)
        what = f"must be one of {known}, but is {path.suffix} instead: convert it first"
        raise InputError(f"{path} {what}")


MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Bytes of the largest document that is read."""


def translate_document(
    translator: Translator,
    source: Path,
    target: Path,
    options: TranslationOptions | None = None,
    on_progress: ProgressCallback | None = None,
    *,
    format_name: str | None = None,
    keep_numbers: bool = False,
    overwrite: bool = False,
) -> DocumentReport:
    """Translate a file to another of the same format, which is written aside and then renamed.

    The format is known by the ending of the source unless it is named. `numbers` keeps numbers as
    they are; `overwrite` also translates what has a translation already (PO, TMX, XLIFF).
    `progress` is told how many sentences are done, and of how many.
    """
    translate = find_document_format(source, format_name).load_translate_function()
    data = _read(source)
    _refuse(target, source)
    job = DocumentTranslator(
        translator, options, keep_numbers=keep_numbers, overwrite=overwrite, on_progress=on_progress
    )
    _write(target, translate(data, str(source), job))
    return job.report


def translate_text(
    translator: Translator,
    text: str,
    options: TranslationOptions | None = None,
    *,
    keep_numbers: bool = False,
) -> str:
    """Translate a text line by line and sentence by sentence; all white space between stays."""
    return translate_plain_text(
        text, DocumentTranslator(translator, options, keep_numbers=keep_numbers)
    )


def translate_html(
    translator: Translator,
    html: str,
    options: TranslationOptions | None = None,
    *,
    keep_numbers: bool = False,
) -> str:
    """Translate a page or a fragment; its tags go where their words went."""
    return translate_html_text(
        html, DocumentTranslator(translator, options, keep_numbers=keep_numbers)
    )


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise InputError(f"{path} must have at most {MAX_DOCUMENT_BYTES >> 20} MB: split it")
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
