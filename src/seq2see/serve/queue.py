"""The queue in front of the engine: bounded, fair between clients, in batches by tokens.

Whoever has work calls `submit` and then `Ticket.results`; a worker calls `take` and gets a batch of
whatever can be done together, from whomever it is. The queue knows neither models nor HTTP.

Fairness is by tokens: each client has a lane with a clock that runs by what was taken from it, and
the lane that is behind goes next. A lane that was empty starts at the clock of the others, so that
nobody saves up time by being away, or at its own, so that nobody is let off what was taken.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heapreplace
from typing import Any

from seq2see.serve.pace import Pace
from seq2see.serve.problems import Busy, Draining, Gone, Late
from seq2see.serve.tickets import Alone, Batch, Call, Task, Ticket

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
