"""What every benchmark needs to know of the machine it runs on."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable

import torch


def keep_freed_memory() -> None:
    """Let glibc keep what is freed: fresh pages cost more than most of what is written to them."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        trim_threshold, mmap_threshold = -1, -3
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, (1 << 31) - 1)


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def matmul_work(size: int = 2048) -> tuple[Callable[[], object], float]:
    """Return a float32 matrix product to be timed, and its floating-point operations."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    return (lambda: torch.mm(a, b, out=out)), 2.0 * size**3
