"""Bounded work queue in front of the engine, fair by tokens, and its worker threads.

A request calls `WorkQueue.submit`, which returns the results. A worker thread calls `take_batch`
and gets items of equal tasks, of any clients. The queue knows neither models nor HTTP.

The client with the least usage, in tokens, is served next. A client that comes back starts at the
usage of the client served last, or at its own if that is larger: it gains nothing from idle time,
and its usage is remembered while other clients wait.

If a batch fails, it is split in halves until the failing items are isolated; the other items get
their results. A batch ends early once all of its requests are canceled or late. Worker threads that
end are restarted. Traces and streams, which are not batched, leave one thread to other work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from seq2see.cancellation import cancellable_by
from seq2see.serve.errors import ClientDisconnected, DeadlineExceeded, Overloaded, ShuttingDown

_TURN_TOKENS = 512
"""Tokens taken from one client before the next one's turn: most requests fit into one turn."""
_MAX_WAIT_FRACTION = 0.8
"""A request is rejected if the work ahead of it takes more than this fraction of its time."""
_BATCH_DECAY = 0.95
"""Weight of a batch relative to the next one in the estimate of batch times."""
_SIZE_SPREAD = 0.1
"""Standard deviation of batch sizes, as a fraction of a full batch, at which the fitted slope
counts half. Times are noisy, and a full batch is far from small ones."""


