"""A corpus, some thousand lines at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from seq2see.data.doctor.words import words
from seq2see.data.readers import Pair
from seq2see.errors import InputError

SIDES = Pair._fields
_LINES = 4096

Progress = Callable[[str, int], None]
"""Hears what the doctor does ("reading", "judging") and how many lines are done."""


@dataclass(frozen=True)
class Batch:
    """Some pairs that follow each other."""

    start: int
    """The place of the first, counted from 0."""
    pairs: Sequence[Pair]

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The lines of each side."""
        return [pair.source for pair in self.pairs], [pair.target for pair in self.pairs]

    @cached_property
    def words(self) -> tuple[list[list[str]], list[list[str]]]:
        """The words of each line of each side."""
        source, target = self.sides
        return [words(line) for line in source], [words(line) for line in target]


def batches(pairs: Iterable[Pair], doing: str, progress: Progress | None) -> Iterator[Batch]:
    """Read the pairs from the first on."""
    if isinstance(pairs, Iterator):
        raise InputError(
            "`pairs` must be a list, a `Corpus` or the like, which can be read twice, "
            "but is an iterator instead"
        )
    rest, start = iter(pairs), 0
    while chunk := list(islice(rest, _LINES)):
        yield Batch(start, chunk)
        start += len(chunk)
        if progress:
            progress(doing, start)
