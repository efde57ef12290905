"""Find placeholders, remove them from a sentence, and insert them into its translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from seq2see.markup.text_units import IndexRange
from seq2see.markup.weighted_links import WeightedRangeLink
from seq2see.text.languages import has_letter, is_spaced_word_character
from seq2see.translator.translation import Translation, TranslationFlag

_NESTED_BRACES = r"\{[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*\}"
# Quantifiers are possessive (`*+`), because zeros may be flags or digits: trying every division of
# n zeros would take time in the order of n².
_PLACEHOLDER_PATTERNS = (
    r"(?:https?|ftp)://[^\s<>\"']*[^\s<>\"'.,;:!?)\]}…。，、]",
    r"www\.[^\s<>\"']*[^\s<>\"'.,;:!?)\]}…。，、]",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",  # without lookbehind every letter is a start
    r"\{\{[^{}]*\}\}",  # mustache
    r"[$#%]\{[^{}\s]+\}",  # shells, JavaScript, Ruby
    r"(?=\{\s*\w+\s*,\s*(?:plural|select|selectordinal|number|date|time|choice)\b)"
    + _NESTED_BRACES,  # ICU
    r"\{[\w.\[\]-]*(?:![rsa])?(?::[^{}\s]*)?\}",  # Python, C#, Java
    r"%\([^()\s]+\)[-+0#]*+\d*(?:\.\d+)?[a-zA-Z]",  # Python
    r"(?<!\d)%(?:\d+\$)?[-+0#]*+(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[diouxXeEfFgGaAcsSpn@%]",
    r"(?<=\d)%(?:\d+\$)?[-+0#]*+(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh?|ll?|[jztL])?[dsfx](?![a-zA-Z])",
    r"%[A-Z][A-Z0-9_]*%",  # Windows
)
_NUMBER_PATTERN = r"\d+(?:[.,:/\u00a0\u202f]\d+)*"
_PLACEHOLDER_CHARACTER = re.compile(r"[{%@]|://|www\.")
"""A part that every placeholder has. Most texts have none, which is found quickly."""
_PLACEHOLDER = re.compile("|".join(_PLACEHOLDER_PATTERNS))
_PLACEHOLDER_OR_NUMBER = re.compile("|".join([*_PLACEHOLDER_PATTERNS, _NUMBER_PATTERN]))

_BRACKETS = frozenset(
    map("".join, zip("([{<\"'“‘«‹„「『（《", ")]}>\"'”’»›“」』）》", strict=True))
)
_SIGNS = "$€£¥#@%+*=~/\\|^&_-"
_OPENING_PUNCTUATION = "([{<“‘«‹„「『（《¿¡"
_CLOSING_PUNCTUATION = ".,;:!?…)]}»”’。，、！？；："


def find_placeholders(text: str, *, include_numbers: bool = False) -> tuple[IndexRange, ...]:
    """Return the ranges of the placeholders in a text, and of its numbers if requested."""
    if not include_numbers and not _PLACEHOLDER_CHARACTER.search(text):
        return ()
    pattern = _PLACEHOLDER_OR_NUMBER if include_numbers else _PLACEHOLDER
    return tuple(IndexRange(*match.span()) for match in pattern.finditer(text))


@dataclass(frozen=True, slots=True)
class ProtectedBlock:
    """Text to translate at once, with the ranges besides placeholders that must not change."""

    text: str
    prefix: str = ""
    """Text that the translation starts with."""
    protected: tuple[IndexRange, ...] = ()

    def find_protected_ranges(self, *, keep_numbers: bool) -> tuple[IndexRange, ...]:
        """Return all ranges that must not change: placeholders, and numbers if requested."""
        placeholders = find_placeholders(self.text, include_numbers=keep_numbers)
        return merge_overlapping_ranges([*placeholders, *self.protected])


@dataclass(frozen=True, slots=True)
class ProtectedTranslation:
    """A translation, with the positions of the protected text in it."""

    translation: Translation
    copied_links: tuple[WeightedRangeLink, ...] = ()


class ProtectedBlockTask:
    """A block with its protected ranges, and its translations as soon as one is accepted."""

    def __init__(self, block: ProtectedBlock, *, keep_numbers: bool) -> None:
        self.text, self.prefix = block.text, block.prefix
        self._keep_numbers = keep_numbers
        self.protected_ranges = block.find_protected_ranges(keep_numbers=keep_numbers)
        self.protected_texts = {block.text[start:end] for start, end in self.protected_ranges}
        self.candidates: list[ProtectedTranslation] = []
        ranges = self.protected_ranges
        if ranges and not has_letter(remove_ranges_from_text(self.text, ranges)):
            self.candidates = [self.copy_source()]

    def has_same_placeholders(self, text: str) -> bool:
        """Return whether a translation contains each placeholder as often as the block.

        If numbers are kept, it must contain each number at least as often.
        """
        if _count_placeholders(text) != _count_placeholders(self.text):
            return False
        if not self._keep_numbers:
            return True
        expected = _count_placeholders(self.text, include_numbers=True)
        return not expected - _count_placeholders(text, include_numbers=True)

    def copy_source(self) -> ProtectedTranslation:
        """Return the block as its own translation."""
        copied_links = tuple(WeightedRangeLink(one, one) for one in self.protected_ranges)
        return ProtectedTranslation(Translation(self.text, 0.0, 0.0), copied_links)

    def build_untranslated_result(self) -> ProtectedTranslation:
        """Return the block with a flag, because no translation preserves its placeholders."""
        copy = self.copy_source()
        flags = (TranslationFlag.COPIED_SOURCE,)
        return replace(copy, translation=replace(copy.translation, flags=flags))


def _count_placeholders(text: str, *, include_numbers: bool = False) -> Counter[str]:
    placeholders = find_placeholders(text, include_numbers=include_numbers)
    return Counter(text[start:end] for start, end in placeholders)


def find_ranges_by_literal(text: str, literals: Iterable[str]) -> dict[str, list[IndexRange]]:
    """Return the ranges of each literal in a text.

    Longer literals take precedence over literals inside them; a literal inside a word is ignored.
    """
    patterns = [
        (r"(?<!\w)" if literal[0].isalnum() else "")
        + re.escape(literal)
        + (r"(?!\w)" if literal[-1].isalnum() else "")
        for literal in sorted(literals, key=len, reverse=True)
    ]
    occurrences: dict[str, list[IndexRange]] = {}
    for match in re.finditer("|".join(patterns), text):
        occurrences.setdefault(match[0], []).append(IndexRange(*match.span()))
    return occurrences


def merge_overlapping_ranges(ranges: Iterable[IndexRange]) -> tuple[IndexRange, ...]:
    """Return the ranges in order; ranges that overlap are merged."""
    merged: list[IndexRange] = []
    for one in sorted(ranges):
        if merged and one.start < merged[-1].end:
            merged[-1] = IndexRange(merged[-1].start, max(merged[-1].end, one.end))
        else:
            merged.append(one)
    return tuple(merged)


def select_ranges_starting_in(
    outer: IndexRange, ranges: Sequence[IndexRange]
) -> Sequence[IndexRange]:
    """Return the ranges, which must be sorted, that start inside another range."""
    first = bisect_left(ranges, outer.start, key=lambda one: one.start)
    return ranges[first : bisect_left(ranges, outer.end, key=lambda one: one.start)]


def remove_ranges_from_text(text: str, ranges: Sequence[IndexRange]) -> str:
    """Return a text without the ranges, which must be sorted."""
    offsets = [0, *(offset for one in ranges for offset in one), len(text)]
    return "".join(text[offsets[i] : offsets[i + 1]] for i in range(0, len(offsets), 2))


def include_surrounding_brackets(text: str, ranges: Sequence[IndexRange]) -> tuple[IndexRange, ...]:
    """Extend ranges over the brackets, quotes and signs directly around them, as in "(%s)".

    A range inside the previous extended range is part of it, like each `%%` of a long sequence.
    """
    extended: list[IndexRange] = []
    for one in ranges:
        if not extended or one.end > extended[-1].end:
            extended.append(_extend_over_brackets(text, one))
    return merge_overlapping_ranges(extended)


def _extend_over_brackets(text: str, index_range: IndexRange) -> IndexRange:
    start, end = index_range
    while start > 0 and end < len(text) and text[start - 1] + text[end] in _BRACKETS:
        start, end = start - 1, end + 1
    while start > 0 and text[start - 1] in _SIGNS:
        start -= 1
    while end < len(text) and text[end] in _SIGNS:
        end += 1
    return IndexRange(start, end)


def find_offsets_outside_ranges(text: str, removed: Sequence[IndexRange]) -> list[int]:
    """Return the offsets of the characters that remain when ranges are removed.

    One of two spaces around a removed range is removed too, and the space before punctuation.
    """
    remaining: list[int] = []
    done = 0
    for start, end in removed:
        remaining += range(done, start)
        done = end
        if remaining and not text[remaining[-1]].isspace():
            continue
        if text[end : end + 1].isspace():
            done += 1
        elif remaining and (end == len(text) or text[end] in _CLOSING_PUNCTUATION):
            remaining.pop()
    return [*remaining, *range(done, len(text))]


class PlaceholderReinserter:
    """Inserts parts of the source into a translation, from left to right."""

    def __init__(self, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self._offsets: list[int] = []
        """Offsets in the target at which text was inserted."""
        self._shifts = [0]
        """Number of characters inserted before the first of these offsets, and after each."""

    @property
    def text(self) -> str:
        """The translation with all inserted text."""
        return "".join([*self._parts, self._target[self._done :]])

    def insert(self, offset: int, source_range: IndexRange) -> WeightedRangeLink:
        """Insert a range of the source at an offset of the target.

        Spaces are added where the range has spaces in the source, or where words would be joined.
        """
        self._append(self._target[self._done : offset])
        self._done = offset
        if self._needs_space_before(source_range):
            self._append(" ")
        start = self._length
        self._append(self._source[source_range.start : source_range.end])
        end = self._length
        if self._needs_space_after(offset, source_range):
            self._append(" ")
        self._offsets.append(offset)
        self._shifts.append(self._length - offset)
        return WeightedRangeLink(source_range, IndexRange(start, end))

    def _append(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _needs_space_before(self, source_range: IndexRange) -> bool:
        new = self._parts[-1][-1] if self._parts else ""
        old = self._source[source_range.start - 1] if source_range.start else ""
        return _needs_space(new, old, _OPENING_PUNCTUATION)

    def _needs_space_after(self, offset: int, source_range: IndexRange) -> bool:
        new = self._target[offset : offset + 1]
        old = self._source[source_range.end : source_range.end + 1]
        return _needs_space(new, old, _CLOSING_PUNCTUATION)

    def map_range(self, target_range: IndexRange) -> IndexRange:
        """Return the position of a range of the target in the text with insertions."""
        first = bisect_right(self._offsets, target_range.start)
        last = max(first, bisect_left(self._offsets, target_range.end))
        return IndexRange(
            target_range.start + self._shifts[first], target_range.end + self._shifts[last]
        )


def _needs_space(new: str, old: str, adjacent: str) -> bool:
    """Return whether a space is needed between inserted text and its new neighbor.

    `old` is the neighbor in the source; the characters in `adjacent` need no space.
    """
    if not new or new.isspace():
        return False
    if old.isspace():
        return new not in adjacent
    return is_spaced_word_character(new) and not (old and is_spaced_word_character(old))
