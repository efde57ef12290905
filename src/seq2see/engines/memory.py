"""Memory that a program keeps: what was freed, for what comes next, and what stays to the end."""

from __future__ import annotations

import ctypes
import gc
import mmap
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's mallopt
_LARGEST = 1 << 30
"""What has more bytes does not come from the heap."""


@cache
def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next tensor of the size; elsewhere do nothing.

    Fresh pages cost more than most of what is written to them. Threads that start later share the
    main heap: those that they would have of their own go back to the system once they are empty,
    whatever the thresholds are, and hold nothing above 64 MB.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        _ask_for_large_pages(libc)


def _ask_for_large_pages(libc: ctypes.CDLL) -> None:
    """Ask Linux for large pages where the heap will grow, to look fewer addresses up.

    The heap grows at once, and is given back: what it takes is addresses, not memory. Where there
    are not so many, nothing is asked for.
    """
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = _LARGEST - mmap.PAGESIZE
    if start := libc.malloc(size):
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        libc.madvise(first, start + size - first, mmap.MADV_HUGEPAGE)
        libc.free(start)


def keep_what_is_loaded() -> None:
    """Take all that there is now from Python's collector, for a program that has loaded its models.

    Torch brings half a million objects along. A full pass over them stops every thread for a tenth
    of a second, once in some thousand lines.
    """
    gc.freeze()


@contextmanager
def sparing_what_is_loaded() -> Iterator[None]:
    """Do the same until some long work is done; then the collector has all of it again.

    For one work at a time: whoever did so again and again would leave it nothing to collect.
    """
    gc.collect()  # what is garbage now would stay until then
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
