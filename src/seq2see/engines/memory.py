"""Keeping memory that was freed: fresh pages cost more than most of what is written to them."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_freed_memory() -> None:
    """Let glibc keep what is freed, for the next tensor of the size; elsewhere do nothing."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
