"""Translate blocks without changing their placeholders: `{name}`, `%s`, `${x}`, URLs, addresses.

A model that was not trained on placeholders may change or drop them. The strategies are tried in
turn:

1. Translate the block as it is. The translation is accepted if it contains every placeholder as
   often as the source and has no flag of a confused model.
2. Translate the block without its placeholders and insert them next to the translations of their
   neighbors.
3. If there is no word alignment for that, translate the text between placeholders separately.
4. If the translation still gains or loses a placeholder, return the source.

Each placeholder therefore occurs in the translation exactly as often as in the source. Replacing
placeholders by ordinary words does not work with small models: "7 people" becomes "Fünf Personen".
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from seq2see.markup.tag_transfer import transfer_offsets
from seq2see.markup.text_units import IndexRange
from seq2see.markup.weighted_links import WeightedRangeLink, reweight_alignment_links
from seq2see.text import TextSpan
from seq2see.text.languages import has_letter, is_spaced_word_character
from seq2see.translator.translation import (
    AlignmentLink,
    Block,
    BlockTranslationFunction,
    Translation,
    TranslationFlag,
    TranslationOptions,
    join_translations,
)

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
        if _sort_placeholders(text) != _sort_placeholders(self.text):
            return False
        if not self._keep_numbers:
            return True
        expected = Counter(_sort_placeholders(self.text, include_numbers=True))
        return not expected - Counter(_sort_placeholders(text, include_numbers=True))

    def copy_source(self) -> ProtectedTranslation:
        """Return the block as its own translation."""
        copied_links = tuple(WeightedRangeLink(one, one) for one in self.protected_ranges)
        return ProtectedTranslation(Translation(self.text, 0.0, 0.0), copied_links)

    def build_untranslated_result(self) -> ProtectedTranslation:
        """Return the block with a flag, because no translation preserves its placeholders."""
        copy = self.copy_source()
        flags = (TranslationFlag.COPIED_SOURCE,)
        return replace(copy, translation=replace(copy.translation, flags=flags))


def _sort_placeholders(text: str, *, include_numbers: bool = False) -> list[str]:
    placeholders = find_placeholders(text, include_numbers=include_numbers)
    return sorted([text[start:end] for start, end in placeholders])


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


_CONFUSION_FLAGS = frozenset({"repetition", "length_limit", "long"})
"""Flags of a translation whose source the model did not understand."""
_MAX_COPIED_CHARACTERS = 2000
"""Maximum number of protected characters in a line that is translated as it is. A line with more is
no sentence, and searching the translation for them would take long."""


def translate_preserving_placeholders(
    translate_blocks: BlockTranslationFunction,
    blocks: Sequence[ProtectedBlock],
    options: TranslationOptions,
) -> list[list[ProtectedTranslation]]:
    """Translate blocks by the first strategy that preserves their protected text.

    Returns for each block the translations that preserve it, at least one, the best first.
    """
    tasks = [ProtectedBlockTask(block, keep_numbers=options.keep_numbers) for block in blocks]
    for strategy in (_TranslateUnchanged, _RemoveAndReinsert, _TranslateBetween):
        attempts = [strategy(task) for task in tasks if strategy.applies_to(task)]
        sources = [block for attempt in attempts for block in attempt.build_blocks()]
        translations = iter(translate_blocks(sources, options) if sources else [])
        for attempt in attempts:
            own = [next(translations) for _ in attempt.texts]
            attempt.task.candidates = attempt.build_candidates(own)
    return [task.candidates or [task.build_untranslated_result()] for task in tasks]


class _Strategy:
    """A way to translate a block: the texts to translate, and the result built from them."""

    def __init__(self, task: ProtectedBlockTask) -> None:
        self.task = task
        self.texts = [task.text]

    @classmethod
    def applies_to(cls, task: ProtectedBlockTask) -> bool:
        """Return whether this strategy is tried for a block."""
        return not task.candidates and bool(task.protected_ranges)

    def build_blocks(self) -> list[Block]:
        """Return the blocks to translate; the first one has the prefix."""
        return [Block(text, "" if i else self.task.prefix) for i, text in enumerate(self.texts)]

    def build_candidates(self, translations: Sequence[Translation]) -> list[ProtectedTranslation]:
        """Return the translation and its alternatives that are valid; none if the best is not."""
        (best,) = translations
        if best.error is not None:
            return [ProtectedTranslation(best)]
        candidates = [self._restore(one) for one in (best, *best.alternatives)]
        valid = [
            candidate
            for candidate in candidates
            if candidate and self.task.has_same_placeholders(candidate.translation.text)
        ]
        return valid if candidates[0] in valid else []

    def _restore(self, translation: Translation) -> ProtectedTranslation | None:
        """Return a translation with the protected text in it, or None if that is not possible."""
        raise NotImplementedError


class _TranslateUnchanged(_Strategy):
    """Translate the line as it is and check that the protected text is in the translation."""

    @classmethod
    def applies_to(cls, task: ProtectedBlockTask) -> bool:
        """Return whether this strategy is tried; also for a block without protected text."""
        num_characters = sum(map(len, task.protected_texts))
        return not task.candidates and num_characters <= _MAX_COPIED_CHARACTERS

    def _restore(self, translation: Translation) -> ProtectedTranslation | None:
        task = self.task
        if not task.protected_ranges:
            return ProtectedTranslation(translation)
        if _CONFUSION_FLAGS & set(translation.flags):
            return None
        in_source = find_ranges_by_literal(task.text, task.protected_texts)
        in_target = find_ranges_by_literal(translation.text, task.protected_texts)
        if {k: len(v) for k, v in in_source.items()} != {k: len(v) for k, v in in_target.items()}:
            return None
        target_ranges = {
            source: target
            for text, sources in in_source.items()
            for source, target in zip(sources, in_target[text], strict=True)
        }
        if not target_ranges.keys() >= set(task.protected_ranges):
            return None  # a protected text is part of a longer one
        copied_links = tuple(
            WeightedRangeLink(one, target_ranges[one]) for one in task.protected_ranges
        )
        return ProtectedTranslation(translation, copied_links)


class _RemoveAndReinsert(_Strategy):
    """Translate the line without the protected text and insert it by the word alignment."""

    def __init__(self, task: ProtectedBlockTask) -> None:
        super().__init__(task)
        self._removed = include_surrounding_brackets(task.text, task.protected_ranges)
        self._remaining = find_offsets_outside_ranges(task.text, self._removed)
        self._rest = "".join(task.text[offset] for offset in self._remaining)
        self.texts = [self._rest]

    def _restore(self, translation: Translation) -> ProtectedTranslation | None:
        links = convert_to_weighted_links(translation)
        links = reweight_alignment_links(links, self._rest, translation.text)
        if not links:
            return None
        source_offsets = [bisect_left(self._remaining, one.start) for one in self._removed]
        offsets = transfer_offsets(self._rest, translation.text, links, source_offsets)
        inserter = PlaceholderReinserter(self.task.text, translation.text)
        inserted = [
            inserter.insert(offset, source_range)
            for offset, source_range in sorted(zip(offsets, self._removed, strict=True))
        ]
        return self._combine(translation, inserter, links, inserted)

    def _combine(
        self,
        translation: Translation,
        inserter: PlaceholderReinserter,
        links: Sequence[WeightedRangeLink],
        inserted: list[WeightedRangeLink],
    ) -> ProtectedTranslation:
        """Return the translation with inserted text; map its tokens and links to the new text."""
        copied_links = tuple(
            WeightedRangeLink(one, one.shift(span.target.start - span.source.start))
            for span in inserted
            for one in select_ranges_starting_in(span.source, self.task.protected_ranges)
        )
        source_offsets = [*self._remaining, len(self.task.text)]
        mapped_links = [
            WeightedRangeLink(
                _map_range(link.source, source_offsets),
                inserter.map_range(link.target),
                link.weight,
            )
            for link in links
        ]
        tokens = [
            replace(token, start=mapped.start, end=mapped.end)
            for token in translation.tokens
            for mapped in [inserter.map_range(IndexRange(token.start, token.end))]
        ]
        combined = replace(
            translation,
            text=inserter.text,
            tokens=tuple(tokens),
            alignment=tuple(map(_to_alignment_link, [*mapped_links, *copied_links])),
            sentences=(),
        )
        return ProtectedTranslation(combined, copied_links)


class _TranslateBetween(_Strategy):
    """Translate each part of the line between protected texts separately."""

    def __init__(self, task: ProtectedBlockTask) -> None:
        super().__init__(task)
        offsets = [0, *(offset for one in task.protected_ranges for offset in one), len(task.text)]
        spans = zip(offsets[::2], offsets[1::2], strict=True)
        parts = (TextSpan(task.text[start:end], start) for start, end in spans)
        self._parts = [part.strip() for part in parts if has_letter(part.text)]
        self.texts = [part.text for part in self._parts]

    def build_candidates(self, translations: Sequence[Translation]) -> list[ProtectedTranslation]:
        """Return the line with each part translated, if that is valid."""
        if not translations:
            return []
        joined = join_translations(self.task.text, self._parts, translations)
        if joined.error is not None:
            return [ProtectedTranslation(joined)]
        if not self.task.has_same_placeholders(joined.text):
            return []
        growth = accumulate(
            len(one.text) - len(part.text)
            for part, one in zip(self._parts, translations, strict=True)
        )
        shifts = list(zip((part.end for part in self._parts), growth, strict=True))
        copied_links = [
            WeightedRangeLink(one, one.shift(_find_shift(shifts, one.start)))
            for one in self.task.protected_ranges
        ]
        alignment = tuple(map(_to_alignment_link, copied_links))
        joined = replace(joined, alternatives=(), alignment=alignment, sentences=())
        return [ProtectedTranslation(joined, tuple(copied_links))]


def convert_to_weighted_links(translation: Translation) -> list[WeightedRangeLink]:
    """Return the word alignment of a translation, without links to empty ranges."""
    return [
        WeightedRangeLink(
            IndexRange(link.source_start, link.source_end),
            IndexRange(link.target_start, link.target_end),
            link.weight,
        )
        for link in translation.alignment
        if link.source_start < link.source_end and link.target_start < link.target_end
    ]


def _find_shift(shifts: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the shift of the last part that ends at or before an offset."""
    index = bisect_right(shifts, offset, key=lambda shift: shift[0])
    return shifts[index - 1][1] if index else 0


def _map_range(index_range: IndexRange, offsets: Sequence[int]) -> IndexRange:
    return IndexRange(offsets[index_range.start], offsets[index_range.end - 1] + 1)


def _to_alignment_link(link: WeightedRangeLink) -> AlignmentLink:
    return AlignmentLink(*link.source, *link.target, link.weight)
