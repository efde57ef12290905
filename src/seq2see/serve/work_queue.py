"""Bounded queue in front of the engine, fair by tokens, and the threads that work on it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import Any, Protocol

from seq2see.serve.errors import Busy, Draining, Gone, Late


class Task(Hashable, Protocol):
    """What is to be done. Items of equal tasks can be done together."""

    def run(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return an outcome for each item; an exception as an outcome is that item's own."""
        ...


@dataclass(eq=False, slots=True)
class Alone:
    """A task that equals no other, so that no batch can share it."""

    work: Callable[[], Any]

    def run(self, items: Sequence[None]) -> Sequence[Any]:
        """Do it."""
        return [self.work() for _ in items]


@dataclass(eq=False, slots=True)
class Call:
    """A request as the queue sees it: whose it is, until when, and whether somebody still waits."""

    client: str
    deadline: float
    """By `time.monotonic()`."""
    is_cancelled: bool = False
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def within(cls, seconds: float, client: str = "") -> Call:
        """Return a call that has so many seconds from now."""
        return cls(client, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline - time.monotonic()

    def still_wanted(self) -> None:
        """Raise if nobody waits any more or the time is over: for work that goes on in steps."""
        if self.is_cancelled:
            raise Gone("the client has left")
        if self.left <= 0:
            raise Late("the deadline came before the end of the work")

    def cancel(self) -> None:
        """Say that nobody waits any more; whoever works for it hears at once."""
        self.is_cancelled = True
        for listener in list(self._listeners):
            listener()

    def on_cancel(self, listener: Callable[[], None]) -> None:
        """Name somebody who hears of it."""
        self._listeners.append(listener)
        if self.is_cancelled:
            listener()

    def forget(self, listener: Callable[[], None]) -> None:
        """Undo `on_cancel`."""
        self._listeners.remove(listener)


class Ticket:
    """Items of one call that are under way."""

    def __init__(
        self, call: Call, task: Task, items: Sequence[Any], costs: Sequence[int], number: int
    ) -> None:
        self.call, self.task, self.number = call, task, number
        self.started = False
        self.finished = threading.Event()
        self._items, self._costs = items, costs
        self._taken = 0
        self._open = len(items)
        self._outcomes: list[Any] = [None] * len(items)

    @property
    def is_live(self) -> bool:
        """Whether it is worth any work: somebody waits, and there is time."""
        return not self.call.is_cancelled and self.call.left > 0

    @property
    def waiting_cost(self) -> int:
        """Tokens that no batch has taken yet."""
        return sum(self._costs[self._taken :])

    def take(self, budget: int, at_least_one: bool) -> tuple[list[tuple[Ticket, int]], int]:
        """Return the next items within the budget, each with its ticket, and their cost."""
        places: list[tuple[Ticket, int]] = []
        cost = 0
        while self._taken < len(self._items):
            more = self._costs[self._taken]
            if cost + more > budget and not (at_least_one and not places):
                break
            places.append((self, self._taken))
            cost += more
            self._taken += 1
        return places, cost

    def item(self, place: int) -> Any:
        """Return an item."""
        return self._items[place]

    @property
    def is_taken(self) -> bool:
        """Whether every item is in some batch."""
        return self._taken == len(self._items)

    @property
    def is_done(self) -> bool:
        """Whether every outcome is there; one that was given up is `finished`, too."""
        return self._open == 0

    def deliver(self, place: int, outcome: Any) -> None:
        """Take an outcome in; the last one finishes the ticket. For the one worker that has it."""
        self._outcomes[place] = outcome
        self._open -= 1
        if self.is_done:
            self.finished.set()

    def outcomes(self) -> list[Any]:
        """Return what was delivered."""
        return self._outcomes


@dataclass(slots=True)
class Batch:
    """Items that one call of the engine does."""

    task: Task
    places: list[tuple[Ticket, int]]
    cost: int

    @property
    def items(self) -> list[Any]:
        """The items, of whichever tickets."""
        return [ticket.item(place) for ticket, place in self.places]


_MEMORY = 0.95
"""The weight of a batch, seen from the next one."""


_SPREAD = 0.1
"""The part of a full batch by which sizes must differ before the slope of the line counts for
half: times are noisy, and a full batch is far from small ones."""


class Pace:
    """The speed of one worker."""

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._count = self._tokens = self._seconds = self._squares = self._products = 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """Take in how long a batch took."""
        self._count = _MEMORY * self._count + 1
        self._tokens = _MEMORY * self._tokens + tokens
        self._seconds = _MEMORY * self._seconds + seconds
        self._squares = _MEMORY * self._squares + tokens * tokens
        self._products = _MEMORY * self._products + tokens * seconds

    def seconds(self, tokens: int) -> float:
        """Return how long so many tokens will take, in full batches; 0 if nothing is known."""
        if not self._count or not tokens:
            return 0.0
        size, time = self._tokens / self._count, self._seconds / self._count
        spread = self._squares / self._count - size * size
        together = self._products / self._count - size * time
        slope = together / (spread + (_SPREAD * self._batch_tokens) ** 2)
        per_token = min(max(slope, 0.0), time / size)
        per_batch = time - per_token * size
        return per_batch * max(1.0, tokens / self._batch_tokens) + per_token * tokens


_QUANTUM = 512
"""Tokens taken from a lane before the next one's turn: most requests go whole into a batch."""


_MOST_CLIENTS = 10_000
"""Clients without work whose clocks are remembered."""


_PATIENCE = 0.8
"""A request is refused if the work before it would take more than this part of its time."""


_LOOK_UP = 1.0
"""Seconds after which whoever waits looks at the deadline again: `drain` may bring it forward."""


class _Lane:
    """What a client has waiting, oldest first."""

    def __init__(self, clock: float) -> None:
        self.clock = clock
        self.tickets: deque[Ticket] = deque()

    def first_of(self, task: Task) -> Ticket | None:
        return next((ticket for ticket in self.tickets if ticket.task == task), None)


class WorkQueue:
    """See the module. All of it may be called from any thread."""

    def __init__(self, capacity: int, batch_tokens: int, workers: int = 1) -> None:
        self.capacity, self.batch_tokens, self.workers = capacity, batch_tokens, workers
        self._pace = Pace(batch_tokens)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lanes: dict[str, _Lane] = {}
        self._clock = 0.0
        self._ahead: dict[str, float] = {}
        """Clocks of lanes that are empty now, if they are ahead of the others'."""
        self._waiting = self._running = 0
        self._numbers = 0
        self._closed = False
        self._end = math.inf

    @property
    def waiting(self) -> int:
        """Tokens that wait."""
        return self._waiting

    @property
    def running(self) -> int:
        """Tokens that the engine has."""
        return self._running

    def submit(
        self, call: Call, task: Task, items: Sequence[Any], costs: Sequence[int]
    ) -> list[Any]:
        """Do items of a task and return their outcomes, or raise a `Problem` by the deadline."""
        ticket = self._enter(call, task, items, costs)
        listener = lambda: self._drop(ticket)  # noqa: E731 it is named to be forgotten again
        call.on_cancel(listener)
        try:
            while call.left > 0 and not ticket.finished.wait(min(call.left, _LOOK_UP)):
                pass
        finally:
            call.forget(listener)
        return self._outcomes(ticket)

    def take(self) -> Batch | None:
        """Wait for work and return a batch; None when the queue is closed."""
        with self._lock:
            while True:
                if self._closed:
                    return None
                self._sweep()
                if self._lanes:
                    return self._batch()
                self._changed.wait()

    def done(self, batch: Batch, outcomes: Sequence[Any], seconds: float) -> None:
        """Hand in what became of a batch, and how long it took."""
        with self._lock:
            self._running -= batch.cost
            if not isinstance(batch.task, Alone):  # its cost is a guess, and it is no batch
                self._pace.note(batch.cost, seconds)
            if not self._lanes and not self._running:
                self._ahead.clear()
            for (ticket, place), outcome in zip(batch.places, outcomes, strict=True):
                ticket.deliver(place, outcome)

    def drain(self, seconds: float) -> None:
        """Give whatever is here, and what a call in the middle still brings, so many seconds."""
        with self._lock:
            self._end = time.monotonic() + seconds
            for lane in self._lanes.values():
                for ticket in lane.tickets:
                    ticket.call.deadline = min(ticket.call.deadline, self._end)

    def close(self) -> None:
        """Let the workers go."""
        with self._lock:
            self._closed = True
            self._changed.notify_all()

    def estimated_wait(self, cost: int = 0) -> float:
        """Return the seconds until work of this cost would be done."""
        return self._pace.seconds(self._waiting + self._running + cost) / self.workers

    def _enter(self, call: Call, task: Task, items: Sequence[Any], costs: Sequence[int]) -> Ticket:
        with self._lock:
            if self._closed:
                raise Draining("the service is about to end")
            call.deadline = min(call.deadline, self._end)
            self._refuse_overload(call, sum(costs))
            self._numbers += 1
            ticket = Ticket(call, task, items, costs, self._numbers)
            if not items:
                ticket.finished.set()
                return ticket
            self._lane(call.client).tickets.append(ticket)
            self._waiting += sum(costs)
            self._changed.notify()
            return ticket

    def _lane(self, client: str) -> _Lane:
        if client not in self._lanes:
            self._lanes[client] = _Lane(max(self._clock, self._ahead.pop(client, 0.0)))
        return self._lanes[client]

    def _leave(self, client: str) -> None:
        """Take an empty lane away, and remember what it has had."""
        lane = self._lanes.pop(client)
        if lane.clock > self._clock and len(self._ahead) < _MOST_CLIENTS:
            self._ahead[client] = lane.clock

    def _refuse_overload(self, call: Call, cost: int) -> None:
        wait = self.estimated_wait(cost)
        full = self._waiting > 0 and self._waiting + cost > self.capacity
        if full or (self._waiting > 0 and wait > _PATIENCE * call.left):
            raise Busy("Slowdown: too many requests at the moment", max(1.0, wait / 2))

    def _outcomes(self, ticket: Ticket) -> list[Any]:
        if ticket.is_done and not ticket.call.is_cancelled:
            return ticket.outcomes()
        self._drop(ticket)
        if ticket.call.is_cancelled:
            raise Gone("the client has left")
        if not ticket.started:
            raise Busy("Slowdown: too many requests at the moment", self.estimated_wait())
        raise Late("the deadline came before the translation")

    def _drop(self, ticket: Ticket) -> None:
        """Take out what no batch has taken; nobody waits for it."""
        with self._lock:
            lane = self._lanes.get(ticket.call.client)
            if lane and ticket in lane.tickets:
                lane.tickets.remove(ticket)
                self._waiting -= ticket.waiting_cost
                if not lane.tickets:
                    self._leave(ticket.call.client)
        ticket.finished.set()

    def _sweep(self) -> None:
        dead = [t for lane in self._lanes.values() for t in lane.tickets if not t.is_live]
        for ticket in dead:
            self._drop(ticket)

    def _batch(self) -> Batch:
        """Fill a batch: the lane that is behind says what for, the others join in their turn."""
        behind = min(self._lanes.values(), key=lambda lane: (lane.clock, lane.tickets[0].number))
        task = behind.tickets[0].task
        places: list[tuple[Ticket, int]] = []
        cost = 0
        turns = [(lane.clock, n, lane) for n, lane in enumerate(self._lanes.values())]
        heapify(turns)
        while turns and cost < self.batch_tokens:
            clock, number, lane = turns[0]
            ticket = lane.first_of(task)
            room = min(_QUANTUM, self.batch_tokens - cost)
            taken, price = ticket.take(room, not places or room == _QUANTUM) if ticket else ([], 0)
            if not ticket or not taken:
                heappop(turns)
                continue
            self._account(lane, ticket, clock, price)
            places += taken
            cost += price
            heapreplace(turns, (lane.clock, number, lane))
        self._waiting -= cost
        self._running += cost
        for client in [name for name, lane in self._lanes.items() if not lane.tickets]:
            self._leave(client)
        self._ahead = {name: clock for name, clock in self._ahead.items() if clock > self._clock}
        return Batch(task, places, cost)

    def _account(self, lane: _Lane, ticket: Ticket, clock: float, price: int) -> None:
        ticket.started = True
        self._clock = max(self._clock, clock)
        lane.clock = clock + price
        if ticket.is_taken:
            lane.tickets.remove(ticket)


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
