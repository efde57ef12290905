"""What must come through a translation untouched, and whether it did."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from seq2see.documents.letters import has_letter
from seq2see.documents.passages import Extent
from seq2see.documents.ties import Anchor
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
