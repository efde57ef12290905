"""Bounded work queue in front of the engine, fair by tokens, and its worker threads.

A request calls `WorkQueue.submit`, which returns the results. A worker thread calls `take_batch`
and gets items of equal tasks, of any clients. The queue knows neither models nor HTTP.

Fairness is by tokens: each client has a lane whose clock advances by the cost of the items taken
from it, and the lane with the smallest clock is served next. A client that comes back starts at
the clock of the waiting lanes, or at its own clock if that is larger: it gains nothing from idle
time, and its usage is remembered while other clients wait.

If a batch fails, it is split in halves until the failing items are isolated; the other items get
their results. Worker threads that end are restarted.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import Any, Protocol

from seq2see.serve.errors import ClientDisconnected, DeadlineExceeded, Overloaded, ShuttingDown

_LANE_QUANTUM = 512
"""Tokens taken from one lane before the next lane's turn: most requests fit into one turn."""
_MAX_IDLE_CLIENTS = 10_000
"""Number of clients without waiting work whose clocks are remembered."""
_MAX_WAIT_FRACTION = 0.8
"""A request is rejected if the work ahead of it takes more than this fraction of its time."""
_DEADLINE_CHECK_SECONDS = 1.0
"""Interval at which a waiting request checks its deadline, which `drain` may shorten."""
_BATCH_DECAY = 0.95
"""Weight of a batch relative to the next one in the estimate of batch times."""
_SIZE_SPREAD = 0.1
"""Standard deviation of batch sizes, as a fraction of a full batch, at which the fitted slope
counts half. Times are noisy, and a full batch is far from small ones."""


