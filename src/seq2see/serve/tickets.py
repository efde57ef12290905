"""What goes through the queue: calls, the tickets of their work, and batches of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from seq2see.serve.problems import Gone, Late


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
