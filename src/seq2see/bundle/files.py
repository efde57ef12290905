"""Replaces all files of a model directory atomically.

`config.json` contains the checksum of each file. New files are written under temporary names that
contain their checksums. Renaming `config.json` replaces the old model by the new one; then the
other files get their final names. A reader that finds an outdated file uses the temporary one. A
writer that is killed at any time leaves a complete model, the old or the new one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from seq2see.atomic_files import PARTIAL_SUFFIX, compute_sha256, flushed_file, replace_file
from seq2see.errors import ConfigError, InputError, reading
from seq2see.regular_files import read_regular_file
from seq2see.text.tokenizer import TOKENIZER_FILES

CONFIG_FILE, CARD_FILE, WEIGHTS_FILE = "config.json", "README.md", "model.safetensors"
RUN_FILE = "run.json"
"""File that a training run writes at its start; the model is written at its end."""
DAMAGED_HINT = "copy the whole model directory again"
"""Advice in errors about damaged files."""

MAX_CONFIG_BYTES = 1 << 24
"""Maximum size of `config.json`."""

_LEFTOVER = re.compile(
    r"(model\.safetensors|(tokenizer|source|target)\.model)\.[0-9a-f]{16}"
    r"|(config\.json|README\.md|model\.safetensors|(tokenizer|source|target)\.model)\.partial"
)

FileWriter = Callable[[Path], object]


def read_config_bytes(directory: Path) -> bytes:
    """Return the content of `config.json`.

    Raises:
        InputError: If the directory is not a model directory.
    """
    if not directory.is_dir():
        problem = "is a file" if directory.exists() else "does not exist"
        raise InputError(f"`{directory}` {problem}: give a model directory")
    try:
        return read_regular_file(directory / CONFIG_FILE, MAX_CONFIG_BYTES)
    except FileNotFoundError:
        if (directory / RUN_FILE).exists():
            command = f"seq2see train RECIPE -o {directory} --resume"
            raise InputError(
                f"`{directory}` is a run that has not finished: continue it with `{command}`"
            ) from None
        raise InputError(
            f"`{directory}` must be a model directory, but has no {CONFIG_FILE}"
        ) from None
    except OSError as error:
        raise InputError(f"`{directory / CONFIG_FILE}` cannot be read: {error.strerror}") from None


def stat_config_file(directory: Path) -> tuple[int, int] | None:
    """Return a value that changes with every save, or None if there is no `config.json`.

    It also changes if the same model is saved again.
    """
    try:
        status = (directory / CONFIG_FILE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def find_file_by_checksum(
    directory: Path, name: str, checksum: str, max_bytes: int | None = None
) -> Path:
    """Return the path of the file with this checksum: its final or its temporary name.

    Raises:
        InputError: If the file is missing, has more than `max_bytes` or has another checksum.
    """
    path = directory / name
    with reading(f"`{path}`"):
        for candidate in (_temporary_path(directory, name, checksum), path):  # order of the rename
            with suppress(FileNotFoundError):  # it may have been renamed just now
                if compute_sha256(candidate, max_bytes) == checksum:
                    return candidate
    if not os.path.lexists(path):
        raise InputError(f"`{path}` is missing: {DAMAGED_HINT}")
    raise InputError(f"`{path}` is damaged or was replaced, its checksum is wrong: {DAMAGED_HINT}")


@contextmanager
def error_context(path: Path) -> Iterator[None]:
    """Add the path of the file to errors that are raised inside the `with` block."""
    try:
        yield
    except (ConfigError, InputError, SafetensorError) as error:
        raise InputError(f"`{path}` cannot be used: {error}; {DAMAGED_HINT}") from None


def write_temporary_and_checksum(directory: Path, name: str, write: FileWriter) -> str:
    """Write a file under its temporary name, and return its checksum."""
    with flushed_file(directory / f"{name}{PARTIAL_SUFFIX}") as path:
        write(path)
    checksum = compute_sha256(path)
    path.replace(_temporary_path(directory, name, checksum))
    return checksum


def rename_to_final_names(directory: Path, checksums: Mapping[str, str]) -> None:
    """Rename temporary files to their final names, and remove tokenizers of the old model."""
    for name, checksum in checksums.items():
        replace_file(_temporary_path(directory, name, checksum), directory / name)
    for name in {*TOKENIZER_FILES} - {*checksums}:
        (directory / name).unlink(missing_ok=True)


def remove_leftovers(directory: Path, checksums: Iterable[tuple[str, str]]) -> None:
    """Remove temporary files of interrupted saves, except those with the given checksums."""
    used = {_temporary_path(directory, name, checksum) for name, checksum in checksums}
    for path in directory.iterdir():
        if _LEFTOVER.fullmatch(path.name) and path not in used:
            path.unlink(missing_ok=True)


def _temporary_path(home: Path, name: str, checksum: str) -> Path:
    return home / f"{name}.{checksum[:16]}"
