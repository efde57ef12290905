"""Translate files and HTML strings; the table of supported document formats."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from seq2see.atomic_files import atomic_write
from seq2see.documents.html_translation import parse_html
from seq2see.documents.parsed_document import (
    ContentT,
    DocumentReport,
    ParsedDocument,
    ParseFunction,
    select_units,
)
from seq2see.documents.plain_text_translation import parse_plain_text
from seq2see.documents.unit_translator import TextUnitTranslator
from seq2see.errors import InputError, reading, writing

if TYPE_CHECKING:
    from seq2see.progress_callbacks import ProgressCallback
    from seq2see.translator import TranslationOptions, Translator

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Maximum size of a document in bytes."""


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """A document format. No format needs optional dependencies."""

    name: str
    extensions: tuple[str, ...]
    mime_type: str
    module: str
    """Module of this package that has the function `parse` for the format."""

    def load_parser(self) -> ParseFunction:
        """Import the function that parses files of this format."""
        module = import_module(f"seq2see.documents.{self.module}")
        parse: ParseFunction = module.parse
        return parse


_DOCX_MIME_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_FORMATS = (
    DocumentFormat("txt", (".txt", ".text"), "text/plain", "plain_text_translation"),
    DocumentFormat("html", (".html", ".htm"), "text/html", "html_translation"),
    DocumentFormat("srt", (".srt",), "application/x-subrip", "subtitle_translation"),
    DocumentFormat("vtt", (".vtt",), "text/vtt", "subtitle_translation"),
    DocumentFormat("po", (".po", ".pot"), "text/x-gettext-translation", "po_translation"),
    DocumentFormat("docx", (".docx",), _DOCX_MIME_TYPE, "docx_translation"),
    DocumentFormat("tmx", (".tmx",), "application/x-tmx+xml", "tmx_translation"),
    DocumentFormat("xliff", (".xlf", ".xliff"), "application/xliff+xml", "xliff_translation"),
)
UNSUPPORTED_EXTENSIONS = {
    *(".doc", ".docm", ".dot", ".dotx", ".rtf", ".odt", ".ott", ".fodt", ".pages"),
    *(".xls", ".xlsm", ".xlsx", ".ods", ".numbers", ".ppt", ".pptx", ".odp", ".odg"),
    *(".pdf", ".ps", ".xps", ".djvu", ".epub", ".mobi", ".azw3"),
}
"""Extensions of documents that cannot be translated. Some of them could be decoded as text."""


def supported_formats() -> tuple[DocumentFormat, ...]:
    """Return all document formats that can be translated."""
    return _FORMATS


def find_document_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return the format with this name, or by default the format of the file extension.

    Raises InputError if there is no such format.
    """
    key = name if name is not None else path.suffix.lower()
    for document_format in _FORMATS:
        is_extension = name is None and key in document_format.extensions
        if key == document_format.name or is_extension:
            return document_format
    actual = f"`{name}`" if name is not None else f"{path}"
    names = ", ".join(document_format.name for document_format in _FORMATS)
    raise InputError(f"the document format must be one of {names}, but is {actual} instead")


def check_not_unsupported_document(path: Path) -> None:
    """Raise InputError if a file has the extension of an unsupported document format."""
    if path.suffix.lower() in UNSUPPORTED_EXTENSIONS:
        extensions = ", ".join(one for document in _FORMATS for one in document.extensions)
        raise InputError(
            f"{path} must be one of {extensions}, but is {path.suffix} instead: convert it first"
        )


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
    """Translate a file and write a file of the same format.

    The output is written to a temporary file that is renamed when it is complete.

    Args:
        translator: Translator, as returned by `seq2see.load`.
        source: File to translate.
        target: Output file, which may exist but must differ from `source`.
        options: Options of the translator.
        on_progress: Called with the number of translated sentences and their total number.
        format_name: Name of the document format. Default: the format of the file extension.
        keep_numbers: Whether no number of the source may be missing in the translation.
        overwrite: Whether to replace existing translations (PO, TMX, XLIFF).

    Raises InputError if the source cannot be read or the target cannot be written.
    """
    parse = find_document_format(source, format_name).load_parser()
    data = _read(source)
    _check_target(target, source)
    unit_translator = TextUnitTranslator(
        translator, options, keep_numbers=keep_numbers, on_progress=on_progress
    )
    document = select_units(
        parse(data, str(source)), unit_translator.languages, overwrite=overwrite
    )
    translated = translate_parsed_document(document, unit_translator)
    with writing(target), atomic_write(target) as partial:
        partial.write_bytes(translated.content)
    return translated.report


@dataclass(frozen=True, slots=True)
class TranslatedDocument(Generic[ContentT]):
    """The content of a translated document, and what is to be reported of it."""

    content: ContentT
    report: DocumentReport


def translate_parsed_document(
    document: ParsedDocument[ContentT], unit_translator: TextUnitTranslator
) -> TranslatedDocument[ContentT]:
    """Translate the units of a document and render it."""
    translations = unit_translator.translate(document.units)
    content = document.render(translations, unit_translator.languages)
    return TranslatedDocument(content, DocumentReport.from_translations(document, translations))


def translate_text(
    translator: Translator,
    text: str,
    options: TranslationOptions | None = None,
    *,
    keep_numbers: bool = False,
) -> str:
    """Translate a text line by line; white space between sentences and lines is preserved."""
    unit_translator = TextUnitTranslator(translator, options, keep_numbers=keep_numbers)
    return translate_parsed_document(parse_plain_text(text), unit_translator).content


def translate_html(
    translator: Translator,
    html: str,
    options: TranslationOptions | None = None,
    *,
    keep_numbers: bool = False,
) -> str:
    """Translate an HTML page or fragment; inline tags are placed by word alignment."""
    unit_translator = TextUnitTranslator(translator, options, keep_numbers=keep_numbers)
    return translate_parsed_document(parse_html(html), unit_translator).content


def _read(path: Path) -> bytes:
    with reading(path):
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            limit = MAX_DOCUMENT_BYTES >> 20
            raise InputError(f"{path} must have at most {limit} MB: split the document")
        return path.read_bytes()


def _check_target(target: Path, source: Path) -> None:
    """Raise InputError if the target cannot be written, before anything is translated."""
    if target.exists() and target.samefile(source):
        raise InputError(f"`target` must not be the source file, but both are {source}")
    if target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{target} cannot be written: name a file in an existing directory")