class BatchOperation(Hashable, Protocol):
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
    """Client, deadline and cancellation of a request."""

    client: str
    deadline: float
    """In the time of `time.monotonic()`."""
    is_cancelled: bool = False
    _callbacks: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def with_timeout(cls, seconds: float, client: str = "") -> RequestContext:
        """Return a context whose deadline is in `seconds` from now."""
        return cls(client, time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - time.monotonic()

    def raise_if_cancelled(self) -> None:
        """Raise an error if the work is no longer needed. Long work calls this at every step.

        Raises:
            ClientDisconnected: The client closed the connection.
            DeadlineExceeded: The deadline has passed.
        """
        if self.is_cancelled:
            raise ClientDisconnected("client disconnected")
        if self.seconds_left <= 0:
            raise DeadlineExceeded("deadline exceeded")

    def cancel(self) -> None:
        """Cancel the request and call its callbacks."""
        self.is_cancelled = True
        for callback in list(self._callbacks):
            callback()

    def add_cancel_callback(self, callback: Callable[[], None]) -> None:
        """Call a function when the request is cancelled; at once if it already is."""
        self._callbacks.append(callback)
        if self.is_cancelled:
            callback()

    def remove_cancel_callback(self, callback: Callable[[], None]) -> None:
        """Remove a function added by `add_cancel_callback`."""
        self._callbacks.remove(callback)


class WorkItem:
    """The work of one request in the queue: items of one task, with their costs and results."""

    def __init__(
        self,
        context: RequestContext,
        task: BatchOperation,
        items: Sequence[Any],
        costs: Sequence[int],
        sequence_number: int,
    ) -> None:
        self.context, self.task, self.sequence_number = context, task, sequence_number
        self.has_started = False
        self.finished = threading.Event()
        self._items, self._costs = items, costs
        self._num_taken = 0
        self._num_pending = len(items)
        self._results: list[Any] = [None] * len(items)

    @property
    def is_active(self) -> bool:
        """Whether the request is neither cancelled nor past its deadline."""
        return not self.context.is_cancelled and self.context.seconds_left > 0

    @property
    def waiting_cost(self) -> int:
        """Tokens of the items that are in no batch yet."""
        return sum(self._costs[self._num_taken :])

    def take_items(self, budget: int, at_least_one: bool) -> tuple[list[tuple[WorkItem, int]], int]:
        """Take the next items whose total cost is within a budget.

        Args:
            budget: Largest total cost in tokens.
            at_least_one: Whether to take one item even if it exceeds the budget.

        Returns:
            Pairs of this work item and the index of an item, and the total cost.
        """
        entries: list[tuple[WorkItem, int]] = []
        total = 0
        while self._num_taken < len(self._items):
            cost = self._costs[self._num_taken]
            if total + cost > budget and not (at_least_one and not entries):
                break
            entries.append((self, self._num_taken))
            total += cost
            self._num_taken += 1
        return entries, total

    def item(self, index: int) -> Any:
        """Return the item at an index."""
        return self._items[index]

    @property
    def is_fully_taken(self) -> bool:
        """Whether every item is in a batch."""
        return self._num_taken == len(self._items)

    @property
    def is_done(self) -> bool:
        """Whether every item has its result. The event `finished` is also set on cancellation."""
        return self._num_pending == 0

    def set_result(self, index: int, result: Any) -> None:
        """Store the result of an item; the last result sets `finished`.

        Only the worker thread that took the item may call this.
        """
        self._results[index] = result
        self._num_pending -= 1
        if self.is_done:
            self.finished.set()

    def results(self) -> list[Any]:
        """Return the results in the order of the items."""
        return self._results


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
        return [work_item.item(index) for work_item, index in self.entries]


class BatchTimeEstimator:
    """Estimates how long work takes, from the times of previous batches.

    A batch takes a constant time plus a time per token, so the time of one sentence says little
    about a full batch. Both are fitted by a line through the last batches. While all of these are
    small, their time counts as constant: accepting one request too many is better than rejecting
    one that could have been finished.
    """

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._weight = self._tokens = self._seconds = self._squares = self._products = 0.0

    def add_batch(self, tokens: int, seconds: float) -> None:
        """Add the size and the time of a finished batch."""
        self._weight = _BATCH_DECAY * self._weight + 1
        self._tokens = _BATCH_DECAY * self._tokens + tokens
        self._seconds = _BATCH_DECAY * self._seconds + seconds
        self._squares = _BATCH_DECAY * self._squares + tokens * tokens
        self._products = _BATCH_DECAY * self._products + tokens * seconds

    def estimate_seconds(self, tokens: int) -> float:
        """Return the time for this number of tokens in full batches; 0 before the first batch."""
        if not self._weight or not tokens:
            return 0.0
        mean_tokens, mean_seconds = self._tokens / self._weight, self._seconds / self._weight
        variance = self._squares / self._weight - mean_tokens * mean_tokens
        covariance = self._products / self._weight - mean_tokens * mean_seconds
        slope = covariance / (variance + (_SIZE_SPREAD * self._batch_tokens) ** 2)
        per_token = min(max(slope, 0.0), mean_seconds / mean_tokens)
        per_batch = mean_seconds - per_token * mean_tokens
        return per_batch * max(1.0, tokens / self._batch_tokens) + per_token * tokens


class _Lane:
    """The waiting work of one client, oldest first."""

    def __init__(self, clock: float) -> None:
        self.clock = clock
        self.work_items: deque[WorkItem] = deque()

    def first_of(self, task: BatchOperation) -> WorkItem | None:
        return next((each for each in self.work_items if each.task == task), None)


class WorkQueue:
    """Bounded queue that is fair between clients. All methods are thread-safe."""

    def __init__(self, max_waiting_tokens: int, batch_tokens: int, num_threads: int = 1) -> None:
        self.max_waiting_tokens, self.batch_tokens = max_waiting_tokens, batch_tokens
        self.num_threads = num_threads
        self._estimator = BatchTimeEstimator(batch_tokens)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._clock = 0.0
        self._idle_clocks: dict[str, float] = {}
        """Clocks of clients without waiting work that are ahead of the queue's clock."""
        self._waiting_tokens = self._running_tokens = 0
        self._last_number = 0
        self._is_closed = False
        self._last_deadline = math.inf

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait for a batch."""
        return self._waiting_tokens

    @property
    def running_tokens(self) -> int:
        """Tokens of the batches that are being processed."""
        return self._running_tokens

    def submit(
        self,
        context: RequestContext,
        task: BatchOperation,
        items: Sequence[Any],
        costs: Sequence[int],
    ) -> list[Any]:
        """Process items of a task and return their results; blocks until the deadline at most.

        Args:
            context: Client and deadline of the request.
            task: What to do with the items.
            items: The items, in the order of the results.
            costs: Cost of each item in tokens.

        Raises:
            Overloaded: The queue is full, or the work cannot start in time.
            DeadlineExceeded: The deadline passed after the work had started.
            ClientDisconnected: The request was cancelled.
            ShuttingDown: The queue is closed.
        """
        work_item = self._enqueue(context, task, items, costs)
        callback = lambda: self._remove(work_item)  # noqa: E731 named, to be removed again
        context.add_cancel_callback(callback)
        try:
            while context.seconds_left > 0 and not work_item.finished.wait(
                min(context.seconds_left, _DEADLINE_CHECK_SECONDS)
            ):
                pass
        finally:
            context.remove_cancel_callback(callback)
        return self._results(work_item)

    def take_batch(self) -> WorkBatch | None:
        """Wait for work and return a batch; None when the queue is closed."""
        with self._lock:
            while True:
                if self._is_closed:
                    return None
                self._remove_inactive()
                if self._lanes:
                    return self._fill_batch()
                self._changed.wait()

    def finish(self, batch: WorkBatch, results: Sequence[Any], seconds: float) -> None:
        """Store the results of a batch and the time that it took."""
        with self._lock:
            self._running_tokens -= batch.cost
            # The cost of an unbatched task is a rough guess, and its time is not that of a batch.
            if not isinstance(batch.task, UnbatchedTask):
                self._estimator.add_batch(batch.cost, seconds)
            if not self._lanes and not self._running_tokens:
                self._idle_clocks.clear()
            for (work_item, index), result in zip(batch.entries, results, strict=True):
                work_item.set_result(index, result)

    def drain(self, seconds: float) -> None:
        """Limit the deadline of all work to `seconds` from now.

        This includes work that running requests submit later, such as the second model of a pivot
        translation.
        """
        with self._lock:
            self._last_deadline = time.monotonic() + seconds
            for lane in self._lanes.values():
                for work_item in lane.work_items:
                    context = work_item.context
                    context.deadline = min(context.deadline, self._last_deadline)

    def close(self) -> None:
        """Reject new work and let the worker threads end."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def estimate_wait(self, cost: int = 0) -> float:
        """Return the seconds until additional work of this cost would be finished."""
        tokens = self._waiting_tokens + self._running_tokens + cost
        return self._estimator.estimate_seconds(tokens) / self.num_threads

    def _enqueue(
        self,
        context: RequestContext,
        task: BatchOperation,
        items: Sequence[Any],
        costs: Sequence[int],
    ) -> WorkItem:
        with self._lock:
            if self._is_closed:
                raise ShuttingDown("the service is shutting down")
            context.deadline = min(context.deadline, self._last_deadline)
            self._check_load(context, sum(costs))
            self._last_number += 1
            work_item = WorkItem(context, task, items, costs, self._last_number)
            if not items:
                work_item.finished.set()
                return work_item
            self._lane(context.client).work_items.append(work_item)
            self._waiting_tokens += sum(costs)
            self._changed.notify()
            return work_item

    def _lane(self, client: str) -> _Lane:
        if client not in self._lanes:
            self._lanes[client] = _Lane(max(self._clock, self._idle_clocks.pop(client, 0.0)))
        return self._lanes[client]

    def _close_lane(self, client: str) -> None:
        """Remove an empty lane and remember its clock if it is ahead."""
        lane = self._lanes.pop(client)
        if lane.clock > self._clock and len(self._idle_clocks) < _MAX_IDLE_CLIENTS:
            self._idle_clocks[client] = lane.clock

    def _check_load(self, context: RequestContext, cost: int) -> None:
        wait = self.estimate_wait(cost)
        is_full = self._waiting_tokens > 0 and self._waiting_tokens + cost > self.max_waiting_tokens
        is_late = self._waiting_tokens > 0 and wait > _MAX_WAIT_FRACTION * context.seconds_left
        if is_full or is_late:
            raise Overloaded("Slowdown: too many requests at the moment", max(1.0, wait / 2))

    def _results(self, work_item: WorkItem) -> list[Any]:
        if work_item.is_done and not work_item.context.is_cancelled:
            return work_item.results()
        self._remove(work_item)
        if work_item.context.is_cancelled:
            raise ClientDisconnected("client disconnected")
        if not work_item.has_started:
            raise Overloaded("Slowdown: too many requests at the moment", self.estimate_wait())
        raise DeadlineExceeded("deadline exceeded")

    def _remove(self, work_item: WorkItem) -> None:
        """Remove the items that are in no batch yet."""
        with self._lock:
            lane = self._lanes.get(work_item.context.client)
            if lane and work_item in lane.work_items:
                lane.work_items.remove(work_item)
                self._waiting_tokens -= work_item.waiting_cost
                if not lane.work_items:
                    self._close_lane(work_item.context.client)
        work_item.finished.set()

    def _remove_inactive(self) -> None:
        inactive = [
            each for lane in self._lanes.values() for each in lane.work_items if not each.is_active
        ]
        for work_item in inactive:
            self._remove(work_item)

    def _fill_batch(self) -> WorkBatch:
        """Fill a batch: the lane with the smallest clock sets the task, the others join in turn."""
        first = min(
            self._lanes.values(), key=lambda lane: (lane.clock, lane.work_items[0].sequence_number)
        )
        task = first.work_items[0].task
        entries: list[tuple[WorkItem, int]] = []
        total = 0
        turns = [(lane.clock, n, lane) for n, lane in enumerate(self._lanes.values())]
        heapify(turns)
        while turns and total < self.batch_tokens:
            clock, number, lane = turns[0]
            work_item = lane.first_of(task)
            budget = min(_LANE_QUANTUM, self.batch_tokens - total)
            at_least_one = not entries or budget == _LANE_QUANTUM
            taken, cost = work_item.take_items(budget, at_least_one) if work_item else ([], 0)
            if not work_item or not taken:
                heappop(turns)
                continue
            self._account(lane, work_item, clock, cost)
            entries += taken
            total += cost
            heapreplace(turns, (lane.clock, number, lane))
        self._waiting_tokens -= total
        self._running_tokens += total
        self._close_empty_lanes()
        return WorkBatch(task, entries, total)

    def _account(self, lane: _Lane, work_item: WorkItem, clock: float, cost: int) -> None:
        work_item.has_started = True
        self._clock = max(self._clock, clock)
        lane.clock = clock + cost
        if work_item.is_fully_taken:
            lane.work_items.remove(work_item)

    def _close_empty_lanes(self) -> None:
        for client in [name for name, lane in self._lanes.items() if not lane.work_items]:
            self._close_lane(client)
        clocks = self._idle_clocks.items()
        self._idle_clocks = {name: clock for name, clock in clocks if clock > self._clock}


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
