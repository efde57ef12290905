"""Reading of files that may be hostile: pipes, devices and files of any size.

Opening a pipe waits for a writer, and a device such as /dev/zero never ends. The functions here
raise an OSError instead.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_READ_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
"""Windows lacks the first two, and needs the last one."""


def open_regular_file(path: Path, max_bytes: int | None = None) -> BufferedReader:
    """Open a file for reading.

    Raises OSError if it is not a regular file or has more than `max_bytes`.
    """
    descriptor = os.open(path, _READ_FLAGS)
    if problem := _find_problem(os.fstat(descriptor), max_bytes):
        os.close(descriptor)
        raise OSError(errno.EINVAL, problem, str(path))
    return os.fdopen(descriptor, "rb")


def _find_problem(status: os.stat_result, max_bytes: int | None) -> str | None:
    if stat.S_ISDIR(status.st_mode):
        return os.strerror(errno.EISDIR)
    if not stat.S_ISREG(status.st_mode):
        return "it is a pipe or a device, not a file"
    if max_bytes is not None and status.st_size > max_bytes:
        return f"it has {status.st_size:,} bytes, but may have at most {max_bytes:,}"
    return None


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file.

    Raises OSError if it cannot be read, is not a regular file or has more than `max_bytes`.
    """
    with open_regular_file(path, max_bytes) as file:
        return file.read(max_bytes)  # the file may grow meanwhile


def check_regular_file(path: Path, max_bytes: int | None = None) -> None:
    """Raise OSError if the file cannot be opened, is not regular or has more than `max_bytes`."""
    open_regular_file(path, max_bytes).close()
