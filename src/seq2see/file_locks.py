"""Locks of files and directories, which the system releases when the process ends.

A directory is locked itself where `fcntl` exists. Windows cannot open directories, so a file in it
is locked there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import portalocker

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

LOCK_FILE = ".lock"
"""File that stands for its directory where directories cannot be locked."""


def lock_file(file: IO[Any]) -> None:
    """Lock an open file; wait while another process holds the lock."""
    portalocker.lock(file, portalocker.LockFlags.EXCLUSIVE)


@contextmanager
def open_for_lock(directory: Path) -> Iterator[int]:
    """Yield a file descriptor that `try_lock` can lock; closing it releases the lock."""
    if fcntl is not None:
        descriptor = os.open(directory, os.O_RDONLY)
    else:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Lock an open file or directory and return True; return False if another process holds it.

    Returns True too if the file system does not support locks.
    """
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            flags = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
            portalocker.lock(descriptor, flags)
    except (BlockingIOError, portalocker.AlreadyLocked):
        return False
    except (OSError, portalocker.LockException):
        return True
    return True
