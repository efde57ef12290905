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

CONFIG_FILE, CARD_FILE, WEIGHTS_FILE = "config.json", "README.md", "model.safetensors"
JOINT_TOKENIZER_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE = (
    "tokenizer.model",
    "source.model",
    "target.model",
)
RUN_FILE = "run.json"
"""What a training run has from its beginning on; the model comes at its end."""

DAMAGED_HINT = "copy the whole model directory again"
"""What to do about damage."""

_LEFTOVER = re.compile(
    r"(model\.safetensors|(tokenizer|source|target)\.model)\.[0-9a-f]{16}"
    r"|(config\.json|README\.md|model\.safetensors|(tokenizer|source|target)\.model)(\.partial)+"
)

FileWriter = Callable[[Path], object]


def read_config(directory: Path) -> bytes:
    """Return the content of `config.json`."""
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "is not there"
        raise InputError(f"`{directory}` {what}: give the directory of a model")
    try:
        return (directory / CONFIG_FILE).read_bytes()
    except FileNotFoundError:
        if (directory / RUN_FILE).exists():
            again = f"seq2see train RECIPE -o {directory} --resume"
            raise InputError(
                f"`{directory}` is a run that has not finished: `{again}` goes on"
            ) from None
        raise InputError(
            f"`{directory}` must be a model directory, but has no {CONFIG_FILE}"
        ) from None
    except OSError as error:
        raise InputError(f"`{directory / CONFIG_FILE}` cannot be read: {error.strerror}") from None


def read_config_stamp(directory: Path) -> tuple[int, int] | None:
    """Return what changes with every save, even of the same model as the one before the last."""
    try:
        status = (directory / CONFIG_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def find_file(directory: Path, name: str, checksum: str) -> Path:
    """Return where a file is: under its usual name, or still aside."""
    path = directory / name
    try:
        for candidate in (_aside(directory, name, checksum), path):  # the way that it is renamed
            if _has(candidate, checksum):
                return candidate
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}") from None
    if not path.exists():
        raise InputError(f"`{path}` is missing: {DAMAGED_HINT}")
    raise InputError(
        f"`{path}` is damaged or replaced, for its checksum is another: {DAMAGED_HINT}"
    )


@contextmanager
def error_context(path: Path) -> Iterator[None]:
    """Say of which file an error speaks."""
    try:
        yield
    except (ConfigError, InputError, SafetensorError) as error:
        raise InputError(f"`{path}` cannot be used: {error}; {DAMAGED_HINT}") from None


def write_temporary(directory: Path, name: str, write: FileWriter) -> str:
    """Write a file where no reader takes it for the old one, and return its checksum."""
    path = directory / f"{name}.partial"
    write_with_default_mode(path, write)
    fsync_path(path)
    checksum = _checksum(path)
    path.replace(_aside(directory, name, checksum))
    return checksum


def write_with_default_mode(path: Path, write: FileWriter) -> None:
    """Write a file that may be read by whoever may read new files here; safetensors lets nobody."""
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode
    write(path)
    path.chmod(mode)


def atomic_write(path: Path, text: str) -> None:
    """Put a text in the place of a file, at once, and behind all that was done before."""
    aside = path.with_name(f"{path.name}.partial")
    aside.write_text(text, "utf-8", newline="\n")
    fsync_path(aside)
    fsync_path(path.parent)
    aside.replace(path)
    fsync_path(path.parent)


def publish_files(directory: Path, checksums: Mapping[str, str]) -> None:
    """Give the files that stand aside their usual names, and remove those of another model."""
    for name, checksum in checksums.items():
        _aside(directory, name, checksum).replace(directory / name)
    for name in {JOINT_TOKENIZER_FILE, SOURCE_TOKENIZER_FILE, TARGET_TOKENIZER_FILE} - set(
        checksums
    ):
        (directory / name).unlink(missing_ok=True)


def remove_leftovers(directory: Path, checksums: Iterable[tuple[str, str]]) -> None:
    """Remove what this save or one that was killed has left aside, except what is in use."""
    used = {_aside(directory, name, checksum) for name, checksum in checksums}
    for path in directory.iterdir():
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


def fsync_path(path: Path) -> None:
    """Wait until a file, or the names in a directory, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
