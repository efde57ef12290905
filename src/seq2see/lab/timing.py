"""How long something takes: the least of several times, which other programs disturb least."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the least time over some runs, behind one that warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
