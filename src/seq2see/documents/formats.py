"""The formats that can be translated, and who does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from seq2see.documents.job import Job
from seq2see.errors import InputError

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
