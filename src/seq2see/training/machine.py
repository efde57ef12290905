"""What this machine gives to a run: cores, threads, devices."""

from __future__ import annotations

import os

import torch

ENOUGH = 1024
"""Tokens of a batch for each worker: with fewer they wait for each other more than they compute."""


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of(wanted: int | None, processes: int, free: bool = True) -> int:
    """Return the threads of each of so many processes on this machine.

    What the recipe wants comes first, then what OMP_NUM_THREADS says, as everywhere. Unless it is
    `free`, torchrun has started them, and sets that to 1 of its own accord.
    """
    stated = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted is None and stated.isdecimal() and int(stated) and (free or stated != "1"):
        wanted = int(stated)
    return wanted or max(1, cores() // processes)


def workers_of(wanted: int | None, batch_tokens: int) -> int:
    """Return how many workers to start here: as wanted, or one a device, or one a core.

    On a CPU each has enough tokens of a batch to be busy.
    """
    if wanted:
        return wanted
    if torch.accelerator.is_available():
        return torch.accelerator.device_count()
    return max(1, min(cores(), batch_tokens // ENOUGH))


def started() -> int:
    """Return how many workers torchrun has started on all machines; 0 if it has not."""
    return int(os.environ.get("WORLD_SIZE", "0"))


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
