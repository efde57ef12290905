"""The work queue and its threads: bounded, fair, on time; failures are isolated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seq2see.cancellation import check_cancelled
from seq2see.serve.errors import ClientDisconnected, DeadlineExceeded, Overloaded, ShuttingDown
from seq2see.serve.work_queue import (
    RequestContext,
    UnbatchedTask,
    WorkBatch,
    WorkerThreads,
    WorkItem,
    WorkQueue,
    run_bisecting_failures,
)


@dataclass(frozen=True)
class DoublingTask:
    """Doubles numbers. Tasks with the same name and duration are equal."""

    name: str = ""
    seconds: float = 0.0
    batches: list[list[Any]] = field(default_factory=list, compare=False)
    is_poison: Callable[[Any], bool] = field(default=lambda _: False, compare=False)
    error: BaseException = field(default_factory=lambda: ValueError("poison"), compare=False)

    def run(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        time.sleep(self.seconds)
        if any(map(self.is_poison, items)):
            raise self.error
        return [2 * item for item in items]


def context(client: str = "a", seconds: float = 20.0) -> RequestContext:
    return RequestContext.with_timeout(seconds, client)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as threads:
        yield threads


def submit(pool: ThreadPoolExecutor, queue: WorkQueue, *arguments: Any) -> Future[list[Any]]:
    """Submit work from another thread and wait until it is in the queue."""
    before = queue.waiting_tokens
    future = pool.submit(queue.submit, WorkItem(*arguments))
    while queue.waiting_tokens == before and not future.done():
        time.sleep(0.001)
    return future


def finish(queue: WorkQueue, batch: WorkBatch | None, seconds: float = 0.01) -> None:
    """Run a batch and report that it took the given time."""
    assert batch is not None
    queue.finish(batch, run_bisecting_failures(batch.task, batch.items), seconds)


def test_every_item_is_returned_once_and_in_order(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10_000, 50)
    workers = WorkerThreads(queue, 3)
    requests = [list(range(n, n + n % 7)) for n in range(60)]
    futures = [
        pool.submit(
            queue.submit,
            WorkItem(context(str(n % 5)), DoublingTask(str(n % 2)), items, [3] * len(items)),
        )
        for n, items in enumerate(requests)
    ]
    for items, future in zip(requests, futures, strict=True):
        assert future.result(20) == [2 * item for item in items]
    assert (queue.waiting_tokens, queue.running_tokens) == (0, 0)
    workers.stop(5)


def test_equal_tasks_share_a_batch_within_budget(pool: ThreadPoolExecutor) -> None:
    queue, task = WorkQueue(1000, 10), DoublingTask("x")
    first = submit(pool, queue, context("a"), task, [1, 2], [3, 3])
    second = submit(pool, queue, context("b"), DoublingTask("x"), [3, 4], [3, 3])
    other = submit(pool, queue, context("c"), DoublingTask("y"), [5], [3])
    batch = queue.take_batch()
    assert batch is not None
    assert (batch.items, batch.cost) == ([1, 2, 3], 9)
    finish(queue, batch)
    assert first.result(5) == [2, 4]
    finish(queue, queue.take_batch())
    finish(queue, queue.take_batch())
    assert (second.result(5), other.result(5)) == ([6, 8], [10])


def test_item_above_budget_gets_its_own_batch(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10_000, 10)
    future = submit(pool, queue, context(), DoublingTask(), [1, 2], [5000, 1])
    batch = queue.take_batch()
    assert batch is not None
    assert batch.items == [1]
    finish(queue, batch)
    finish(queue, queue.take_batch())
    assert future.result(5) == [2, 4]


def test_small_request_does_not_wait_for_large_one(pool: ThreadPoolExecutor) -> None:
    """The large request gets only its share; the order of its items is preserved."""
    queue, task = WorkQueue(10_000_000, 1024), DoublingTask()
    large = submit(pool, queue, context("large"), task, list(range(1000)), [100] * 1000)
    finish(queue, queue.take_batch())
    small = submit(pool, queue, context("small"), task, [7], [100])
    finish(queue, queue.take_batch())
    assert small.result(5) == [14]
    while queue.waiting_tokens:
        finish(queue, queue.take_batch())
    assert large.result(5) == [2 * n for n in range(1000)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), min_size=1, max_size=40))
def test_waiting_clients_get_equal_shares(requests: list[tuple[str, int]]) -> None:
    """While two clients wait, their shares differ by at most one turn and one item."""
    queue = WorkQueue(10**9, 600)
    taken = {"a": 0, "b": 0, "c": 0}
    totals = {name: sum(cost for client, cost in requests if client == name) for name in taken}
    for client, cost in requests:
        queue.enqueue(WorkItem(context(client), DoublingTask(), [client], [cost]))
    while queue.waiting_tokens:
        batch = queue.take_batch()
        assert batch is not None
        for (work_item, index), client in zip(batch.entries, batch.items, strict=True):
            taken[client] += work_item.costs[index]
        waiting = [name for name in taken if totals[name] and taken[name] < totals[name]]
        shares = [taken[name] for name in waiting]
        assert not shares or max(shares) - min(shares) <= 512 + 40
        finish(queue, batch)


def test_full_queue_rejects_at_once_with_retry_after(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10, 10)
    first = submit(pool, queue, context(), DoublingTask(), [1, 2], [4, 4])
    start = time.monotonic()
    with pytest.raises(Overloaded) as raised:
        queue.submit(WorkItem(context(), DoublingTask(), [3], [4]))
    assert time.monotonic() - start < 1
    assert int(raised.value.headers["Retry-After"]) >= 1
    assert raised.value.status == 429
    finish(queue, queue.take_batch())
    assert first.result(5) == [2, 4]


def test_request_that_cannot_finish_in_time_is_rejected(pool: ThreadPoolExecutor) -> None:
    """The speed is estimated from previous batches."""
    queue = WorkQueue(10_000, 10)
    submit(pool, queue, context(), DoublingTask(), [1], [10])
    finish(queue, queue.take_batch(), seconds=1.0)  # ten tokens per second
    slow = submit(pool, queue, context(), DoublingTask(), [1] * 10, [10] * 10)
    start = time.monotonic()
    with pytest.raises(Overloaded):
        queue.submit(WorkItem(context(seconds=5), DoublingTask(), [1], [10]))
    assert time.monotonic() - start < 2  # at once, not at the deadline
    accepted = submit(pool, queue, context(seconds=60), DoublingTask(), [3], [10])
    while queue.waiting_tokens:
        finish(queue, queue.take_batch())
    assert slow.result(5) == [2] * 10
    assert accepted.result(5) == [6]


def run_item(queue: WorkQueue, task: Any, cost: int, seconds: float) -> None:
    """Run one item of a given cost in a given time."""
    queue.enqueue(WorkItem(context(), task, [1], [cost]))
    finish(queue, queue.take_batch(), seconds)


def test_small_batches_do_not_cause_rejection_of_large_ones() -> None:
    """After single sentences, the sentences of many requests share batches and are accepted."""
    queue = WorkQueue(200_000, 4096)
    for turn in range(30):
        run_item(queue, DoublingTask(), 8 + turn % 3, 0.05 + 0.01 * (turn * 7 % 4))
    for number in range(64):
        queue.enqueue(WorkItem(context(str(number), 28.0), DoublingTask(), [1] * 16, [20] * 16))
    finish(queue, queue.take_batch(), seconds=10.0)
    with pytest.raises(Overloaded):
        queue.enqueue(WorkItem(context("z", 28.0), DoublingTask(), [1], [20]))


def test_unbatched_tasks_do_not_affect_the_time_estimate() -> None:
    queue = WorkQueue(10_000, 10)
    run_item(queue, UnbatchedTask(lambda: 1), 10, 100.0)
    for _ in range(3):
        queue.enqueue(WorkItem(context(seconds=5), DoublingTask(), [1], [10]))


def test_usage_of_returning_client_is_remembered() -> None:
    """One client submits single expensive items, the other many cheap ones."""
    queue, used = WorkQueue(10**9, 1000), {"expensive": 0, "cheap": 0}
    queue.enqueue(WorkItem(context("cheap"), DoublingTask(), [1] * 100, [500] * 100))
    expensive = None
    for _ in range(12):
        if expensive is None or expensive.is_done:
            task = UnbatchedTask(lambda: 1)
            expensive = WorkItem(context("expensive"), task, [None], [3000])
            queue.enqueue(expensive)
        batch = queue.take_batch()
        assert batch is not None
        used[batch.entries[0][0].context.client] += batch.cost
        finish(queue, batch)
    assert abs(used["expensive"] - used["cheap"]) <= 4000


def test_deadline_error_depends_on_whether_work_has_started(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(1000, 10)
    waiting = submit(pool, queue, context(seconds=0.1), DoublingTask(), [1], [10])
    with pytest.raises(Overloaded):
        waiting.result(5)
    assert queue.waiting_tokens == 0
    running = submit(pool, queue, context(seconds=0.3), DoublingTask(), [2], [10])
    batch = queue.take_batch()
    with pytest.raises(DeadlineExceeded):
        running.result(5)
    finish(queue, batch)  # a late result is ignored
    assert queue.running_tokens == 0


def test_canceled_and_late_work_never_enters_a_batch(pool: ThreadPoolExecutor) -> None:
    queue, task = WorkQueue(1000, 100), DoublingTask()
    canceled, late, active = context("canceled"), context("late", 0.05), context("active")
    futures = [submit(pool, queue, each, task, [n], [5]) for n, each in enumerate((canceled, late))]
    survivor = submit(pool, queue, active, task, [9], [5])
    canceled.cancel()
    with pytest.raises(ClientDisconnected):
        futures[0].result(5)
    time.sleep(0.1)
    batch = queue.take_batch()
    assert batch is not None
    assert batch.items == [9]
    finish(queue, batch)
    assert survivor.result(5) == [18]
    with pytest.raises(Overloaded):
        futures[1].result(5)


def test_draining_limits_the_time_of_running_work(pool: ThreadPoolExecutor) -> None:
    queue, request = WorkQueue(1000, 10), context(seconds=60)
    running = submit(pool, queue, request, DoublingTask(), [1], [10])
    batch = queue.take_batch()
    request.limit_time(0.2)
    assert request.seconds_left <= 0.2  # long work of the batch itself checks its deadline
    with pytest.raises(DeadlineExceeded):
        running.result(5)
    finish(queue, batch)


def test_late_work_removed_by_a_worker_is_not_done(pool: ThreadPoolExecutor) -> None:
    queue, late = WorkQueue(1000, 100), context("late")
    future = submit(pool, queue, late, DoublingTask(), [1], [5])
    survivor = submit(pool, queue, context("active"), DoublingTask(), [9], [5])
    late.deadline = time.monotonic() - 1  # its thread waits for the old deadline
    finish(queue, queue.take_batch())
    assert survivor.result(5) == [18]
    with pytest.raises(Overloaded):
        future.result(5)


def test_cancelling_removes_the_rest_of_started_work(pool: ThreadPoolExecutor) -> None:
    queue, request = WorkQueue(1000, 10), context()
    future = submit(pool, queue, request, DoublingTask(), [1, 2], [10, 10])
    batch = queue.take_batch()
    request.cancel()
    with pytest.raises(ClientDisconnected):
        future.result(5)
    assert queue.waiting_tokens == 0
    finish(queue, batch)


def test_limited_time_applies_to_waiting_and_later_work(pool: ThreadPoolExecutor) -> None:
    queue, first, second = WorkQueue(1000, 10), context(seconds=60), context(seconds=60)
    finished = submit(pool, queue, first, DoublingTask(), [1], [10])
    unfinished = submit(pool, queue, second, DoublingTask("other"), [1], [10])
    for request in (first, second):
        request.limit_time(0.5)
    finish(queue, queue.take_batch())
    assert finished.result(5) == [2]
    start = time.monotonic()
    with pytest.raises(Overloaded):  # such as the second model of a pivot
        queue.submit(WorkItem(first, DoublingTask("other"), [2], [1]))
    assert time.monotonic() - start < 5
    with pytest.raises(Overloaded):
        unfinished.result(5)
    queue.close()
    with pytest.raises(ShuttingDown):
        queue.submit(WorkItem(context(), DoublingTask(), [1], [1]))


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), MemoryError()])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_failing_item_does_not_affect_other_items(count: int, error: BaseException) -> None:
    task = DoublingTask(is_poison=lambda item: item == 1, error=error)
    results = run_bisecting_failures(task, list(range(count + 1)))
    assert results[1] is error
    assert [r for n, r in enumerate(results) if n != 1] == [0, *range(4, 2 * count + 1, 2)]


def test_worker_thread_survives_failing_items(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(1000, 100)
    workers = WorkerThreads(queue)
    task = DoublingTask(is_poison=lambda item: item == 13, error=SystemExit(3))
    failing = pool.submit(queue.submit, WorkItem(context("a"), task, [13], [5]))
    passing = pool.submit(queue.submit, WorkItem(context("b"), task, [1, 2], [5, 5]))
    assert isinstance(failing.result(10)[0], SystemExit)
    assert passing.result(10) == [2, 4]
    assert workers.restart_dead_threads() == 0
    workers.stop(5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_dead_worker_thread_delivers_results_and_is_restarted(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(1000, 100)
    errors = iter([RuntimeError("the thread ends")])

    def raise_once(*_: Any) -> None:
        for error in errors:
            raise error

    workers = WorkerThreads(queue, on_batch=raise_once)
    assert pool.submit(queue.submit, WorkItem(context(), DoublingTask(), [1], [1])).result(5) == [2]
    while workers.restart_dead_threads() == 0:
        time.sleep(0.01)
    assert pool.submit(queue.submit, WorkItem(context(), DoublingTask(), [4], [1])).result(5) == [8]
    workers.stop(5)


def test_task_with_too_few_results_fails_for_all_items() -> None:
    class LossyTask:
        def run(self, items: Sequence[int]) -> Sequence[int]:
            return list(items)[1:]

    results = run_bisecting_failures(LossyTask(), [1, 2])
    assert all(isinstance(result, RuntimeError) for result in results)


def test_time_of_hanging_batch_is_reported(pool: ThreadPoolExecutor) -> None:
    queue, release = WorkQueue(1000, 100), threading.Event()

    class HangingTask:
        def run(self, items: Sequence[int]) -> Sequence[int]:
            release.wait(20)
            return list(items)

    workers = WorkerThreads(queue)
    assert workers.longest_batch_seconds == 0
    future = pool.submit(queue.submit, WorkItem(context(seconds=0.2), HangingTask(), [1], [1]))
    with pytest.raises(DeadlineExceeded):
        future.result(5)
    assert workers.longest_batch_seconds >= 0.1
    release.set()
    workers.stop(5)


def test_overload_ends_in_results_or_rejections_in_time(pool: ThreadPoolExecutor) -> None:
    """Three times as much work is submitted as can be done."""
    queue = WorkQueue(400, 50, num_threads=1)
    workers = WorkerThreads(queue)
    deadline = 3.0

    def send(number: int) -> tuple[str, float]:
        start = time.monotonic()
        try:
            request = context(str(number % 8), deadline)
            results = queue.submit(WorkItem(request, DoublingTask(seconds=0.02), [number], [10]))
            assert results == [2 * number]
            return "result", time.monotonic() - start
        except Overloaded:
            return "overloaded", time.monotonic() - start

    outcomes = list(pool.map(send, range(300)))
    assert len(outcomes) == 300
    assert {kind for kind, _ in outcomes} == {"result", "overloaded"}
    assert (
        max(seconds for _, seconds in outcomes) < deadline + 1.0
    )  # allows for load on the machine
    workers.stop(5)


def test_batch_ends_early_when_its_requests_are_late() -> None:
    queue, num_steps = WorkQueue(1000, 100), 0

    def work() -> None:
        nonlocal num_steps
        while num_steps < 1000:
            check_cancelled()
            time.sleep(0.01)
            num_steps += 1

    workers = WorkerThreads(queue)
    with pytest.raises(DeadlineExceeded):
        queue.submit(WorkItem(context(seconds=0.1), UnbatchedTask(work), [None], [1]))
    done = WorkItem(context(), UnbatchedTask(lambda: "done"), [None], [1])
    assert queue.submit(done) == ["done"]
    assert num_steps < 100
    workers.stop(1)


def test_batch_continues_while_one_of_its_requests_is_active() -> None:
    late, active = context(seconds=-1.0), context()
    items = [WorkItem(each, UnbatchedTask(int), [None], [1]) for each in (late, active)]
    batch = WorkBatch(UnbatchedTask(int), [(item, 0) for item in items], 2)
    batch.raise_if_canceled()
    active.cancel()
    with pytest.raises(DeadlineExceeded):
        batch.raise_if_canceled()


def test_unbatched_tasks_leave_a_thread_to_other_work() -> None:
    queue, end = WorkQueue(1000, 100, num_threads=2), threading.Event()
    workers = WorkerThreads(queue, 2)
    slow = [WorkItem(context(name), UnbatchedTask(end.wait), [None], [1]) for name in "ab"]
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(queue.submit, each) for each in slow]
        while not queue.running_tokens:
            time.sleep(0.001)
        assert queue.submit(WorkItem(context("c"), DoublingTask(), [1], [1])) == [2]
        end.set()
        assert [each.result() for each in waiting] == [[True], [True]]
    workers.stop(1)
