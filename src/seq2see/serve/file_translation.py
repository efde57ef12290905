"""Translates uploaded files: checks them, finds their language, stores the results for download."""

from __future__ import annotations

import io
import re
import secrets
import tempfile
import threading
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, cast
from urllib.parse import quote

from seq2see.documents import formats, html
from seq2see.documents.document_translator import DocumentReport, Job
from seq2see.documents.translate import format_of
from seq2see.errors import Seq2SeeError
from seq2see.serve.errors import Failed, Invalid, NotFound, UnknownFormat
from seq2see.serve.queued_translator import ENGINE_FAILED
from seq2see.translator import TranslationOptions, Translator

_NAMING = ("tmx", "xliff")
"""Formats that say themselves what is in which language."""


def words_of_page(page: str) -> str:
    """Return what would be translated of a page, or much of it: enough to tell its language."""
    return _heard(lambda job: html.translate_page(page, job), "en", "en")


def words_of_file(
    content: bytes, name: str, languages: Sequence[str], target: str
) -> dict[str, str]:
    """Return what would be translated of a file, by the languages that it may be in."""
    kind = format_of(Path(name))
    read = kind.load()
    found: dict[str, str] = {}
    problem: Seq2SeeError | None = None
    for language in languages if kind.name in _NAMING else languages[:1]:
        try:
            found[language] = _heard(lambda job: read(content, name, job), language, target)
        except Seq2SeeError as error:
            problem = error
    if problem and not found:
        raise Invalid(f"Invalid request: {problem}")
    if kind.name not in _NAMING:
        return dict.fromkeys(languages, found[languages[0]])
    return {language: words for language, words in found.items() if words} or found


class _Heard(Exception):  # noqa: N818 it carries an answer
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines


class _Ear:
    """In the place of a translator: gives up with what it should translate."""

    def __init__(self, *languages: str) -> None:
        self.languages = languages

    def translate(self, lines: Sequence[str], *_: object, **__: object) -> NoReturn:
        raise _Heard(lines)


def _heard(read: Callable[[Job], object], source: str, target: str) -> str:
    try:
        read(Job(cast("Translator", _Ear(source, target))))
    except _Heard as heard:
        return "\n".join(heard.lines)
    return ""


def translate_file(
    translator: Translator, content: bytes, name: str, options: TranslationOptions
) -> tuple[bytes, int]:
    """Translate a file, and tell how many sentences could not be; if none could, that is an error.

    What is wrong with it is the sender's to know.
    """
    job = Job(translator, options)
    try:
        translated = format_of(Path(name)).load()(content, name, job)
    except Seq2SeeError as error:
        raise Invalid(f"Invalid request: {error}") from None
    _refuse_failure(job.report)
    return translated, len(job.report.errors)


def _refuse_failure(report: DocumentReport) -> None:
    errors = [finding.what for finding in report.errors]
    if not errors or len(errors) < report.sentences:
        return
    if ENGINE_FAILED in errors:
        raise Failed("Cannot translate file: the engine failed on it")
    raise Invalid(f"Cannot translate file: {errors[0]}")


def refuse_file(content: bytes, name: str, limit: int) -> None:
    """Refuse what is not one of the formats, or unpacks to more than the limit."""
    if Path(name).suffix.lower() not in suffixes():
        endings = ", ".join(suffixes())
        raise UnknownFormat(f"Invalid request: file format not supported; try {endings}")
    refuse_bombs(content, limit)


def suffixes() -> list[str]:
    """Return the kinds of files that can be translated."""
    return [ending for one in formats() for ending in one.endings]


_MOST_MEMBERS = 2000


_MOST_FILES = 1000
"""Results that are kept; the oldest goes first."""


_ODD = re.compile(r"[^\w.\- ()]+")


@dataclass(frozen=True, slots=True)
class Result:
    """A translated file."""

    path: Path
    shown_name: str
    expires: float


class FileStore:
    """A folder of results, each for a while."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="seq2see-")
        self._seconds, self._most_bytes = seconds, most_bytes
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Result] = OrderedDict()

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return Path(self._folder.name)

    def keep(self, content: bytes, shown_name: str) -> str:
        """Keep a result and return the name by which it can be fetched."""
        suffix = Path(shown_name).suffix.lower()
        name = secrets.token_hex(16) + (suffix if re.fullmatch(r"\.[a-z0-9]{1,8}", suffix) else "")
        path = self.folder / name
        path.write_bytes(content)
        with self._lock:
            self._results[name] = Result(path, shown_name, time.monotonic() + self._seconds)
        self.sweep()
        return name

    def find(self, name: str) -> Result:
        """Return a result by the name that `keep` gave it."""
        self.sweep()
        with self._lock:
            result = self._results.get(name)
        if result is None:
            raise NotFound("Invalid filename")
        return result

    def sweep(self) -> None:
        """Remove what is over its time, and the oldest of what is too much."""
        now = time.monotonic()
        with self._lock:
            while self._results and self._is_over(next(iter(self._results.values())), now):
                _, oldest = self._results.popitem(last=False)
                oldest.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove everything."""
        self._folder.cleanup()

    def _is_over(self, oldest: Result, now: float) -> bool:
        if oldest.expires < now or len(self._results) > _MOST_FILES:
            return True
        sizes = (r.path.stat().st_size for r in self._results.values() if r.path.exists())
        return len(self._results) > 1 and sum(sizes) > self._most_bytes


def safe_name(name: str) -> str:
    """Return the last part of a name as somebody may read it: no path, no control characters."""
    last = re.split(r"[/\\]", name)[-1]
    return _ODD.sub("_", last).strip(". ")[-100:] or "file"


def translated_name(name: str, target: str) -> str:
    """Return a name that does not overwrite the source: LibreTranslate's, `letter_de.txt`."""
    path = Path(name)
    return f"{path.stem}_{target}{path.suffix}"


def disposition(name: str) -> str:
    """Return the header that lets a browser save a file, never show it."""
    return f"attachment; filename*=utf-8''{quote(name, safe='')}"


def refuse_bombs(content: bytes, limit: int) -> None:
    """Refuse an archive that unpacks to more than the limit.

    The sizes that an archive states are what Python unpacks at most, so they need not be true.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError):
        raise Invalid("Invalid request: the file is damaged") from None
    if len(members) > _MOST_MEMBERS or sum(member.file_size for member in members) > limit:
        raise Invalid(f"Invalid request: the file unpacks to more than {limit} bytes")
