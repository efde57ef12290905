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

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from seq2see.markup.tag_transfer import transfer_offsets
from seq2see.markup.text_units import IndexRange
from seq2see.markup.weighted_links import (
    WeightedRangeLink,
    reweight_alignment_links,
)
from seq2see.text import TextSpan
from seq2see.text.languages import has_letter
from seq2see.translator.placeholders import (
    PlaceholderReinserter,
    ProtectedBlock,
    ProtectedBlockTask,
    ProtectedTranslation,
    find_offsets_outside_ranges,
    find_ranges_by_literal,
    include_surrounding_brackets,
    select_ranges_starting_in,
)
from seq2see.translator.segmentation import Block, BlockTranslationFunction
from seq2see.translator.translation import (
    AlignmentLink,
    Translation,
    TranslationOptions,
    join_translations,
)

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
