"""Weighted links between source and target words, used to place inline tags and placeholders."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import exp
from typing import NamedTuple

from seq2see.markup.text_units import IndexRange

WORD_PATTERN = re.compile(r"\S+")
_DIAGONAL_TENSION = 4
"""Preference for links near the diagonal: a link between words at the same relative position is
e^4 times as likely as one between opposite ends of the sentences."""


class WeightedRangeLink(NamedTuple):
    """A link between a range of the source and a range of the target."""

    source: IndexRange
    target: IndexRange
    weight: float = 1.0

    def shift(self, source_offset: int, target_offset: int) -> WeightedRangeLink:
        """Return the link with its ranges moved by these numbers of characters."""
        source, target = self.source.shift(source_offset), self.target.shift(target_offset)
        return WeightedRangeLink(source, target, self.weight)


def align_diagonally(source: str, target: str) -> list[WeightedRangeLink]:
    """Link words at the same relative position, for engines that return no alignment."""
    sources = [IndexRange(*match.span()) for match in WORD_PATTERN.finditer(source)]
    targets = [IndexRange(*match.span()) for match in WORD_PATTERN.finditer(target)]
    if not sources:
        return []
    return [
        WeightedRangeLink(sources[index * len(sources) // len(targets)], word)
        for index, word in enumerate(targets)
    ]


def reweight_alignment_links(
    links: Sequence[WeightedRangeLink], source: str, target: str
) -> list[WeightedRangeLink]:
    """Return the links with weights that sum to 1 for each target word.

    Attention puts weight on some source words in every step (full stops, "not"), so each weight is
    divided by the total weight of its source word. Links near the diagonal are preferred. On fables
    this raises the share of words whose strongest link is correct from 76 % to 90 %.
    """
    source_totals = defaultdict[IndexRange, float](float)
    target_totals = defaultdict[IndexRange, float](float)
    for link in links:
        source_totals[link.source] += link.weight
    reweighted = []
    for link in links:
        distance = abs(_middle(link.source) / len(source) - _middle(link.target) / len(target))
        weight = link.weight / (source_totals[link.source] or 1)
        weight *= exp(-_DIAGONAL_TENSION * distance)
        reweighted.append(WeightedRangeLink(link.source, link.target, weight))
        target_totals[link.target] += weight
    return [
        WeightedRangeLink(link.source, link.target, link.weight / (target_totals[link.target] or 1))
        for link in reweighted
    ]


def _middle(index_range: IndexRange) -> float:
    return (index_range.start + index_range.end) / 2


def split_links_into_word_and_punctuation(
    source: str, target: str, links: Iterable[WeightedRangeLink], tag_offsets: Sequence[int] = ()
) -> Iterator[WeightedRangeLink]:
    """Split each link into links of the words and of the punctuation around them, as in "dog,".

    A word that is the same in source and target is also split at the offsets of tags inside it, so
    that the 2 of H2O stays a subscript.
    """
    for link in links:
        source_core = trim_punctuation_from_range(source, link.source)
        target_core = trim_punctuation_from_range(target, link.target)
        pairs = zip(
            split_range_around_core(link.source, source_core),
            split_range_around_core(link.target, target_core),
            strict=True,
        )
        parts = [
            WeightedRangeLink(s, t, link.weight)
            for s, t in pairs
            if s.start < s.end and t.start < t.end
        ]
        for part in parts or [link]:
            yield from _split_at(part, tag_offsets) if _is_copy(source, target, part) else [part]


def _is_copy(source: str, target: str, link: WeightedRangeLink) -> bool:
    return source[slice(*link.source)] == target[slice(*link.target)]


def _split_at(link: WeightedRangeLink, offsets: Sequence[int]) -> Iterator[WeightedRangeLink]:
    (start, end), shift = link.source, link.target.start - link.source.start
    inside = offsets[bisect_right(offsets, start) : bisect_left(offsets, end)]
    for first, last in pairwise([start, *inside, end]):
        source, target = IndexRange(first, last), IndexRange(first + shift, last + shift)
        yield WeightedRangeLink(source, target, link.weight)


def trim_punctuation_from_range(text: str, index_range: IndexRange) -> IndexRange:
    """Return a range without the punctuation at its ends, or all of it if nothing else is left."""
    start, end = index_range
    while start < end and is_space_or_punctuation_character(text[start]):
        start += 1
    while start < end and is_space_or_punctuation_character(text[end - 1]):
        end -= 1
    return IndexRange(start, end) if start < end else index_range


def is_space_or_punctuation_character(character: str) -> bool:
    """Return whether a character is white space, punctuation or a symbol."""
    return character.isspace() or unicodedata.category(character)[0] in "PS"


def split_range_around_core(
    whole: IndexRange, core: IndexRange
) -> tuple[IndexRange, IndexRange, IndexRange]:
    """Return the part of a range before its core, the core, and the part after it."""
    return IndexRange(whole.start, core.start), core, IndexRange(core.end, whole.end)
