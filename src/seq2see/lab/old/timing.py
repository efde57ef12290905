"""How long something takes: the least of several times, which other programs disturb least."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least time over some runs, behind one that warms up."""
    return _least(work, repeats, time.perf_counter)


def cpu_seconds(work: Callable[[], object], repeats: int = 15) -> float:
    """Return the least time of the processor, on one thread: fair beside other programs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _least(work, repeats, time.process_time)
    finally:
        torch.set_num_threads(threads)


def _least(work: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)
