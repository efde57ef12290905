"""Finds the parts of a text that are translated; everything between them is copied.

A text is translated line by line. White space, list markers, and lines and sentences without a
letter are copied.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from seq2see.markup.text_units import IndexRange
from seq2see.text import TextSpan, split_sentences
from seq2see.text.languages import has_letter
from seq2see.text.sentence_splitting import may_have_several_sentences
from seq2see.translator.placeholders import (
    ProtectedBlock,
    find_placeholders,
    merge_overlapping_ranges,
    select_ranges_starting_in,
)

_LINE = re.compile(r"[^\r\n\u2028\u2029]+")
_BOM = "\ufeff"
_LIST_MARKER = re.compile(r"\s*(?:[-*+•–—‣◦]|#{1,6}|>|\(?(?:\d{1,3}|[a-z])[.)])\s+")
"""Bullet or number at the beginning of a list item, with the white space around it."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A text to translate."""

    text: str
    prefix: str = ""
    """Text that the translation of its first part starts with."""
    prefixes: Mapping[int, str] = field(default_factory=dict)
    """Prefixes of the translations of parts, by the offset at which the part starts."""
    protected: Sequence[IndexRange] = ()
    """Sorted ranges besides placeholders that must not change."""
    needs_alignment: bool = False
    """Whether the word alignment is needed even if the options do not request it."""

    def build_part(self, start: int, end: int, *, is_first: bool) -> TextPart:
        """Return the part between two offsets."""
        prefix = self.prefixes.get(start, self.prefix if is_first else "")
        protected = shift_ranges_into(IndexRange(start, end), self.protected)
        block = ProtectedBlock(self.text[start:end], prefix, protected)
        return TextPart(block, start, self.needs_alignment)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text that is translated at once: a line without its marker, or a sentence."""

    block: ProtectedBlock
    start: int
    """Its offset in the text."""
    needs_alignment: bool = False
    sentences: tuple[TextPart, ...] = ()
    """Its sentences, if it has several."""

    @property
    def span(self) -> TextSpan:
        """Its text and offset."""
        return TextSpan(self.block.text, self.start)


def find_parts(source: SourceText, language: str, max_sentences: int | None) -> list[TextPart]:
    """Return the parts of a text that are translated.

    A line with at most `max_sentences` sentences is one part. Of other lines each sentence is a
    part. None means that no line is split.
    """
    parts: list[TextPart] = []
    for line in find_lines(source.text, source.protected):
        if max_sentences is None:
            sentences = [line] if has_letter(line.text) else []
        else:
            protected = shift_ranges_into(IndexRange(line.start, line.end), source.protected)
            sentences = find_sentences(line, language, protected)
        own = tuple(
            source.build_part(each.start, each.end, is_first=not parts and index == 0)
            for index, each in enumerate(sentences)
        )
        has_inner_prefix = any(each.start in source.prefixes for each in own[1:])
        if len(own) < 2 or len(own) > (max_sentences or 1) or has_inner_prefix:
            parts += own
        else:
            start, end = own[0].start, own[-1].span.end
            whole = source.build_part(start, end, is_first=not parts)
            parts.append(TextPart(whole.block, start, whole.needs_alignment, own))
    return parts


def find_lines(text: str, protected: Sequence[IndexRange] = ()) -> Iterator[TextSpan]:
    """Yield the lines of a text without list markers and the white space around them.

    Protected text is not divided: a marker at its beginning is part of the line.
    """
    for match in _LINE.finditer(text, len(_BOM) if text.startswith(_BOM) else 0):
        line = match[0]
        marker = extract_list_marker(line)
        around = IndexRange(match.start(), match.start() + len(marker))
        if any(one.end > around.end for one in select_ranges_starting_in(around, protected)):
            marker = ""
        content = TextSpan(line[len(marker) :], match.start() + len(marker)).strip()
        if content.text:
            yield content


def extract_list_marker(line: str) -> str:
    """Return the marker at the beginning of a list item, or an empty string."""
    match = _LIST_MARKER.match(line)
    return match[0] if match else ""


def find_sentences(
    line: TextSpan, language: str, protected: Sequence[IndexRange] = ()
) -> list[TextSpan]:
    """Return the sentences of a line that contain a letter.

    No sentence ends inside a placeholder or a range of `protected`, which are ranges of the line.
    """
    if not has_letter(line.text):
        return []
    if not may_have_several_sentences(line.text):
        return [line]
    unbreakable = merge_overlapping_ranges([*protected, *find_placeholders(line.text)])
    sentences = _join_sentences(split_sentences(line.text, language), unbreakable)
    return [
        TextSpan(line.text[start:end], line.start + start)
        for start, end in sentences
        if has_letter(line.text[start:end])
    ]


def _join_sentences(
    sentences: Sequence[TextSpan], unbreakable: Sequence[IndexRange]
) -> list[IndexRange]:
    """Join sentences whose boundary is inside an unbreakable range."""
    joined: list[IndexRange] = []
    for sentence in sentences:
        before = bisect_left(unbreakable, sentence.start, key=lambda one: one.start) - 1
        if joined and before >= 0 and sentence.start < unbreakable[before].end:
            joined[-1] = IndexRange(joined[-1].start, sentence.end)
        else:
            joined.append(IndexRange(sentence.start, sentence.end))
    return joined


def shift_ranges_into(outer: IndexRange, ranges: Sequence[IndexRange]) -> tuple[IndexRange, ...]:
    """Return the ranges that start inside another range, relative to its start."""
    if not ranges:
        return ()
    return tuple(
        IndexRange(one.start - outer.start, min(one.end, outer.end) - outer.start)
        for one in select_ranges_starting_in(outer, ranges)
    )
