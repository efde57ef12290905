"""How much of what is held out for tests has slipped into the training text."""

from __future__ import annotations

from collections.abc import Iterable

from seq2see.data.doctor.report import Overlap
from seq2see.data.doctor.words import fold
from seq2see.data.readers import Pair


class HeldOut:
    """Pairs of test sets, by their hashes, and which of them were seen."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        self._given = pairs != ()  # an empty test set is worth a word, none at all is not
        self._rows = [_hashes(pair) for pair in pairs]
        self._wanted = [frozenset(row[kind] for row in self._rows) for kind in range(3)]
        self._seen: list[set[int]] = [set(), set(), set()]
        self.sources = self._wanted[1] - {hash("")}
        """The sources, folded; one that has no words is nobody's."""

    def look_at(self, pairs: Iterable[Pair]) -> None:
        """Remember which of the held-out ones are among these."""
        if self._rows:
            for kind, hashes in enumerate(zip(*map(_hashes, pairs), strict=True)):
                self._seen[kind] |= self._wanted[kind].intersection(hashes)

    def overlap(self) -> Overlap | None:
        """Count the held-out pairs that were seen; None if no test set was given."""
        if not self._given:
            return None
        counts = (sum(row[kind] in self._seen[kind] for row in self._rows) for kind in range(3))
        return Overlap(len(self._rows), *counts)


def _hashes(pair: Pair) -> tuple[int, int, int]:
    source = fold(pair.source)
    return hash(pair.source.strip()), hash(source), hash((source, fold(pair.target)))
