"""Weighted links between source and target words, used to place inline tags and placeholders."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import exp
from typing import TYPE_CHECKING, NamedTuple

from seq2see.documents.markup import Extent
from seq2see.translator import Translation

if TYPE_CHECKING:
    pass

CHUNK = re.compile(r"\S+")


_NEARNESS = 4
"""How much likelier a word at the same place is than one at the other end: e^4."""


class Tie(NamedTuple):
    """Words of the source that became words of the target."""

    source: Extent
    target: Extent
    weight: float = 1.0


class Anchor(NamedTuple):
    """Kept words: where they were, and where they are now."""

    source: Extent
    target: Extent


def diagonal(source: str, target: str) -> list[Tie]:
    """Return ties as if both had the same order of words: for engines that tell nothing better."""
    sources = [Extent(*chunk.span()) for chunk in CHUNK.finditer(source)]
    targets = [Extent(*chunk.span()) for chunk in CHUNK.finditer(target)]
    if not sources:
        return []
    return [
        Tie(sources[place * len(sources) // len(targets)], extent)
        for place, extent in enumerate(targets)
    ]


def sharpened(ties: Sequence[Tie], source: str, target: str) -> list[Tie]:
    """Return ties by attention with weights that are fit to decide by.

    Attention rests on some words whatever is said (full stops, "not"), so what a word gets is set
    against what it gets from all; and of two words that are looked at alike, the one at about the
    same place of its sentence is likelier. On fables this takes the share of words that are led to
    the right one from 76 % to 90 %.
    """
    totals, sums = defaultdict[Extent, float](float), defaultdict[Extent, float](float)
    for tie in ties:
        totals[tie.source] += tie.weight
    likely = []
    for tie in ties:
        apart = abs(_middle(tie.source) / len(source) - _middle(tie.target) / len(target))
        weight = tie.weight / (totals[tie.source] or 1) * exp(-_NEARNESS * apart)
        likely.append(Tie(tie.source, tie.target, weight))
        sums[tie.target] += weight
    return [Tie(tie.source, tie.target, tie.weight / (sums[tie.target] or 1)) for tie in likely]


def _middle(extent: Extent) -> float:
    return (extent.start + extent.end) / 2


def refined(
    source: str, target: str, ties: Iterable[Tie], edges: Sequence[int] = ()
) -> Iterator[Tie]:
    """Tie words to words and the punctuation at their edges to such: "dog," is two things.

    A word that was copied is cut where an edge of a mark is inside it: the 2 of H2O stays below.
    """
    for tie in ties:
        ours, theirs = core(source, tie.source), core(target, tie.target)
        both = zip(parts(tie.source, ours), parts(tie.target, theirs), strict=True)
        found = [Tie(s, t, tie.weight) for s, t in both if s.start < s.end and t.start < t.end]
        for one in found or [tie]:
            yield from _cut(one, edges) if _is_copy(source, target, one) else [one]


def _is_copy(source: str, target: str, tie: Tie) -> bool:
    return source[slice(*tie.source)] == target[slice(*tie.target)]


def _cut(tie: Tie, edges: Sequence[int]) -> Iterator[Tie]:
    (start, end), shift = tie.source, tie.target.start - tie.source.start
    inside = edges[bisect_right(edges, start) : bisect_left(edges, end)]
    for first, last in pairwise([start, *inside, end]):
        yield Tie(Extent(first, last), Extent(first + shift, last + shift), tie.weight)


def core(text: str, extent: Extent) -> Extent:
    """Return the part without the punctuation at its edges, or all if there is nothing else."""
    start, end = extent
    while start < end and is_punctuation(text[start]):
        start += 1
    while start < end and is_punctuation(text[end - 1]):
        end -= 1
    return Extent(start, end) if start < end else extent


def is_punctuation(character: str) -> bool:
    """Tell if a character is no part of a word."""
    return character.isspace() or unicodedata.category(character)[0] in "PS"


def parts(whole: Extent, core: Extent) -> tuple[Extent, Extent, Extent]:
    """Return what is before the core of an extent, the core, and what is behind it."""
    return Extent(whole.start, core.start), core, Extent(core.end, whole.end)


def ties_of(translation: Translation) -> list[Tie]:
    """Return which words became which, as told by the translator."""
    return [
        Tie(
            Extent(link.source_start, link.source_end),
            Extent(link.target_start, link.target_end),
            link.weight,
        )
        for link in translation.alignment
        if link.source_start < link.source_end and link.target_start < link.target_end
    ]
