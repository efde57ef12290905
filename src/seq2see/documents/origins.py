"""A translation cut into atoms (words, and punctuation at their edges), and where each is from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from seq2see.documents.passages import Extent, Mark
from seq2see.documents.ties import CHUNK, Tie, core, parts

_UNALIGNED = -0.1
"""What an atom that came from nowhere costs a stretch: it is bridged, but not sought."""


class Origin(NamedTuple):
    """An atom, and a tie that it has."""

    tie: Tie
    atom: int


class Origins:
    """Where atoms came from, by the places of the source."""

    def __init__(self, atoms: Sequence[Extent], ties: Sequence[Tie]) -> None:
        rows = sorted(Origin(tie, atom) for tie in ties for atom in _covered(atoms, tie.target))
        self._by_size = defaultdict[int, list[Origin]](list)
        """Apart by the size of their words, in powers of two: one long link among many short words
        would else have all of them looked at for each mark."""
        self._totals = [0.0] * len(atoms)
        strongest: dict[int, Origin] = {}
        for row in rows:
            self._by_size[_size(row.tie)].append(row)
            self._totals[row.atom] += row.tie.weight
            other = strongest.get(row.atom)
            if other is None or row.tie.weight > other.tie.weight:
                strongest[row.atom] = row
        self._hard = sorted(strongest.values(), key=lambda r: (r.tie.source.start, -r.tie.weight))

    def fits(self, mark: Mark) -> dict[int, float]:
        """Return from -1 to 1 how much of an atom came from inside of a mark, if any of it did.

        Those from nowhere cost a little, since they are bridged, but not sought.
        """
        shares = defaultdict[int, float](float)
        for size, rows in self._by_size.items():
            first = bisect_left(rows, mark.start - (1 << size), key=_place)
            for tie, atom in rows[first : bisect_left(rows, mark.end, key=_place)]:
                if share := _share(tie.source, mark):
                    shares[atom] += tie.weight * share
        result = {atom: 2 * s / (self._totals[atom] or 1) - 1 for atom, s in shares.items()}
        for atom in range(min(result, default=0), max(result, default=0)):
            result.setdefault(atom, -1 if self._totals[atom] else _UNALIGNED)
        return result

    def around(self, place: int) -> tuple[Origin | None, Origin | None]:
        """Return what became of the words before and behind a place of the source."""
        at = bisect_left(self._hard, place, key=_place)
        before = self._hard[at - 1] if at else None
        if before:  # the strongest of the ties of that word
            before = self._hard[bisect_left(self._hard, _place(before), key=_place)]
        return before, self._hard[at] if at < len(self._hard) else None


def _place(origin: Origin) -> int:
    return origin.tie.source.start


def _size(tie: Tie) -> int:
    """Return the power of two that the words of a tie are shorter than."""
    return (tie.source.end - tie.source.start).bit_length()


def _covered(atoms: Sequence[Extent], extent: Extent) -> range:
    """Return the atoms that an extent has a part of."""
    first = bisect_right(atoms, extent.start, key=lambda atom: atom.end)
    return range(first, bisect_left(atoms, extent.end, key=lambda atom: atom.start))


def atoms_of(text: str, ties: Iterable[Tie], whole: Sequence[Extent]) -> list[Extent]:
    """Cut a text into words and punctuation; what must stay whole is one."""
    cuts = {0, len(text)}
    for chunk in CHUNK.finditer(text):
        for part in parts(Extent(*chunk.span()), core(text, Extent(*chunk.span()))):
            cuts.update(part)
    for tie in ties:
        cuts.update(tie.target)
    row = sorted(cuts)
    for start, end in whole:
        cuts.difference_update(row[bisect_right(row, start) : bisect_left(row, end)])
        cuts.update((start, end))
    kept = set(whole)
    pieces = (Extent(*piece) for piece in pairwise(sorted(cuts)))
    atoms = (piece if piece in kept else _trimmed(text, piece) for piece in pieces)
    return [atom for atom in atoms if atom.start < atom.end]


def _trimmed(text: str, piece: Extent) -> Extent:
    words = text[piece.start : piece.end]
    start = piece.start + len(words) - len(words.lstrip())
    return Extent(start, start + len(words.strip()))


def _share(extent: Extent, mark: Mark) -> float:
    """Return how much of an extent is inside of a mark."""
    common = min(extent.end, mark.end) - max(extent.start, mark.start)
    return max(common, 0) / (extent.end - extent.start)
