"""Several batches at once on a CPU: a thread a core, and in each of them torch on one thread.

Torch's own threads share a single product, and those of a small model are too small for that: two
threads wait for each other longer than they work. Batches have nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crew:
    """So many workers, who start when they are first needed; all who call share them."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(
            count, "seq2see-torch", initializer=torch.set_num_threads, initargs=(1,)
        )

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return what the work makes of each item, in order. A single item needs no worker."""
        if self.count == 1 or len(items) < 2:
            return [work(item) for item in items]
        futures = [self._pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        finally:  # after an error or Ctrl-C nobody wants the rest
            for future in futures:
                future.cancel()
