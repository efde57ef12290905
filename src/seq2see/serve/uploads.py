"""Files on their way through: what may come in, and where the results wait to be fetched.

A result's name is drawn by us and looked up in a table, so no name that a client sends ever
becomes a path.
"""

from __future__ import annotations

import io
import re
import secrets
import tempfile
import threading
import time
import zipfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from seq2see.serve.problems import Invalid, NotFound

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
