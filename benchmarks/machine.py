"""Timing, and the matrix product that measures the peak speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def matmul_work(size: int = 2048) -> tuple[Callable[[], object], float]:
    """Return a float32 matrix product to time, and its number of floating-point operations."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    return (lambda: torch.mm(a, b, out=out)), 2.0 * size**3
