"""Find placeholders, remove them from a sentence, and insert them into its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from seq2see.documents.markup import Extent, has_letter
from seq2see.documents.word_alignment import Anchor
from seq2see.text.languages import goes_on
from seq2see.translator import Flag, Translation

_NESTED = r"\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}"


# Possessive signs (`*+`): zeros may be signs or digits, and to try all ways to share them out
# would take the square of their number.
_KINDS = (
    r"(?:https?|ftp)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]}…。，、]",
    r"www\.[^\s<>\"']*[^\s<>\"'.,;:!?)\]}…。，、]",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # looks behind: else every letter is a start
    r"\{\{[^{}]*\}\}",  # mustache
    r"[$#%]\{[^{}\s]+\}",  # shells, JavaScript, Ruby
    rf"(?=\{{\s*\w+\s*,\s*(?:plural|select|selectordinal|number|date|time|choice)\b){_NESTED}",
    r"\{[\w.\[\]-]*(?:![rsa])?(?::[^{}\s]*)?\}",  # Python, C#, Java
    r"%\([^()\s]+\)[-+0#]*+\d*(?:\.\d+)?[a-zA-Z]",  # Python
    r"(?<!\d)%(?:\d+\$)?[-+0#]*+(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[diouxXeEfFgGaAcsSpn@%]",
    r"(?<=\d)%(?:\d+\$)?[-+0#]*+(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[dsfx](?![a-zA-Z])",
    r"%[A-Z][A-Z0-9_]*%",  # Windows
)


_NUMBER = r"\d+(?:[.,:/\u00a0\u202f]\d+)*"


_PLACEHOLDER = re.compile("|".join(_KINDS))


_OR_NUMBER = re.compile("|".join([*_KINDS, _NUMBER]))


def find(text: str, *, numbers: bool = False) -> tuple[Extent, ...]:
    """Return where the placeholders of a text are; with `numbers`, where its numbers are too."""
    pattern = _OR_NUMBER if numbers else _PLACEHOLDER
    return tuple(Extent(*match.span()) for match in pattern.finditer(text))


@dataclass(frozen=True, slots=True)
class Line:
    """A line to be translated, and what else than placeholders must stay as it is."""

    text: str
    kept: tuple[Extent, ...] = ()


@dataclass(frozen=True, slots=True)
class Guarded:
    """A translation, and where the kept words are in it."""

    translation: Translation
    anchors: tuple[Anchor, ...] = ()


class Task:
    """A line, what must stay in it, and its translation once there is one."""

    def __init__(self, line: Line, *, numbers: bool) -> None:
        self.text = line.text
        self._numbers = numbers
        self.extents = united([*find(line.text, numbers=numbers), *line.kept])
        self.literals = {line.text[start:end] for start, end in self.extents}
        self.result: Guarded | None = None
        if self.extents and not has_letter(outside(line.text, self.extents)):
            self.result = self.unchanged()

    def agrees(self, text: str) -> bool:
        """Tell if a text has the same placeholders, each as often, and no number less."""
        if _found(text) != _found(self.text):
            return False
        return not (self._numbers and _found(self.text, numbers=True) - _found(text, numbers=True))

    def unchanged(self) -> Guarded:
        """Return the line itself, since there is nothing in it to translate."""
        anchors = tuple(Anchor(extent, extent) for extent in self.extents)
        return Guarded(Translation(self.text, 0.0, 0.0), anchors)

    def given_up(self) -> Guarded:
        """Return the line itself, for want of a translation that keeps what must be kept."""
        line = self.unchanged()
        return replace(line, translation=replace(line.translation, flags=(Flag.COPIED_SOURCE,)))


def _found(text: str, *, numbers: bool = False) -> Counter[str]:
    return Counter(text[start:end] for start, end in find(text, numbers=numbers))


def occurrences(text: str, literals: Iterable[str]) -> dict[str, list[Extent]]:
    """Return where each of these is in a text, the longer ones first, never inside a word."""
    patterns = [
        (r"(?<!\w)" if literal[0].isalnum() else "")
        + re.escape(literal)
        + (r"(?!\w)" if literal[-1].isalnum() else "")
        for literal in sorted(literals, key=len, reverse=True)
    ]
    found: dict[str, list[Extent]] = {}
    for match in re.finditer("|".join(patterns), text):
        found.setdefault(match[0], []).append(Extent(*match.span()))
    return found


def united(extents: Iterable[Extent]) -> tuple[Extent, ...]:
    """Return the extents in their order; those that overlap become one."""
    result: list[Extent] = []
    for extent in sorted(extents):
        if result and extent.start < result[-1].end:
            result[-1] = Extent(result[-1].start, max(result[-1].end, extent.end))
        else:
            result.append(extent)
    return tuple(result)


def starting_in(whole: Extent, extents: Sequence[Extent]) -> Sequence[Extent]:
    """Return those of the extents, which are in order, that start inside another."""
    first = bisect_left(extents, whole.start, key=lambda extent: extent.start)
    return extents[first : bisect_left(extents, whole.end, key=lambda extent: extent.start)]


def outside(text: str, extents: Sequence[Extent]) -> str:
    """Return what is left of a text without the extents."""
    places = [0, *(place for extent in extents for place in extent), len(text)]
    return "".join(text[places[i] : places[i + 1]] for i in range(0, len(places), 2))


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
