"""The queue and its workers: bounded, fair, in time; nothing lost, and faults stay alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from seq2see.serve.errors import Busy, Draining, Gone, Late
from seq2see.serve.work_queue import Alone, Batch, Call, Workers, WorkQueue, attempt


@dataclass(frozen=True)
class Double:
    """Doubles numbers; remembers nothing that makes it unequal to another of its name."""

    name: str = ""
    seconds: float = 0.0
    seen: list[list[Any]] = field(default_factory=list, compare=False)
    poison: Callable[[Any], bool] = field(default=lambda _: False, compare=False)
    error: BaseException = field(default_factory=lambda: ValueError("poison"), compare=False)

    def run(self, items: Sequence[int]) -> Sequence[int]:
        self.seen.append(list(items))
        time.sleep(self.seconds)
        if any(map(self.poison, items)):
            raise self.error
        return [2 * item for item in items]


def soon(client: str = "a", seconds: float = 20.0) -> Call:
    return Call.within(seconds, client)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as threads:
        yield threads


def queued(pool: ThreadPoolExecutor, queue: WorkQueue, *submission: Any) -> Future[list[Any]]:
    """Submit from another thread, and wait until it stands in the queue."""
    before = queue.waiting
    future = pool.submit(queue.submit, *submission)
    while queue.waiting == before and not future.done():
        time.sleep(0.001)
    return future


def done(queue: WorkQueue, batch: Batch | None, seconds: float = 0.01) -> None:
    assert batch is not None
    queue.done(batch, attempt(batch.task, batch.items), seconds)


def test_every_item_comes_back_once_and_in_order(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10_000, 50)
    workers = Workers(queue, 3)
    jobs = [list(range(n, n + n % 7)) for n in range(60)]
    futures = [
        pool.submit(queue.submit, soon(str(n % 5)), Double(str(n % 2)), job, [3] * len(job))
        for n, job in enumerate(jobs)
    ]
    for job, future in zip(jobs, futures, strict=True):
        assert future.result(20) == [2 * item for item in job]
    assert (queue.waiting, queue.running) == (0, 0)
    workers.stop(5)


def test_items_of_equal_tasks_share_a_batch_up_to_the_budget(pool: ThreadPoolExecutor) -> None:
    queue, task = WorkQueue(1000, 10), Double("x")
    first = queued(pool, queue, soon("a"), task, [1, 2], [3, 3])
    second = queued(pool, queue, soon("b"), Double("x"), [3, 4], [3, 3])
    other = queued(pool, queue, soon("c"), Double("y"), [5], [3])
    batch = queue.take()
    assert batch is not None
    assert (batch.items, batch.cost) == ([1, 2, 3], 9)
    done(queue, batch)
    assert first.result(5) == [2, 4]
    done(queue, queue.take())
    done(queue, queue.take())
    assert (second.result(5), other.result(5)) == ([6, 8], [10])


def test_an_item_above_the_budget_goes_alone(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10_000, 10)
    future = queued(pool, queue, soon(), Double(), [1, 2], [5000, 1])
    batch = queue.take()
    assert batch is not None
    assert batch.items == [1]
    done(queue, batch)
    done(queue, queue.take())
    assert future.result(5) == [2, 4]


def test_a_small_request_does_not_wait_for_a_large_one(pool: ThreadPoolExecutor) -> None:
    """The one with a thousand items gets its share and no more; order within it stays."""
    queue, task = WorkQueue(10_000_000, 1024), Double()
    large = queued(pool, queue, soon("large"), task, list(range(1000)), [100] * 1000)
    done(queue, queue.take())
    small = queued(pool, queue, soon("small"), task, [7], [100])
    done(queue, queue.take())
    assert small.result(5) == [14]
    while queue.waiting:
        done(queue, queue.take())
    assert large.result(5) == [2 * n for n in range(1000)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), min_size=1, max_size=40))
def test_clients_with_work_get_the_same_share(jobs: list[tuple[str, int]]) -> None:
    """While two have work, neither is ahead of the other by more than a turn and an item."""
    queue = WorkQueue(10**9, 600)
    taken = {"a": 0, "b": 0, "c": 0}
    left = {name: sum(cost for client, cost in jobs if client == name) for name in taken}
    for client, cost in jobs:
        queue._enter(soon(client), Double(), [client], [cost])
    while queue.waiting:
        batch = queue.take()
        assert batch is not None
        for (ticket, place), client in zip(batch.places, batch.items, strict=True):
            taken[client] += ticket._costs[place]
        busy = [name for name in taken if left[name] and taken[name] < left[name]]
        shares = [taken[name] for name in busy]
        assert not shares or max(shares) - min(shares) <= 512 + 40
        done(queue, batch)


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(10, 10)
    first = queued(pool, queue, soon(), Double(), [1, 2], [4, 4])
    start = time.monotonic()
    with pytest.raises(Busy) as refused:
        queue.submit(soon(), Double(), [3], [4])
    assert time.monotonic() - start < 1
    assert int(refused.value.headers["Retry-After"]) >= 1
    assert refused.value.status == 429
    done(queue, queue.take())
    assert first.result(5) == [2, 4]


def test_what_cannot_be_done_in_time_is_refused_at_once(pool: ThreadPoolExecutor) -> None:
    """The speed is known from the batches before."""
    queue = WorkQueue(10_000, 10)
    queued(pool, queue, soon(), Double(), [1], [10])
    done(queue, queue.take(), seconds=1.0)  # ten tokens a second
    slow = queued(pool, queue, soon(), Double(), [1] * 10, [10] * 10)
    start = time.monotonic()
    with pytest.raises(Busy):
        queue.submit(soon(seconds=5), Double(), [1], [10])
    assert time.monotonic() - start < 2  # and not by its deadline
    patient = queued(pool, queue, soon(seconds=60), Double(), [3], [10])
    while queue.waiting:
        done(queue, queue.take())
    assert slow.result(5) == [2] * 10
    assert patient.result(5) == [6]


def worked(queue: WorkQueue, task: Any, cost: int, seconds: float) -> None:
    """Do one item of a cost in a time."""
    queue._enter(soon(), task, [1], [cost])
    done(queue, queue.take(), seconds)


def test_small_batches_say_little_about_a_burst() -> None:
    """Sentences of one request and then of many: the latter share batches, and have time."""
    queue = WorkQueue(200_000, 4096)
    for turn in range(30):
        worked(queue, Double(), 8 + turn % 3, 0.05 + 0.01 * (turn * 7 % 4))
    for number in range(64):
        queue._enter(soon(str(number), 28.0), Double(), [1] * 16, [20] * 16)
    done(queue, queue.take(), seconds=10.0)
    with pytest.raises(Busy):
        queue._enter(soon("z", 28.0), Double(), [1], [20])


def test_what_goes_alone_says_nothing_about_batches() -> None:
    queue = WorkQueue(10_000, 10)
    worked(queue, Alone(lambda: 1), 10, 100.0)
    for _ in range(3):
        queue._enter(soon(seconds=5), Double(), [1], [10])


def test_a_client_pays_for_what_it_had_when_it_comes_again() -> None:
    """One sends what is dear, one thing after the other; the other has a lot that is cheap."""
    queue, had = WorkQueue(10**9, 1000), {"dear": 0, "cheap": 0}
    queue._enter(soon("cheap"), Double(), [1] * 100, [500] * 100)
    dear = None
    for _ in range(12):
        if dear is None or dear.is_done:
            dear = queue._enter(soon("dear"), Alone(lambda: 1), [None], [3000])
        batch = queue.take()
        assert batch is not None
        had[batch.places[0][0].call.client] += batch.cost
        done(queue, batch)
    assert abs(had["dear"] - had["cheap"]) <= 4000


def test_a_deadline_in_the_queue_is_busy_and_one_in_the_engine_is_late(
    pool: ThreadPoolExecutor,
) -> None:
    queue = WorkQueue(1000, 10)
    waiting = queued(pool, queue, soon(seconds=0.1), Double(), [1], [10])
    with pytest.raises(Busy):
        waiting.result(5)
    assert queue.waiting == 0
    running = queued(pool, queue, soon(seconds=0.3), Double(), [2], [10])
    batch = queue.take()
    with pytest.raises(Late):
        running.result(5)
    done(queue, batch)  # too late, and nobody minds
    assert queue.running == 0


def test_what_is_cancelled_or_over_never_enters_a_batch(pool: ThreadPoolExecutor) -> None:
    queue, task = WorkQueue(1000, 100), Double()
    gone, late, alive = soon("gone"), soon("late", 0.05), soon("alive")
    futures = [queued(pool, queue, call, task, [n], [5]) for n, call in enumerate((gone, late))]
    survivor = queued(pool, queue, alive, task, [9], [5])
    gone.cancel()
    with pytest.raises(Gone):
        futures[0].result(5)
    time.sleep(0.1)
    batch = queue.take()
    assert batch is not None
    assert batch.items == [9]
    done(queue, batch)
    assert survivor.result(5) == [18]
    with pytest.raises(Busy):
        futures[1].result(5)


def test_what_a_worker_sweeps_out_at_its_deadline_is_not_done(pool: ThreadPoolExecutor) -> None:
    queue, late = WorkQueue(1000, 100), soon("late")
    future = queued(pool, queue, late, Double(), [1], [5])
    survivor = queued(pool, queue, soon("alive"), Double(), [9], [5])
    late.deadline = time.monotonic() - 1  # its thread looks at the clock again in a second
    done(queue, queue.take())
    assert survivor.result(5) == [18]
    with pytest.raises(Busy):
        future.result(5)


def test_cancelling_takes_out_the_rest_of_a_request_that_has_begun(
    pool: ThreadPoolExecutor,
) -> None:
    queue, call = WorkQueue(1000, 10), soon()
    future = queued(pool, queue, call, Double(), [1, 2], [10, 10])
    batch = queue.take()
    call.cancel()
    with pytest.raises(Gone):
        future.result(5)
    assert queue.waiting == 0
    done(queue, batch)


def test_draining_finishes_what_is_there_in_time(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(1000, 10)
    inside = queued(pool, queue, soon(), Double(), [1], [10])
    never = queued(pool, queue, soon(seconds=60), Double("other"), [1], [10])
    queue.drain(0.5)
    done(queue, queue.take())
    assert inside.result(5) == [2]
    start = time.monotonic()
    with pytest.raises(Busy):  # a call in the middle, such as the second model of a chain
        queue.submit(soon(seconds=60), Double("other"), [2], [1])
    assert time.monotonic() - start < 5
    with pytest.raises(Busy):
        never.result(5)
    queue.close()
    with pytest.raises(Draining):
        queue.submit(soon(), Double(), [1], [1])


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), MemoryError()])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_poison_fails_alone(count: int, error: BaseException) -> None:
    task = Double(poison=lambda item: item == 1, error=error)
    outcomes = attempt(task, list(range(count + 1)))
    assert outcomes[1] is error
    assert [o for n, o in enumerate(outcomes) if n != 1] == [0, *range(4, 2 * count + 1, 2)]


def test_a_worker_survives_poison(pool: ThreadPoolExecutor) -> None:
    queue = WorkQueue(1000, 100)
    workers = Workers(queue)
    task = Double(poison=lambda item: item == 13, error=SystemExit(3))
    bad = pool.submit(queue.submit, soon("a"), task, [13], [5])
    good = pool.submit(queue.submit, soon("b"), task, [1, 2], [5, 5])
    assert isinstance(bad.result(10)[0], SystemExit)
    assert good.result(10) == [2, 4]
    assert workers.revive() == 0
    workers.stop(5)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_leaves_no_one_waiting_and_is_replaced(
    pool: ThreadPoolExecutor,
) -> None:
    queue = WorkQueue(1000, 100)
    deaths = iter([RuntimeError("the thread ends")])

    def after(*_: Any) -> None:
        for death in deaths:
            raise death

    workers = Workers(queue, after_batch=after)
    assert pool.submit(queue.submit, soon(), Double(), [1], [1]).result(5) == [2]
    while workers.revive() == 0:
        time.sleep(0.01)
    assert pool.submit(queue.submit, soon(), Double(), [4], [1]).result(5) == [8]
    workers.stop(5)


def test_a_task_that_miscounts_fails_whole() -> None:
    class Lossy:
        def run(self, items: Sequence[int]) -> Sequence[int]:
            return list(items)[1:]

    assert all(isinstance(outcome, RuntimeError) for outcome in attempt(Lossy(), [1, 2]))


def test_a_batch_that_hangs_is_seen(pool: ThreadPoolExecutor) -> None:
    queue, release = WorkQueue(1000, 100), threading.Event()

    class Stuck:
        def run(self, items: Sequence[int]) -> Sequence[int]:
            release.wait(20)
            return list(items)

    workers = Workers(queue)
    assert workers.longest == 0
    future = pool.submit(queue.submit, soon(seconds=0.2), Stuck(), [1], [1])
    with pytest.raises(Late):
        future.result(5)
    assert workers.longest >= 0.1
    release.set()
    workers.stop(5)


def test_three_times_too_much_work_is_done_or_refused_never_lost(
    pool: ThreadPoolExecutor,
) -> None:
    queue = WorkQueue(400, 50, workers=1)
    workers = Workers(queue)
    deadline = 3.0

    def client(number: int) -> tuple[str, float]:
        start = time.monotonic()
        try:
            found = queue.submit(
                soon(str(number % 8), deadline), Double(seconds=0.02), [number], [10]
            )
            assert found == [2 * number]
            return "result", time.monotonic() - start
        except Busy:
            return "busy", time.monotonic() - start

    answers = list(pool.map(client, range(300)))
    kinds = [kind for kind, _ in answers]
    assert len(answers) == 300
    assert {"result", "busy"} == set(kinds)
    assert max(seconds for _, seconds in answers) < deadline + 1.0  # and others' load
    workers.stop(5)
