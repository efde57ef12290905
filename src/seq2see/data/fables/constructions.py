"""The list of constructions, which the grammar's files fill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seq2see.data.fables.phrases import Phrase
from seq2see.data.fables.writer import Writer

Make = Callable[[Writer], Phrase]


@dataclass(frozen=True, slots=True)
class Construction:
    """A way to make a sentence."""

    name: str
    make: Make
    weight: int
    short: bool
    """Whether the short corpus has it."""


CONSTRUCTIONS: list[Construction] = []


def construction(weight: int = 3, short: bool = False) -> Callable[[Make], Make]:
    """Add a function to the list under its name."""

    def add(make: Make) -> Make:
        CONSTRUCTIONS.append(Construction(make.__name__, make, weight, short))
        return make

    return add
