"""Files that change together, or not at all, whenever the writer is killed.

`config.json` names the checksum of each file. New files are first written aside, under names with
their checksums. The renaming of `config.json` is the one moment at which the new model replaces the
old; then the others get their usual names. Who reads in between finds them aside.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from seq2see.errors import ConfigError, InputError

CONFIG, CARD, WEIGHTS = "config.json", "README.md", "model.safetensors"
JOINT, SOURCE, TARGET = "tokenizer.model", "source.model", "target.model"
RUN = "run.json"
"""What a training run has from its beginning on; the model comes at its end."""

AGAIN = "copy the whole model directory again"
"""What to do about damage."""

_LEFTOVER = re.compile(
    r"(model\.safetensors|(tokenizer|source|target)\.model)\.[0-9a-f]{16}"
    r"|(config\.json|README\.md|model\.safetensors|(tokenizer|source|target)\.model)(\.partial)+"
)

Writer = Callable[[Path], object]


def read_config(home: Path) -> bytes:
    """Return the content of `config.json`."""
    if not home.is_dir():
        what = "is a file" if home.exists() else "is not there"
        raise InputError(f"`{home}` {what}: give the directory of a model")
    try:
        return (home / CONFIG).read_bytes()
    except FileNotFoundError:
        if (home / RUN).exists():
            again = f"seq2see train RECIPE -o {home} --resume"
            raise InputError(
                f"`{home}` is a run that has not finished: `{again}` goes on"
            ) from None
        raise InputError(f"`{home}` must be a model directory, but has no {CONFIG}") from None
    except OSError as error:
        raise InputError(f"`{home / CONFIG}` cannot be read: {error.strerror}") from None


def config_stamp(home: Path) -> tuple[int, int] | None:
    """Return what changes with every save, even of the same model as the one before the last."""
    try:
        status = (home / CONFIG).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def find(home: Path, name: str, checksum: str) -> Path:
    """Return where a file is: under its usual name, or still aside."""
    path = home / name
    try:
        for candidate in (_aside(home, name, checksum), path):  # the way that it is renamed
            if _has(candidate, checksum):
                return candidate
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}") from None
    if not path.exists():
        raise InputError(f"`{path}` is missing: {AGAIN}")
    raise InputError(f"`{path}` is damaged or replaced, for its checksum is another: {AGAIN}")


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Say of which file an error speaks."""
    try:
        yield
    except (ConfigError, InputError, SafetensorError) as error:
        raise InputError(f"`{path}` cannot be used: {error}; {AGAIN}") from None


def put_aside(home: Path, name: str, write: Writer) -> str:
    """Write a file where no reader takes it for the old one, and return its checksum."""
    path = home / f"{name}.partial"
    write_readable(path, write)
    flush(path)
    checksum = _checksum(path)
    path.replace(_aside(home, name, checksum))
    return checksum


def write_readable(path: Path, write: Writer) -> None:
    """Write a file that may be read by whoever may read new files here; safetensors lets nobody."""
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode
    write(path)
    path.chmod(mode)


def replace(path: Path, text: str) -> None:
    """Put a text in the place of a file, at once, and behind all that was done before."""
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(text, "utf-8", newline="\n")
    flush(aside)
    flush(path.parent)
    aside.replace(path)
    flush(path.parent)


def rename(home: Path, checksums: Mapping[str, str]) -> None:
    """Give the files that stand aside their usual names, and remove those of another model."""
    for name, checksum in checksums.items():
        _aside(home, name, checksum).replace(home / name)
    for name in {JOINT, SOURCE, TARGET} - set(checksums):
        (home / name).unlink(missing_ok=True)


def sweep(home: Path, checksums: Iterable[tuple[str, str]]) -> None:
    """Remove what this save or one that was killed has left aside, except what is in use."""
    used = {_aside(home, name, checksum) for name, checksum in checksums}
    for path in home.iterdir():
        if _LEFTOVER.fullmatch(path.name) and path not in used:
            path.unlink(missing_ok=True)


def _aside(home: Path, name: str, checksum: str) -> Path:
    return home / f"{name}.{checksum[:16]}"


def _has(path: Path, checksum: str) -> bool:
    try:
        return _checksum(path) == checksum
    except FileNotFoundError:  # never there, or renamed in this moment
        return False


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Wait until a file, or the names in a directory, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
