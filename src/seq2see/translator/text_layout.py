"""Finds what is translated in a text: sentences with a letter, without list markers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from seq2see.markup.text_units import IndexRange
from seq2see.text import TextSpan, split_sentences
from seq2see.text.languages import has_letter
from seq2see.translator.placeholders import find_placeholders, merge_overlapping_ranges

_LIST_MARKER = re.compile(r"\s*(?:[-*+•–—‣◦]|#{1,6}|>|\(?(?:\d{1,3}|[a-z])[.)])\s+")
"""Bullet or number at the beginning of a list item, with the white space around it."""


def extract_list_marker(line: str) -> str:
    """Return the marker at the beginning of a list item, or an empty string."""
    match = _LIST_MARKER.match(line)
    return match[0] if match else ""


def find_sentences(
    text: str, language: str, protected: Sequence[IndexRange] = ()
) -> list[IndexRange]:
    """Return the ranges of the sentences in a text that contain a letter.

    No sentence ends inside a placeholder or a protected range.
    """
    if not has_letter(text):
        return []
    unbreakable = merge_overlapping_ranges([*protected, *find_placeholders(text)])
    sentences = _join_sentences(split_sentences(text, language), unbreakable)
    return [one for one in sentences if has_letter(text[one.start : one.end])]


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
