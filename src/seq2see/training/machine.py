"""What this machine gives to a run: cores, threads, devices."""

from __future__ import annotations

import os

import torch


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of(wanted: int | None, processes: int) -> int:
    """Return the threads of each of so many processes on this machine.

    What the recipe wants comes first, then what OMP_NUM_THREADS says, as everywhere.
    """
    stated = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted is None and stated.isdecimal() and int(stated):
        wanted = int(stated)
    return wanted or max(1, cores() // processes)


def workers_of(wanted: int | None) -> int:
    """Return how many workers to start here: as wanted, or one a device, or one a core."""
    if wanted:
        return wanted
    return torch.accelerator.device_count() if torch.accelerator.is_available() else cores()


def own_device() -> torch.device:
    """Return where this worker computes."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0"))
    torch.accelerator.set_device_index(index)
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return torch.device(kind.type, index)


def precision_of(wanted: str, device: torch.device) -> torch.dtype:
    """Return the type of matrix products."""
    if wanted == "auto":
        has_it = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if has_it else torch.float32
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32
