"""Threads that take batches from the queue to the engine.

What goes wrong in a batch is laid to the items that did it: the batch is halved until they stand
alone, and the others are served. A thread that ends all the same is replaced.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from seq2see.serve.queue import WorkQueue
from seq2see.serve.tickets import Batch, Task

Listener = Callable[[Batch, float], None]


class Workers:
    """The threads of a queue."""

    def __init__(
        self, queue: WorkQueue, count: int = 1, after_batch: Listener = lambda *_: None
    ) -> None:
        self._queue = queue
        self._after_batch = after_batch
        self._busy_since: dict[int, float] = {}
        self._threads = [self._started(number) for number in range(count)]

    def revive(self) -> int:
        """Replace threads that have ended, and return how many those were."""
        dead = [n for n, thread in enumerate(self._threads) if not thread.is_alive()]
        for number in dead:
            self._threads[number] = self._started(number)
        return len(dead)

    @property
    def longest(self) -> float:
        """Seconds that the oldest batch has been with the engine."""
        begun = list(self._busy_since.values())  # the workers change it meanwhile
        return max((time.monotonic() - since for since in begun), default=0.0)

    def stop(self, seconds: float) -> bool:
        """Close the queue, wait for what is running, within limits, and tell if it has ended."""
        self._queue.close()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _started(self, number: int) -> threading.Thread:
        name = f"seq2see-worker-{number}"
        thread = threading.Thread(target=self._work, args=(number,), name=name, daemon=True)
        thread.start()
        return thread

    def _work(self, number: int) -> None:
        while batch := self._queue.take():
            start = self._busy_since[number] = time.monotonic()
            outcomes: Sequence[Any] = [RuntimeError("the thread ended")] * len(batch.places)
            try:
                outcomes = attempt(batch.task, batch.items)
            finally:
                seconds = time.monotonic() - start
                del self._busy_since[number]
                self._queue.done(batch, outcomes, seconds)
            self._after_batch(batch, seconds)


def attempt(task: Task, items: Sequence[Any]) -> list[Any]:
    """Return an outcome for each item: the task's, or the exception that it alone brings about."""
    try:
        outcomes = list(task.run(items))
        if len(outcomes) != len(items):
            return [RuntimeError(f"{len(outcomes)} outcomes of {len(items)} items")] * len(items)
    except BaseException as error:  # a panic of Rust is no Exception, and must not end the thread
        if len(items) == 1:
            return [error]
    else:
        return outcomes
    half = len(items) // 2
    return [*attempt(task, items[:half]), *attempt(task, items[half:])]
