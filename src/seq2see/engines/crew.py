"""Several batches at once on a CPU: a thread a core, and in each of them torch on one thread.

Torch's own threads share a single product, and those of a small model are too small for that: two
threads wait for each other longer than they work. Batches have nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from threading import Barrier, Lock, RLock
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crew:
    """So many workers, who start when they are first needed; all who call share them.

    A crew of one is whoever calls, one after the other.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._turn: AbstractContextManager[Any] = RLock() if count == 1 else nullcontext()
        self._lock = Lock()
        self._started: ThreadPoolExecutor | None = None

    @property
    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._started is None:
                self._started = started(self.count)
            return self._started

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what the work makes of each item, in order. A single item needs no worker."""
        if self.count == 1 or len(items) < 2:
            return (self.alone(work, item) for item in items)
        return _in_order(self._pool, work, items)

    def alone(self, work: Callable[[Item], Result], item: Item) -> Result:
        """Return what the work makes of an item, in the thread of whoever calls."""
        with self._turn:
            return work(item)


def _in_order(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Sequence[Item]
) -> Iterator[Result]:
    """Yield what the threads of a pool make of each item, in the order of the items."""
    futures = [pool.submit(work, item) for item in items]
    try:
        for future in futures:
            yield future.result()
    finally:  # after an error or Ctrl-C nobody wants the rest
        for future in futures:
            future.cancel()


def started(count: int) -> ThreadPoolExecutor:
    """Return so many threads in which torch has one each.

    Torch gives every thread that starts later the number that was set last, whoever set it. So all
    of these start at once, and then others get the number again that they would have had.
    """
    usual, ready = torch.get_num_threads(), Barrier(count)
    pool = ThreadPoolExecutor(count, "seq2see-torch", initializer=_take_one_thread)
    for worker in [pool.submit(ready.wait) for _ in range(count)]:
        worker.result()
    torch.set_num_threads(usual)
    return pool


def _take_one_thread() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes what was set last when it first looks
