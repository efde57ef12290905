"""Translates uploaded files: checks them, extracts their text, stores the results for download.

The name of a stored file is random and looked up in a table: a name that a client sends is never
used as a path.
"""

from __future__ import annotations

import re
import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from seq2see.documents import (
    Document,
    DocumentLanguages,
    TextUnitTranslator,
    UnitTranslation,
    parse_document,
    select_units,
)
from seq2see.errors import InputError, Seq2SeeError
from seq2see.markup.text_units import TextUnit
from seq2see.registries import check_extension_supported
from seq2see.serve.config import LimitsConfig
from seq2see.serve.errors import (
    ENGINE_FAILED_MESSAGE,
    BadRequest,
    EngineError,
    NotFound,
    TextTooLong,
    UnsupportedFileFormat,
)
from seq2see.translator import BlockTranslator, TranslationOptions

_MAX_STORED_FILES = 1000
"""Number of stored files; the oldest is removed first."""
_GROUP_CHARACTERS = 50_000
"""Characters of a file that are translated together. All their sentences are in memory."""
_UNSAFE_CHARACTERS = re.compile(r"[^\w.\- ()]+")


def parse_file(content: bytes, filename: str, limits: LimitsConfig) -> Document:
    """Parse a file.

    Raises:
        UnsupportedFileFormat: The extension is that of a format that is not supported.
        Seq2SeeError: The file is damaged or exceeds a limit.
    """
    try:
        check_extension_supported(Path(filename))
    except InputError as error:
        raise UnsupportedFileFormat(f"Invalid request: {error}") from None
    return parse_document(
        content,
        filename,
        max_uncompressed_bytes=limits.uncompressed_bytes,
        max_elements=limits.file_elements,
    )


def find_text_by_language(
    document: Document, languages: Sequence[str], target: str
) -> dict[str, str]:
    """Return the text to translate by each source language that a document may have.

    Only documents that state languages have different texts for different source languages.

    Raises:
        Seq2SeeError: The document cannot be read in any of the languages.
    """
    texts: dict[str, str] = {}
    problem: Seq2SeeError | None = None
    for language in languages:
        try:
            units = select_units(document, DocumentLanguages(language, target)).units
            texts[language] = join_unit_texts(units)
        except Seq2SeeError as error:
            problem = error
    if problem and not texts:
        raise problem
    return {language: text for language, text in texts.items() if text} or texts


def join_unit_texts(units: Sequence[TextUnit]) -> str:
    """Return the text of units, one per line."""
    return "\n".join(unit.text for unit in units)


def translate_uploaded_file(
    translator: BlockTranslator,
    document: Document,
    options: TranslationOptions,
    max_unit_characters: int,
) -> tuple[bytes, int]:
    """Translate a file and return it with the number of sentences that failed.

    Raises:
        TextTooLong: A line or paragraph has more than `max_unit_characters` characters.
        Seq2SeeError: The file is in another language, or its translation cannot be written.
        BadRequest: No sentence could be translated.
        EngineError: No sentence could be translated, and the engine failed.
    """
    unit_translator = TextUnitTranslator(translator, options)
    selected = select_units(document, unit_translator.languages)
    for unit in selected.units:
        if len(unit.text) > max_unit_characters:
            raise TextTooLong(
                f"{unit.location} has {len(unit.text):,} characters, but may have at most "
                f"{max_unit_characters:,}",
                max_unit_characters,
            )
    translations: list[UnitTranslation] = []
    errors: list[str] = []
    num_sentences = 0
    for units in _split_units(selected.units):
        for each in unit_translator.translate(units):
            num_sentences += len(each.sentences)
            failed = tuple(one for one in each.sentences if one.error is not None)
            errors += [one.error for one in failed if one.error is not None]
            # Other translations are not needed and would take much memory.
            translations.append(replace(each, sentences=failed))
    content = selected.render(translations, unit_translator.languages)
    if errors and len(errors) >= num_sentences:
        if ENGINE_FAILED_MESSAGE in errors:
            raise EngineError("Cannot translate file: the engine failed on it")
        raise BadRequest(f"Cannot translate file: {errors[0]}")
    return content, len(errors)


def _split_units(units: Sequence[TextUnit]) -> Iterator[list[TextUnit]]:
    """Yield consecutive units whose text has a limited length together."""
    group: list[TextUnit] = []
    num_characters = 0
    for unit in units:
        group.append(unit)
        num_characters += len(unit.text) + 1
        if num_characters >= _GROUP_CHARACTERS:
            yield group
            group, num_characters = [], 0
    yield group


def sanitize_filename(name: str) -> str:
    """Return the last part of a path without special characters, at most 100 characters."""
    last = re.split(r"[/\\]", name)[-1]
    return _UNSAFE_CHARACTERS.sub("_", last).strip(". ")[-100:] or "file"


@dataclass(frozen=True, slots=True)
class DownloadableFile:
    """A translated file that can be downloaded."""

    path: Path
    filename: str
    """Name of the file for the user."""
    num_bytes: int
    expires_at: float
    """In the time of `time.monotonic()`."""


class DownloadStore:
    """Stores translated files in a temporary directory for a limited time."""

    def __init__(self, seconds: float, max_bytes: int) -> None:
        self._temporary_directory = tempfile.TemporaryDirectory(
            prefix="seq2see-", ignore_cleanup_errors=True
        )
        self.directory = Path(self._temporary_directory.name)
        """The directory of the files."""
        self._seconds, self._max_bytes = seconds, max_bytes
        self._lock = threading.Lock()
        self._files: OrderedDict[str, DownloadableFile] = OrderedDict()

    def add(self, content: bytes, filename: str) -> str:
        """Store a file and return the random name under which it can be downloaded.

        Raises:
            OSError: The file cannot be written.
        """
        suffix = Path(filename).suffix.lower()
        name = secrets.token_hex(16) + (suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else "")
        path = self.directory / name
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # it may have been removed
        try:
            path.write_bytes(content)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        with self._lock:
            expires_at = time.monotonic() + self._seconds
            self._files[name] = DownloadableFile(path, filename, len(content), expires_at)
        self.remove_expired()
        return name

    def find(self, name: str) -> DownloadableFile:
        """Return a file by the name that `add` returned.

        Raises:
            NotFound: There is no such file, or it has expired.
        """
        self.remove_expired()
        with self._lock:
            stored = self._files.get(name)
        if stored is None or not stored.path.exists():
            raise NotFound("Invalid filename")
        return stored

    def remove_expired(self) -> None:
        """Remove expired files, and the oldest ones while there are too many files or bytes."""
        now = time.monotonic()
        with self._lock:
            while self._files and self._must_remove(next(iter(self._files.values())), now):
                _, oldest = self._files.popitem(last=False)
                oldest.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Delete all files and the directory."""
        self._temporary_directory.cleanup()

    def _must_remove(self, oldest: DownloadableFile, now: float) -> bool:
        if oldest.expires_at < now or len(self._files) > _MAX_STORED_FILES:
            return True
        num_bytes = sum(file.num_bytes for file in self._files.values())
        return len(self._files) > 1 and num_bytes > self._max_bytes
