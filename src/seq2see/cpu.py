"""CPU specifics: fast matrix products, memory allocation, garbage collection, number of threads,
size of the memory.

On a CPU, oneDNN multiplies matrices that are as wide as a vocabulary in five sixths of the time of
the library that torch uses by default. Torch exposes it through operators for its own compiler,
which compute no gradients.
"""

from __future__ import annotations

import ctypes
import gc
import math
import mmap
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

# N rows, I inputs, O outputs

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # parameters of glibc's mallopt
_CGROUP_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
MAX_THREADS = 1024
"""Maximum number of CPU threads of a process."""
_MAX_HEAP_BLOCK = 1 << 30
"""Larger blocks of memory, in bytes, are not allocated on the heap."""


@cache
def tune_malloc() -> None:
    """Make glibc reuse freed memory for later tensors instead of returning it to the system.

    New pages cost more than most of what is written to them. Threads that start later share the
    main heap: the arenas that they would otherwise get are returned to the system as soon as they
    are empty, regardless of the thresholds, and hold no block above 64 MB. Does nothing with other
    C libraries.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_ARENA_MAX, 1)
        libc.mallopt(_MMAP_THRESHOLD, _MAX_HEAP_BLOCK)
        libc.mallopt(_TRIM_THRESHOLD, (1 << 31) - 1)
        _request_huge_pages(libc)


def _request_huge_pages(libc: ctypes.CDLL) -> None:
    """Ask Linux for huge pages in the future heap, which reduces address lookups.

    The heap grows at once and is freed again, which reserves addresses but no memory. Does nothing
    if there is not enough address space.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    size = _MAX_HEAP_BLOCK - mmap.PAGESIZE
    if start := libc.malloc(size):
        first_page = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        libc.madvise(first_page, start + size - first_page, mmap.MADV_HUGEPAGE)
        libc.free(start)


def freeze_gc() -> None:
    """Exclude all objects that exist now from garbage collection; call it after loading models.

    Torch creates half a million objects. A full collection of them stops every thread for a tenth
    of a second, about once in a thousand lines.
    """
    gc.freeze()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Exclude all objects that exist now from garbage collection inside the `with` block.

    Use it around one long task: `gc.freeze` and `gc.unfreeze` act on the whole process.
    """
    gc.collect()  # otherwise present garbage would stay until the end of the block
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def find_memory_size() -> float:
    """Return the memory that this process may use, in bytes, with swap space; infinity if unknown.

    It is that of the machine, or the limit of its container.
    """
    limits = [math.inf]
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):  # not a number: no limit
            limits.append(int(Path(path).read_text("ascii")))
    with suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        columns = (line.split() for line in lines)
        sizes = {name: int(size) << 10 for name, size, *_ in columns}
        limits.append(sizes["MemTotal:"] + sizes.get("SwapTotal:", 0))
    return min(limits)


def count_available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve_threads(threads: int | None) -> int:
    """Return the number of threads to use; None means one per available core."""
    return threads or count_available_cores()


@torch.no_grad()
def matmul(x_NI: Tensor, weight_IO: Tensor, bias_O: Tensor | None = None) -> Tensor:
    """Return x · weight + bias, [N, O], computed by oneDNN where it is available."""
    if can_multiply_with_onednn(x_NI, weight_IO) and len(x_NI) > 0:
        return _linear(x_NI, weight_IO.t(), bias_O)
    return x_NI @ weight_IO if bias_O is None else torch.addmm(bias_O, x_NI, weight_IO)


class PackedLinear:
    """Computes x · weightᵀ + bias with weights that are stored in the layout of the oneDNN kernel.

    Packing the weights takes about as long as is saved by a product with 250 rows.
    """

    @torch.no_grad()
    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None = None) -> None:
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight_OI)
        self._bias_O = bias_O

    @torch.no_grad()
    def __call__(self, x_NI: Tensor) -> Tensor:
        """Return the product, [N, O]."""
        return _linear(x_NI, self._packed, self._bias_O)


@cache
def _has_onednn_operators() -> bool:
    operators = torch.ops.mkldnn
    names = "_linear_pointwise", "_reorder_linear_weight"
    is_available: bool = torch.backends.mkldnn.is_available()
    return is_available and all(hasattr(operators, name) for name in names)


def can_multiply_with_onednn(*tensors: Tensor) -> bool:
    """Return whether oneDNN can multiply these tensors."""
    return _has_onednn_operators() and all(
        tensor.device.type == "cpu" and tensor.dtype == torch.float32 for tensor in tensors
    )


def _linear(x_NI: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x_NI, weight_OI, bias_O, "none", [], "")
    return result
