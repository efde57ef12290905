"""CPU specifics: fast matrix products, memory and garbage collection settings, number of cores.

On a CPU, oneDNN multiplies matrices that are as wide as a vocabulary in five sixths of the time of
the library that torch uses by default. Torch exposes it under operators for its own compiler, which
compute no gradients.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor

# N rows, I inputs, O outputs


@torch.no_grad()
def matmul(x_NI: Tensor, weight_IO: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x · weight + bias, [N, O]."""
    if supports_onednn(x_NI, weight_IO) and len(x_NI) > 0:
        return _linear(x_NI, weight_IO.t(), bias_O)
    return x_NI @ weight_IO if bias_O is None else torch.addmm(bias_O, x_NI, weight_IO)


class PackedLinear:
    """x · weightᵀ + bias for many x: the weights lie in the order in which the kernel reads them.

    To put them there takes about as long as the product gains with 250 rows.
    """

    @torch.no_grad()
    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        self._bias_O = bias_O

    @torch.no_grad()
    def __call__(self, x_NI: Tensor) -> Tensor:
        """Return the product, [N, O]."""
        return _linear(x_NI, self._packed, self._bias_O)


def supports_onednn(*tensors: Tensor) -> bool:
    """Whether oneDNN multiplies these."""
    return torch.backends.mkldnn.is_available() and all(
        tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors
    )


def _linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")
    return result


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of glibc's mallopt


_LARGEST = 1 << 30
"""What has more bytes does not come from the heap."""


@cache
def tune_malloc() -> None:
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


def freeze_gc() -> None:
    """Take all that there is now from Python's collector, for a program that has loaded its models.

    Torch brings half a million objects along. A full pass over them stops every thread for a tenth
    of a second, once in some thousand lines.
    """
    gc.freeze()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Do the same until some long work is done; then the collector has all of it again.

    For one work at a time: whoever did so again and again would leave it nothing to collect.
    """
    gc.collect()  # what is garbage now would stay until then
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def count_available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(threads: int | None) -> int:
    """Return how many threads to use: as many as are wanted, or one a core that we may have."""
    return threads or len(os.sched_getaffinity(0))
