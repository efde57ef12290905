"""Translate documents: files and HTML strings."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Generic
from zipfile import BadZipFile, ZipFile, is_zipfile

from seq2see.atomic_files import atomic_write
from seq2see.documents.html import parse_html
from seq2see.documents.parsed_document import (
    ContentT,
    Document,
    DocumentReport,
    ParsedDocument,
    ParseFunction,
    select_units,
)
from seq2see.documents.unit_translator import TextUnitTranslator
from seq2see.errors import InputError, reading, writing
from seq2see.registries import find_document_format

if TYPE_CHECKING:
    from seq2see.progress_callbacks import ProgressCallback
    from seq2see.translator import TranslationOptions, Translator

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Maximum size of a document in bytes."""
MAX_ARCHIVE_BYTES = 512 * 1024 * 1024
"""Maximum uncompressed size of all files of a ZIP archive, such as a Word document, together."""
MAX_ARCHIVE_FILES = 10_000
"""Maximum number of files in a ZIP archive."""
MAX_COMPRESSION_RATIO = 200
"""Maximum compression ratio of a file of more than a megabyte in a ZIP archive."""


def parse_document(
    content: bytes,
    file_name: str,
    format_name: str | None = None,
    *,
    max_uncompressed_bytes: int = MAX_ARCHIVE_BYTES,
    max_elements: int | None = None,
) -> Document:
    """Parse the content of a file in a format, by default that of the file extension.

    Raises InputError if there is no such format, if the content is not valid, if it has more than
    `max_elements` lines and tags, or if it is a ZIP archive that could exhaust the memory.
    """
    document_format = find_document_format(Path(file_name), format_name)
    if is_zipfile(BytesIO(content)):
        _check_archive_size(content, file_name, max_uncompressed_bytes)
    module = import_module(f"seq2see.documents.{document_format.module}")
    if max_elements is not None:
        find_parts = getattr(module, "find_text_parts", lambda *arguments: [arguments[0]])
        num_elements = sum(map(_count_elements, find_parts(content, file_name)))
        if num_elements > max_elements:
            raise InputError(
                f"{file_name} must have at most {max_elements:,} lines and tags, "
                f"but has {num_elements:,}: split the document"
            )
    parse: ParseFunction = module.parse
    return parse(content, file_name)


def _count_elements(content: bytes) -> int:
    """Return the number of lines and tags, at most twice as many as there are."""
    return max(content.count(b"\n"), content.count(b"\r")) + content.count(b"<")


def read_document(path: Path, format_name: str | None = None) -> Document:
    """Read and parse a file in a format, by default that of its extension.

    Raises InputError if the file cannot be read or is not valid in the format.
    """
    find_document_format(path, format_name)  # before a large file is read
    with reading(path):
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            limit = MAX_DOCUMENT_BYTES >> 20
            raise InputError(f"{path} must have at most {limit} MB: split the document")
        content = path.read_bytes()
    return parse_document(content, str(path), format_name)


def _check_archive_size(content: bytes, file_name: str, max_bytes: int) -> None:
    """Raise InputError if an archive exceeds a limit.

    No format extracts more than the size that an archive states, so the stated sizes suffice.
    """
    try:
        with ZipFile(BytesIO(content)) as archive:
            infos = archive.infolist()
    except (BadZipFile, NotImplementedError, ValueError, OSError):
        return  # the function that parses the format raises an error
    total = sum(info.file_size for info in infos)
    exceeds_ratio = any(
        info.file_size > max(1 << 20, MAX_COMPRESSION_RATIO * info.compress_size) for info in infos
    )
    if len(infos) > MAX_ARCHIVE_FILES or total > max_bytes or exceeds_ratio:
        raise InputError(
            f"{file_name} must have at most {MAX_ARCHIVE_FILES:,} files and {max_bytes:,} "
            f"uncompressed bytes, and no file compressed more than {MAX_COMPRESSION_RATIO} times, "
            f"but has {len(infos):,} files and {total:,} bytes"
        )


def translate_document(
    translator: Translator,
    source: Path,
    target: Path,
    options: TranslationOptions | None = None,
    on_progress: ProgressCallback | None = None,
    *,
    format_name: str | None = None,
    overwrite: bool = False,
    document: Document | None = None,
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
        overwrite: Whether to replace existing translations (PO, TMX, XLIFF).
        document: The result of `read_document`, if the source was read already.

    Raises InputError if the source cannot be read or the target cannot be written.
    """
    document = document or read_document(source, format_name)
    _check_target(target, source)
    unit_translator = TextUnitTranslator(translator, options, on_progress=on_progress)
    selected = select_units(document, unit_translator.languages, overwrite=overwrite)
    translated = translate_parsed_document(selected, unit_translator)
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


def translate_html(
    translator: Translator,
    html: str,
    options: TranslationOptions | None = None,
) -> str:
    """Translate an HTML page or fragment; inline tags are placed by word alignment."""
    unit_translator = TextUnitTranslator(translator, options)
    return translate_parsed_document(parse_html(html), unit_translator).content


def _check_target(target: Path, source: Path) -> None:
    """Raise InputError if the target cannot be written, before anything is translated."""
    if target.exists() and target.samefile(source):
        raise InputError(f"`target` must not be the source file, but both are {source}")
    if target.is_dir() or not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(f"{target} cannot be written: name a file in an existing directory")
