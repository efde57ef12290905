"""Placeholders out of a sentence, so that it still reads well, and into its translation again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from seq2see.documents.guards import united
from seq2see.documents.passages import Extent
from seq2see.documents.ties import Anchor
from seq2see.translator.words import goes_on

_BRACKETS = frozenset(
    map("".join, zip("([{<\"'“‘«‹„「『（《", ")]}>\"'”’»›“」』）》", strict=True))
)
_SIGNS = "$€£¥#@%+*=~/\\|^&_-"
_OPENERS = "([{<“‘«‹„「『（《¿¡"
_CLOSERS = ".,;:!?…)]}»”’。，、！？；："


def widened(text: str, extents: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return placeholders with the brackets, quotes and signs that they would leave bare: "(%s)".

    What lies in one that was widened before is part of it, as each `%%` is in a long row of them.
    """
    result: list[Extent] = []
    for extent in extents:
        if not result or extent.end > result[-1].end:
            result.append(_widened(text, extent))
    return united(result)


def _widened(text: str, extent: Extent) -> Extent:
    start, end = extent
    while start > 0 and end < len(text) and text[start - 1] + text[end] in _BRACKETS:
        start, end = start - 1, end + 1
    while start > 0 and text[start - 1] in _SIGNS:
        start -= 1
    while end < len(text) and text[end] in _SIGNS:
        end += 1
    return Extent(start, end)


def rest(text: str, chunks: Sequence[Extent]) -> list[int]:
    """Return the places of what is left without the chunks, and without a space too many."""
    kept: list[int] = []
    done = 0
    for start, end in chunks:
        kept += range(done, start)
        done = end
        apart = not kept or text[kept[-1]].isspace()
        if apart and text[end : end + 1].isspace():
            done += 1
        elif apart and kept and (end == len(text) or text[end] in _CLOSERS):
            kept.pop()
    return [*kept, *range(done, len(text))]


class Insertion:
    """A text that things are put into, from left to right."""

    def __init__(self, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self._places: list[int] = []
        """Where in the target something was put in."""
        self._growth = [0]
        """By how much the text grew in all, before and behind each of them."""

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join([*self._parts, self._target[self._done :]])

    def insert(self, place: int, chunk: Extent) -> Anchor:
        """Put a chunk of the source in, with spaces around it where it had some, or needs them."""
        self._append(self._target[self._done : place])
        self._done = place
        if self._needs_space_before(chunk):
            self._append(" ")
        start = self._length
        self._append(self._source[chunk.start : chunk.end])
        end = self._length
        if self._needs_space_behind(place, chunk):
            self._append(" ")
        self._places.append(place)
        self._growth.append(self._length - place)
        return Anchor(chunk, Extent(start, end))

    def _append(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _needs_space_before(self, chunk: Extent) -> bool:
        here = self._parts[-1][-1] if self._parts else ""
        there = self._source[chunk.start - 1] if chunk.start else ""
        return _needs_space(here, there, _OPENERS)

    def _needs_space_behind(self, place: int, chunk: Extent) -> bool:
        here, there = self._target[place : place + 1], self._source[chunk.end : chunk.end + 1]
        return _needs_space(here, there, _CLOSERS)

    def carried(self, extent: Extent) -> Extent:
        """Return where characters of the target are now."""
        first = bisect_right(self._places, extent.start)
        last = max(first, bisect_left(self._places, extent.end))
        return Extent(extent.start + self._growth[first], extent.end + self._growth[last])


def _needs_space(here: str, there: str, close: str) -> bool:
    """Tell if a space goes between a thing and its new neighbour, by what its old one was."""
    if not here or here.isspace():
        return False
    if there.isspace():
        return here not in close
    return goes_on(here) and not (there and goes_on(there))
