"""The atoms of a pair of tags, shared out among the pairs inside it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from seq2see.documents.passages import Extent


class Room:
    """The atoms of a pair, and which of them are taken by the pairs directly inside it."""

    def __init__(self, extent: Extent) -> None:
        self.extent = extent
        self._taken: list[Extent] = []
        """In order; neighbours are joined, so that what is free next is found at once."""

    @property
    def is_untouched(self) -> bool:
        """Tell if nothing is taken yet."""
        return not self._taken

    def take(self, stretch: Extent) -> None:
        """Give away a stretch that is free."""
        start, end = stretch
        if start == end:
            return
        first = last = bisect_left(self._taken, stretch)
        if first and self._taken[first - 1].end == start:
            first -= 1
            start = self._taken[first].start
        if last < len(self._taken) and self._taken[last].start == end:
            end = self._taken[last].end
            last += 1
        self._taken[first:last] = [Extent(start, end)]

    def nearest_free(self, atom: int) -> int | None:
        """Return the free atom that is nearest to another, the first of two; None: all are gone."""
        start, end = self.extent
        if start == end:
            return None
        here = min(max(atom, start), end - 1)
        at = bisect_right(self._taken, here, key=lambda taken: taken.start) - 1
        if at < 0 or here >= self._taken[at].end:
            return here
        around = (self._taken[at].start - 1, self._taken[at].end)
        free = (place for place in around if start <= place < end)
        return min(free, key=lambda place: abs(place - atom), default=None)
