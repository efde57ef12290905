"""Files and directories that are either complete or absent, and checksums of files.

They are written under a temporary name that ends in `.partial`, flushed to the disk and renamed. A
process that is killed at any time leaves the old content or the new one. A manifest in a directory
shows later whether any of its files has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seq2see.regular_files import open_regular_file, read_regular_file

MAX_MANIFEST_BYTES = 1 << 24
CAN_OPEN_DIRECTORIES = os.name != "nt"
REPLACE_SECONDS = 5.0
"""Time during which a file is replaced again and again while another program has it open."""
PARTIAL_SUFFIX = ".partial"
MANIFEST_FILE = "manifest.json"
"""Name of the file with the checksums of the other files of a directory."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces `path` when the block has succeeded.

    The file appears after all earlier writes in its directory. On an error, the temporary file is
    removed and `path` stays as it was.
    """
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    try:
        with flushed_file(partial):
            yield partial
        fsync_path(path.parent)
        replace_file(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    fsync_path(path.parent)


@contextmanager
def atomic_directory(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a new temporary directory that is renamed to `path` when the block has succeeded.

    Its name is unique, so that several processes may write the same directory. Missing parent
    directories are created. On an error, `path` stays as it was.

    Raises OSError if `path` is a directory with files and `replace` is not set.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(
        PARTIAL_SUFFIX, f"{path.name}.", path.parent, ignore_cleanup_errors=True
    ) as name:
        complete = Path(name, "complete")
        complete.mkdir()
        yield complete
        for content in (*complete.rglob("*"), complete):
            fsync_path(content)
        if replace and (path.exists() or path.is_symlink()):
            path.rename(Path(name, "replaced"))
        complete.rename(path)
        fsync_path(path.parent)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file to another name, and replace a file with this name.

    Windows does not replace a file that a program has open, for example a virus scanner; it is
    tried again for some seconds.
    """
    deadline = time.monotonic() + REPLACE_SECONDS
    while True:
        try:
            source.replace(target)
        except PermissionError:
            if CAN_OPEN_DIRECTORIES or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def flushed_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file that is flushed to the disk at the end of the block.

    It gets the default permissions of new files; safetensors sets stricter ones.
    """
    path.unlink(missing_ok=True)
    path.touch()
    mode = path.stat().st_mode
    yield path
    path.chmod(mode)
    fsync_path(path)


def fsync_path(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are written to the disk."""
    if not CAN_OPEN_DIRECTORIES and path.is_dir():
        return
    # Windows flushes only files that are open for writing.
    descriptor = os.open(path, os.O_RDONLY if CAN_OPEN_DIRECTORIES else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def compute_sha256(path: Path, max_bytes: int | None = None) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits.

    Raises OSError if it is not a regular file or has more than `max_bytes`.
    """
    with open_regular_file(path, max_bytes) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(directory: Path, content: Mapping[str, Any]) -> None:
    """Write the content and the checksums of all files of the directory. Call it last."""
    with atomic_write(directory / MANIFEST_FILE) as path:
        path.write_bytes(_format_manifest(directory, content))


def read_verified_manifest(directory: Path) -> dict[str, Any] | None:
    """Return the content of the manifest, or None if a byte of any file has changed."""
    try:
        data = read_regular_file(directory / MANIFEST_FILE, MAX_MANIFEST_BYTES)
        table = json.loads(data)
        sizes = {name: entry["bytes"] for name, entry in table["files"].items()}
        if sizes != {path.name: path.stat().st_size for path in _list_files(directory)}:
            return None  # before a file of any size is read
        content: dict[str, Any] = table["content"]
        return content if data == _format_manifest(directory, content) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _list_files(directory: Path) -> list[Path]:
    """Return the files that a manifest describes, sorted."""
    own_names = {MANIFEST_FILE, MANIFEST_FILE + PARTIAL_SUFFIX}
    return sorted(path for path in directory.iterdir() if path.name not in own_names)


def _format_manifest(directory: Path, content: Mapping[str, Any]) -> bytes:
    """Return the manifest as JSON. It contains a checksum of itself."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": compute_sha256(path)}
        for path in _list_files(directory)
    }
    manifest = {"content": content, "files": files}
    checksum = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "checksum": checksum}, indent=1).encode()
