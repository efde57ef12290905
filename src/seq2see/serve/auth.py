"""API keys, stored as hashes, and request rates per key or address.

The key file is TOML, with one table per key:

    [alice]
    sha256 = "…"
    requests_per_minute = 600   # optional

Keys are 32 random bytes, so a plain hash without salt is enough.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
import tomllib
from collections import OrderedDict
from pathlib import Path

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError, InputError
from seq2see.serve.errors import Forbidden, SlowDown

_MOST_CLIENTS = 10_000
"""Addresses whose rates are remembered; the one unheard of for longest is forgotten."""


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Key(Config):
    """A key, of which only the hash is known."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    requests_per_minute: int | None = Field(default=None, ge=0)
    """Its own rate; 0 sets none."""


class ApiKeys:
    """The keys of a file, which is read again when it changes. Without a file all may come in."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._stamp: object = None
        self._keys: dict[str, Key] = {}
        if path:
            self.refresh()

    @property
    def required(self) -> bool:
        """Whether a request needs a key."""
        return self._path is not None

    def refresh(self) -> None:
        """Read the file if it is another than before."""
        if self._path is None:
            return
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._keys = _read(self._path)
                self._stamp = stamp
        except OSError as error:
            raise InputError(f"`{self._path}` cannot be read: {error.strerror}") from None

    def owner(self, key: str | None) -> tuple[str, Key] | None:
        """Return whose key it is; None where no key is needed. A wrong one raises `Forbidden`."""
        if not self.required:
            return None
        if not key:
            raise Forbidden("Please contact the server operator to get an API key")
        digest = _digest(key)
        found = None
        for name, one in self._keys.items():  # every one of them, so that time tells nothing
            if hmac.compare_digest(digest, one.sha256):
                found = (name, one)
        if found is None:
            raise Forbidden("Invalid API key")
        return found


def add_key(path: Path, name: str) -> str:
    """Draw a key, add its hash to a file, and return the key: nobody can read it again."""
    if not _NAME.fullmatch(name):
        raise InputError(f"`name` must be letters, digits, - and _, but is {name!r} instead")
    if path.exists() and name in _read(path):
        raise InputError(f"`{path}` has a key of {name} already: take another name, or remove it")
    key = secrets.token_urlsafe(32)
    path.touch(mode=0o600)
    is_open = path.read_bytes()[-1:] not in {b"", b"\n"}  # an editor may leave the last line so
    start = "\n" if is_open else ""
    with path.open("a", encoding="utf-8") as file:
        file.write(f'{start}[{name}]\nsha256 = "{_digest(key)}"\n\n')
    return key


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, Key]:
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
        return {name: _key(name, table) for name, table in tables.items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
        raise InputError(f"`{path}` must be a file of keys: {error}") from None


def _key(name: str, table: object) -> Key:
    try:
        return Key.model_validate(table)
    except ConfigError as error:
        # Without the value: somebody may have put a key there, and this is logged.
        problems = [problem.partition(", but ")[0] for problem in error.problems]
        raise ConfigError([f"[{name}] {problem}" for problem in problems]) from None


class Rates:
    """A bucket of requests for each client, which fills up by its rate."""

    def __init__(self, requests_per_minute: int) -> None:
        self._usual = requests_per_minute
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def spend(self, client: str, requests_per_minute: int | None = None) -> None:
        """Count a request, or raise `SlowDown` if the client has none left."""
        rate = self._usual if requests_per_minute is None else requests_per_minute
        if not rate:
            return
        with self._lock:
            now = time.monotonic()
            left, since = self._buckets.pop(client, (float(rate), now))
            left = min(float(rate), left + (now - since) * rate / 60)
            self._buckets[client] = (left - 1 if left >= 1 else left, now)
            if len(self._buckets) > _MOST_CLIENTS:
                self._buckets.popitem(last=False)
        if left < 1:
            raise SlowDown(f"Slowdown: {rate} per 1 minute", (1 - left) * 60 / rate)