class BatchOperation(Protocol):
    """A kind of work. Items of equal tasks can share a batch."""

    def run(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return one result per item. An exception as a result concerns only its item."""
        ...


@dataclass(eq=False, slots=True)
class UnbatchedTask:
    """A task that equals no other task, so that it never shares a batch."""

    function: Callable[[], Any]

    def run(self, items: Sequence[None]) -> Sequence[Any]:
        """Call the function once per item."""
        return [self.function() for _ in items]


@dataclass(eq=False, slots=True)
class RequestContext:
    """Client, deadline and cancellation of a request. It waits for one work item at a time."""

    client: str
    deadline: float
    """In the time of `time.monotonic()`."""
    is_canceled: bool = False
    changed: threading.Event = field(default_factory=threading.Event)
    """Set when the request is canceled, its deadline changes or its work is finished."""

    @classmethod
    def with_timeout(cls, seconds: float, client: str = "") -> RequestContext:
        """Return a context whose deadline is in `seconds` from now."""
        return cls(client, time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - time.monotonic()

    @property
    def is_active(self) -> bool:
        """Whether the request is neither canceled nor past its deadline."""
        return not self.is_canceled and self.seconds_left > 0

    def raise_if_canceled(self) -> None:
        """Raise an error if the work is no longer needed. Long work calls this at every step.

        Raises:
            ClientDisconnected: The client closed the connection.
            DeadlineExceeded: The deadline has passed.
        """
        if self.is_canceled:
            raise ClientDisconnected("client disconnected")
        if self.seconds_left <= 0:
            raise DeadlineExceeded("deadline exceeded")

    def limit_time(self, seconds: float) -> None:
        """Let the request end in `seconds` from now at the latest."""
        self.deadline = min(self.deadline, time.monotonic() + seconds)
        self.changed.set()

    def cancel(self) -> None:
        """Cancel the request and wake its thread."""
        self.is_canceled = True
        self.changed.set()


@dataclass(eq=False, slots=True)
class WorkItem:
    """The work of one request in the queue: items of one task, with their costs and results."""

    context: RequestContext
    task: BatchOperation
    items: Sequence[Any]
    """The items, in the order of the results."""
    costs: Sequence[int]
    """Cost of each item in tokens."""
    num_taken: int = 0
    """Number of items that are or were in a batch."""
    results: dict[int, Any] = field(default_factory=dict)
    """Results by the index of the item. Each is set by the worker thread that took the item."""

    @property
    def is_done(self) -> bool:
        """Whether every item has its result."""
        return len(self.results) == len(self.items)

    def take_items(self, budget: int, at_least_one: bool) -> tuple[list[tuple[WorkItem, int]], int]:
        """Take the next items whose total cost is within a budget.

        Args:
            budget: Largest total cost in tokens.
            at_least_one: Whether to take one item even if it exceeds the budget.

        Returns:
            Pairs of this work item and the index of an item, and the total cost.
        """
        start, total = self.num_taken, 0
        for cost in self.costs[start:]:
            is_first = self.num_taken == start
            if total + cost > budget and not (at_least_one and is_first):
                break
            total += cost
            self.num_taken += 1
        return [(self, index) for index in range(start, self.num_taken)], total


@dataclass(slots=True)
class WorkBatch:
    """Items of equal tasks that the engine processes together."""

    task: BatchOperation
    entries: list[tuple[WorkItem, int]]
    """Work items and the indices of their items."""
    cost: int
    """Total cost in tokens."""

    @property
    def items(self) -> list[Any]:
        """The items of all entries."""
        return [work_item.items[index] for work_item, index in self.entries]

    def raise_if_canceled(self) -> None:
        """Raise the error of a request if no request of the batch is active any more."""
        contexts = [work_item.context for work_item, _ in self.entries]
        if not any(context.is_active for context in contexts):
            contexts[0].raise_if_canceled()


class BatchTimeEstimator:
    """Estimates how long work takes, from the times of previous batches.

    A batch takes a constant time plus a time per token, so the time of one sentence says little
    about a full batch. Both are fitted by a line through the last batches. While all of these are
    small, their time counts as constant: accepting one request too many is better than rejecting
    one that could have been finished.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._sums = [0.0] * 5
        """Weighted sums over the batches, in the order of `add_batch`."""

    def add_batch(self, tokens: int, seconds: float) -> None:
        """Add the size and the time of a finished batch."""
        terms = (1, tokens, seconds, tokens * tokens, tokens * seconds)
        self._sums = [_BATCH_DECAY * old + new for old, new in zip(self._sums, terms, strict=True)]

    def estimate_seconds(self, tokens: int) -> float:
        """Return the time for this number of tokens in full batches; 0 before the first batch."""
        weight, *sums = self._sums
        if not weight or not tokens:
            return 0.0
        mean_tokens, mean_seconds, mean_square, mean_product = (each / weight for each in sums)
        variance = mean_square - mean_tokens * mean_tokens
        covariance = mean_product - mean_tokens * mean_seconds
        slope = covariance / (variance + (_SIZE_SPREAD * self._batch_tokens) ** 2)
        per_token = min(max(slope, 0.0), mean_seconds / mean_tokens)
        per_batch = mean_seconds - per_token * mean_tokens
        return per_batch * max(1.0, tokens / self._batch_tokens) + per_token * tokens


class WorkQueue:
    """Bounded queue that is fair between clients. All methods are thread-safe."""

    def __init__(self, max_waiting_tokens: int, batch_tokens: int, num_threads: int = 1) -> None:
        self.max_waiting_tokens, self.batch_tokens = max_waiting_tokens, batch_tokens
        self.num_threads = num_threads
        self._unbatched_slots = max(1, num_threads - 1)
        self._estimator = BatchTimeEstimator(batch_tokens)
        self._changed = threading.Condition(threading.RLock())
        self._waiting: dict[str, list[WorkItem]] = {}
        """Work items with waiting items, oldest first, by client."""
        self._usage: dict[str, int] = {}
        """Tokens by client, counted from a common start."""
        self._min_usage = 0
        """Usage of the client served last, at which other clients start."""
        self.waiting_tokens = self.running_tokens = 0
        """Tokens that wait for a batch, and tokens of the batches that are being processed."""
        self._is_closed = False

    def submit(self, work_item: WorkItem) -> list[Any]:
        """Process work and return the results of its items; blocks until the deadline at most.

        Raises:
            Overloaded: The queue is full, or the work cannot start in time.
            DeadlineExceeded: The deadline passed after the work had started.
            ClientDisconnected: The request was canceled.
            ShuttingDown: The queue is closed.
        """
        self.enqueue(work_item)
        context = work_item.context
        while not work_item.is_done and context.is_active:
            context.changed.wait(context.seconds_left)
            context.changed.clear()
        self._remove(work_item)
        if work_item.is_done and not context.is_canceled:
            return [work_item.results[index] for index in range(len(work_item.items))]
        if not work_item.num_taken and not context.is_canceled:
            raise Overloaded("Slowdown: too many requests at the moment", self.estimate_wait())
        context.raise_if_canceled()
        raise DeadlineExceeded("deadline exceeded")

    def enqueue(self, work_item: WorkItem) -> None:
        """Add work to the queue; see `submit`, which also waits for the results.

        Raises:
            Overloaded: The queue is full, or the work cannot be finished in time.
            ShuttingDown: The queue is closed.
        """
        context, cost = work_item.context, sum(work_item.costs)
        with self._changed:
            if self._is_closed:
                raise ShuttingDown("the service is shutting down")
            self._check_load(context, cost)
            if work_item.items:
                client = context.client
                if client not in self._waiting:
                    self._usage[client] = max(self._usage.get(client, 0), self._min_usage)
                self._waiting.setdefault(client, []).append(work_item)
                self.waiting_tokens += cost
                self._changed.notify()

    def take_batch(self) -> WorkBatch | None:
        """Wait for work and return a batch; None when the queue is closed."""
        with self._changed:
            while not self._is_closed:
                for work_item in [each for some in self._waiting.values() for each in some]:
                    if not work_item.context.is_active:
                        self._remove(work_item)
                if batch := self._fill_batch():
                    return batch
                self._changed.wait()
            return None

    def finish(self, batch: WorkBatch, results: Sequence[Any], seconds: float) -> None:
        """Store the results of a batch and the time that it took."""
        with self._changed:
            self.running_tokens -= batch.cost
            if isinstance(batch.task, UnbatchedTask):
                self._unbatched_slots += 1
                self._changed.notify()
            # The cost of an unbatched task is a rough guess, and its time is not that of a batch.
            if not isinstance(batch.task, UnbatchedTask):
                self._estimator.add_batch(batch.cost, seconds)
            if not self._waiting and not self.running_tokens:
                self._usage.clear()
                self._min_usage = 0
            for (work_item, index), result in zip(batch.entries, results, strict=True):
                work_item.results[index] = result
                if work_item.is_done:
                    work_item.context.changed.set()

    def close(self) -> None:
        """Reject new work and let the worker threads end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def estimate_wait(self, cost: int = 0) -> float:
        """Return the seconds until additional work of this cost would be finished."""
        tokens = self.waiting_tokens + self.running_tokens + cost
        return self._estimator.estimate_seconds(tokens) / self.num_threads

    def _check_load(self, context: RequestContext, cost: int) -> None:
        wait = self.estimate_wait(cost)
        is_full = self.waiting_tokens > 0 and self.waiting_tokens + cost > self.max_waiting_tokens
        is_late = self.waiting_tokens > 0 and wait > _MAX_WAIT_FRACTION * context.seconds_left
        if is_full or is_late:
            raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))

    def _remove(self, work_item: WorkItem) -> None:
        """Forget a work item, and remove its items that are in no batch yet."""
        with self._changed:
            if work_item in self._waiting.get(work_item.context.client, ()):
                self.waiting_tokens -= sum(work_item.costs[work_item.num_taken :])
                self._remove_waiting(work_item)
        work_item.context.changed.set()

    def _fill_batch(self) -> WorkBatch | None:
        """Fill a batch: the client with the least usage sets the task, the others join in turn.

        Return None if there is no work that may start now.
        """
        tasks = {
            client: work_item.task
            for client, work_items in self._waiting.items()
            for work_item in reversed(work_items)  # the oldest is last
            if self._unbatched_slots or not isinstance(work_item.task, UnbatchedTask)
        }
        clients = list(tasks)
        if not clients:
            return None
        task = tasks[min(clients, key=self._usage.__getitem__)]
        if isinstance(task, UnbatchedTask):
            self._unbatched_slots -= 1
        entries: list[tuple[WorkItem, int]] = []
        total = 0
        while clients and total < self.batch_tokens:
            client = min(clients, key=self._usage.__getitem__)
            work_items = self._waiting.get(client, [])
            work_item = next((each for each in work_items if each.task == task), None)
            budget = min(_TURN_TOKENS, self.batch_tokens - total)
            at_least_one = not entries or budget == _TURN_TOKENS
            taken, cost = work_item.take_items(budget, at_least_one) if work_item else ([], 0)
            if not work_item or not taken:
                clients.remove(client)
                continue
            if work_item.num_taken == len(work_item.items):
                self._remove_waiting(work_item)
            self._min_usage = max(self._min_usage, self._usage[client])
            self._usage[client] += cost
            entries += taken
            total += cost
        self.waiting_tokens -= total
        self.running_tokens += total
        self._usage = {
            client: usage
            for client, usage in self._usage.items()
            if client in self._waiting or usage > self._min_usage
        }
        return WorkBatch(task, entries, total)

    def _remove_waiting(self, work_item: WorkItem) -> None:
        client = work_item.context.client
        self._waiting[client].remove(work_item)
        if not self._waiting[client]:
            del self._waiting[client]


BatchCallback = Callable[[WorkBatch, float], None]
"""Called after each batch with the batch and its time in seconds."""


class WorkerThreads:
    """Threads that take batches from a queue and run them."""

    def __init__(
        self, queue: WorkQueue, num_threads: int = 1, on_batch: BatchCallback = lambda *_: None
    ) -> None:
        self._queue = queue
        self._on_batch = on_batch
        self._start_times: dict[int, float] = {}
        self._threads = [self._start_thread(number) for number in range(num_threads)]

    def restart_dead_threads(self) -> int:
        """Restart threads that have ended and return their number."""
        dead = [n for n, thread in enumerate(self._threads) if not thread.is_alive()]
        for number in dead:
            self._threads[number] = self._start_thread(number)
        return len(dead)

    @property
    def longest_batch_seconds(self) -> float:
        """Seconds since the start of the oldest running batch; 0 if none is running."""
        starts = list(self._start_times.values())  # a copy: the threads change the dictionary
        return max((time.monotonic() - start for start in starts), default=0.0)

    def stop(self, seconds: float) -> bool:
        """Close the queue and wait for the threads, for at most `seconds`.

        Returns:
            Whether all threads have ended.
        """
        self._queue.close()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _start_thread(self, number: int) -> threading.Thread:
        name = f"seq2see-worker-{number}"
        thread = threading.Thread(target=self._run, args=(number,), name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, number: int) -> None:
        while batch := self._queue.take_batch():
            start = self._start_times[number] = time.monotonic()
            results: Sequence[Any] = [RuntimeError("the worker thread ended")] * len(batch.entries)
            try:
                with cancellable_by(batch.raise_if_canceled):
                    results = run_bisecting_failures(batch.task, batch.items)
            finally:
                seconds = time.monotonic() - start
                del self._start_times[number]
                self._queue.finish(batch, results, seconds)
            self._on_batch(batch, seconds)


def run_bisecting_failures(task: BatchOperation, items: Sequence[Any]) -> list[Any]:
    """Run a task and return one result per item.

    If the task raises, the items are split in halves until the failing items are isolated. The
    result of a failing item is its exception.
    """
    try:
        results = list(task.run(items))
        if len(results) != len(items):
            return [RuntimeError(f"{len(results)} results for {len(items)} items")] * len(items)
    except (ClientDisconnected, DeadlineExceeded) as error:  # of all requests of the batch
        return [error] * len(items)
    except BaseException as error:  # a panic in Rust is no Exception and must not end the thread
        if len(items) == 1:
            return [error]
    else:
        return results
    half = len(items) // 2
    return [
        *run_bisecting_failures(task, items[:half]),
        *run_bisecting_failures(task, items[half:]),
    ]
