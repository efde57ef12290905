"""Placeholders out of a sentence, so that it still reads well, and into its translation again."""

from __future__ import annotations

from collections.abc import Sequence

from seq2see.documents.passages import Extent
from seq2see.documents.ties import Anchor
from seq2see.translator.words import goes_on

_BRACKETS = frozenset(
    map("".join, zip("([{<\"'“‘«‹„「『（《", ")]}>\"'”’»›“」』）》", strict=True))
)
_SIGNS = "$€£¥#@%+*=~/\\|^&_-"
_OPENERS = "([{<“‘«‹„「『（《¿¡"
_CLOSERS = ".,;:!?…)]}»”’。，、！？；："


def widened(text: str, extent: Extent) -> Extent:
    """Return a placeholder with the brackets, quotes and signs that it would leave bare: "(%s)"."""
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
    gone = {place for chunk in chunks for place in range(*chunk)}
    for start, end in chunks:
        left = next((place for place in range(start - 1, -1, -1) if place not in gone), -1)
        apart = left < 0 or text[left].isspace()
        if apart and text[end : end + 1].isspace():
            gone.add(end)
        elif apart and left >= 0 and (end == len(text) or text[end] in _CLOSERS):
            gone.add(left)
    return [place for place in range(len(text)) if place not in gone]


class Insertion:
    """A text that things are put into, from left to right."""

    def __init__(self, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._done = 0
        self._text = ""
        self._grown: list[tuple[int, int]] = []
        """At which places of the target the text grew, and by how much."""

    @property
    def text(self) -> str:
        """The whole text."""
        return self._text + self._target[self._done :]

    def insert(self, place: int, chunk: Extent) -> Anchor:
        """Put a chunk of the source in, with spaces around it where it had some, or needs them."""
        self._text += self._target[self._done : place]
        self._done = place
        before = len(self._text)
        self._text += " " if self._needs_space_before(chunk) else ""
        start = len(self._text)
        self._text += self._source[chunk.start : chunk.end]
        end = len(self._text)
        self._text += " " if self._needs_space_behind(place, chunk) else ""
        self._grown.append((place, len(self._text) - before))
        return Anchor(chunk, Extent(start, end))

    def _needs_space_before(self, chunk: Extent) -> bool:
        here, there = self._text[-1:], self._source[: chunk.start][-1:]
        return _needs_space(here, there, _OPENERS)

    def _needs_space_behind(self, place: int, chunk: Extent) -> bool:
        here, there = self._target[place : place + 1], self._source[chunk.end : chunk.end + 1]
        return _needs_space(here, there, _CLOSERS)

    def carried(self, extent: Extent) -> Extent:
        """Return where characters of the target are now."""
        before = sum(size for place, size in self._grown if place <= extent.start)
        inside = sum(size for place, size in self._grown if extent.start < place < extent.end)
        return Extent(extent.start + before, extent.end + before + inside)


def _needs_space(here: str, there: str, close: str) -> bool:
    """Tell if a space goes between a thing and its new neighbour, by what its old one was."""
    if not here or here.isspace():
        return False
    if there.isspace():
        return here not in close
    return goes_on(here) and not (there and goes_on(there))
