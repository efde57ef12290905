"""Find placeholders, remove them from a sentence, and insert them into its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from seq2see.documents.markup import IndexRange, has_letter
from seq2see.documents.word_alignment import CopiedSpan
from seq2see.text.languages import continues_word
from seq2see.translator import Translation, TranslationFlag

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


def find_placeholders(text: str, *, include_numbers: bool = False) -> tuple[IndexRange, ...]:
    """Return where the placeholders of a text are; with `numbers`, where its numbers are too."""
    pattern = _OR_NUMBER if include_numbers else _PLACEHOLDER
    return tuple(IndexRange(*match.span()) for match in pattern.finditer(text))


@dataclass(frozen=True, slots=True)
class ProtectedLine:
    """A line to be translated, and what else than placeholders must stay as it is."""

    text: str
    protected: tuple[IndexRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtectedTranslation:
    """A translation, and where the kept words are in it."""

    translation: Translation
    copied_spans: tuple[CopiedSpan, ...] = ()


class ProtectedLineTask:
    """A line, what must stay in it, and its translation once there is one."""

    def __init__(self, line: ProtectedLine, *, keep_numbers: bool) -> None:
        self.text = line.text
        self._numbers = keep_numbers
        self.protected_ranges = merge_overlapping_ranges(
            [*find_placeholders(line.text, include_numbers=keep_numbers), *line.protected]
        )
        self.protected_texts = {line.text[start:end] for start, end in self.protected_ranges}
        self.result: ProtectedTranslation | None = None
        if self.protected_ranges and not has_letter(
            remove_ranges(line.text, self.protected_ranges)
        ):
            self.result = self.copy_source()

    def has_same_placeholders(self, text: str) -> bool:
        """Tell if a text has the same placeholders, each as often, and no number less."""
        if _found(text) != _found(self.text):
            return False
        return not (self._numbers and _found(self.text, numbers=True) - _found(text, numbers=True))

    def copy_source(self) -> ProtectedTranslation:
        """Return the line itself, since there is nothing in it to translate."""
        anchors = tuple(CopiedSpan(extent, extent) for extent in self.protected_ranges)
        return ProtectedTranslation(Translation(self.text, 0.0, 0.0), anchors)

    def build_untranslated_result(self) -> ProtectedTranslation:
        """Return the line itself, for want of a translation that keeps what must be kept."""
        line = self.copy_source()
        return replace(
            line, translation=replace(line.translation, flags=(TranslationFlag.COPIED_SOURCE,))
        )


def _found(text: str, *, numbers: bool = False) -> Counter[str]:
    return Counter(
        text[start:end] for start, end in find_placeholders(text, include_numbers=numbers)
    )


def find_occurrences(text: str, literals: Iterable[str]) -> dict[str, list[IndexRange]]:
    """Return where each of these is in a text, the longer ones first, never inside a word."""
    patterns = [
        (r"(?<!\w)" if literal[0].isalnum() else "")
        + re.escape(literal)
        + (r"(?!\w)" if literal[-1].isalnum() else "")
        for literal in sorted(literals, key=len, reverse=True)
    ]
    found: dict[str, list[IndexRange]] = {}
    for match in re.finditer("|".join(patterns), text):
        found.setdefault(match[0], []).append(IndexRange(*match.span()))
    return found


def merge_overlapping_ranges(ranges: Iterable[IndexRange]) -> tuple[IndexRange, ...]:
    """Return the extents in their order; those that overlap become one."""
    result: list[IndexRange] = []
    for extent in sorted(ranges):
        if result and extent.start < result[-1].end:
            result[-1] = IndexRange(result[-1].start, max(result[-1].end, extent.end))
        else:
            result.append(extent)
    return tuple(result)


def select_ranges_starting_in(
    outer: IndexRange, ranges: Sequence[IndexRange]
) -> Sequence[IndexRange]:
    """Return those of the extents, which are in order, that start inside another."""
    first = bisect_left(ranges, outer.start, key=lambda extent: extent.start)
    return ranges[first : bisect_left(ranges, outer.end, key=lambda extent: extent.start)]


def remove_ranges(text: str, ranges: Sequence[IndexRange]) -> str:
    """Return what is left of a text without the extents."""
    places = [0, *(place for extent in ranges for place in extent), len(text)]
    return "".join(text[places[i] : places[i + 1]] for i in range(0, len(places), 2))


_BRACKETS = frozenset(
    map("".join, zip("([{<\"'“‘«‹„「『（《", ")]}>\"'”’»›“」』）》", strict=True))
)


_SIGNS = "$€£¥#@%+*=~/\\|^&_-"


_OPENERS = "([{<“‘«‹„「『（《¿¡"


_CLOSERS = ".,;:!?…)]}»”’。，、！？；："


def include_surrounding_brackets(text: str, ranges: Sequence[IndexRange]) -> tuple[IndexRange, ...]:
    """Return placeholders with the brackets, quotes and signs that they would leave bare: "(%s)".

    What lies in one that was widened before is part of it, as each `%%` is in a long row of them.
    """
    result: list[IndexRange] = []
    for extent in ranges:
        if not result or extent.end > result[-1].end:
            result.append(_widened(text, extent))
    return merge_overlapping_ranges(result)


def _widened(text: str, extent: IndexRange) -> IndexRange:
    start, end = extent
    while start > 0 and end < len(text) and text[start - 1] + text[end] in _BRACKETS:
        start, end = start - 1, end + 1
    while start > 0 and text[start - 1] in _SIGNS:
        start -= 1
    while end < len(text) and text[end] in _SIGNS:
        end += 1
    return IndexRange(start, end)


def find_remaining_offsets(text: str, removed: Sequence[IndexRange]) -> list[int]:
    """Return the places of what is left without the chunks, and without a space too many."""
    kept: list[int] = []
    done = 0
    for start, end in removed:
        kept += range(done, start)
        done = end
        apart = not kept or text[kept[-1]].isspace()
        if apart and text[end : end + 1].isspace():
            done += 1
        elif apart and kept and (end == len(text) or text[end] in _CLOSERS):
            kept.pop()
    return [*kept, *range(done, len(text))]


class PlaceholderInserter:
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

    def insert(self, offset: int, source_range: IndexRange) -> CopiedSpan:
        """Put a chunk of the source in, with spaces around it where it had some, or needs them."""
        self._append(self._target[self._done : offset])
        self._done = offset
        if self._needs_space_before(source_range):
            self._append(" ")
        start = self._length
        self._append(self._source[source_range.start : source_range.end])
        end = self._length
        if self._needs_space_behind(offset, source_range):
            self._append(" ")
        self._places.append(offset)
        self._growth.append(self._length - offset)
        return CopiedSpan(source_range, IndexRange(start, end))

    def _append(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _needs_space_before(self, chunk: IndexRange) -> bool:
        here = self._parts[-1][-1] if self._parts else ""
        there = self._source[chunk.start - 1] if chunk.start else ""
        return _needs_space(here, there, _OPENERS)

    def _needs_space_behind(self, place: int, chunk: IndexRange) -> bool:
        here, there = self._target[place : place + 1], self._source[chunk.end : chunk.end + 1]
        return _needs_space(here, there, _CLOSERS)

    def map_range(self, target_range: IndexRange) -> IndexRange:
        """Return where characters of the target are now."""
        first = bisect_right(self._places, target_range.start)
        last = max(first, bisect_left(self._places, target_range.end))
        return IndexRange(
            target_range.start + self._growth[first], target_range.end + self._growth[last]
        )


def _needs_space(here: str, there: str, close: str) -> bool:
    """Tell if a space goes between a thing and its new neighbour, by what its old one was."""
    if not here or here.isspace():
        return False
    if there.isspace():
        return here not in close
    return continues_word(here) and not (there and continues_word(there))
