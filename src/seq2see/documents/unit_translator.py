"""Translate the text units of a document.

Units are split into sentences, all different sentences are translated together, and the
translations are put back into the units with their inline tags.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seq2see.documents.parsed_document import DocumentLanguages, UnitTranslation
from seq2see.markup.tag_transfer import compute_target_tag_positions
from seq2see.markup.text_units import IndexRange, TextUnit
from seq2see.markup.weighted_links import (
    CopiedSpan,
    WeightedRangeLink,
    align_diagonally,
    reweight_alignment_links,
)
from seq2see.text.languages import find_sentence_separator
from seq2see.translator.placeholders import (
    LineWithProtectedRanges,
    ProtectedTranslation,
    find_placeholders,
)
from seq2see.translator.protected_translation import (
    convert_to_weighted_links,
    translate_preserving_placeholders,
)
from seq2see.translator.text_layout import find_sentences

if TYPE_CHECKING:
    from seq2see.progress_callbacks import ProgressCallback
    from seq2see.translator import LineTranslator, TranslationOptions

_BATCH_SIZE = 256
"""Number of sentences between two calls of `on_progress`; without it all are one batch."""
_WHITE_SPACE = frozenset(" \t\r\n\f\v")
_WORD = re.compile(r"\S+")


class TextUnitTranslator:
    """Translates text units with the sentences of all units together.

    `keep_numbers` preserves numbers like placeholders. `on_progress` is called with the number of
    translated sentences.
    """

    def __init__(
        self,
        translator: LineTranslator,
        options: TranslationOptions | None = None,
        *,
        keep_numbers: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self._translator = translator
        self._options = options
        self._keep_numbers = keep_numbers
        self._on_progress = on_progress
        self.languages = DocumentLanguages(*translator.languages)
        self._separator = find_sentence_separator(*translator.languages)

    def translate(self, units: Sequence[TextUnit]) -> list[UnitTranslation]:
        """Return the best translation of each unit."""
        return [best for best, *_ in self.translate_n_best(units)]

    def translate_n_best(self, units: Sequence[TextUnit]) -> list[list[UnitTranslation]]:
        """Return the translations of each unit, at least one, the best first.

        They are as many as a sentence of the unit has at most; other sentences repeat their last
        one.
        """
        sentences_of_units = [self._split(unit) for unit in units]
        candidates = self._translate_sentences(units, sentences_of_units)
        return [
            self._build_units(unit, sentences, [candidates[one.line] for one in sentences])
            for unit, sentences in zip(units, sentences_of_units, strict=True)
        ]

    def _split(self, unit: TextUnit) -> list[_Sentence]:
        protected = unit.protected_ranges
        ranges = find_sentences(unit.text, self.languages.source, protected)
        return [_normalize_sentence(unit.text, one, protected) for one in ranges]

    def _translate_sentences(
        self, units: Sequence[TextUnit], sentences_of_units: Sequence[Sequence[_Sentence]]
    ) -> dict[LineWithProtectedRanges, list[ProtectedTranslation]]:
        """Translate each different sentence once, with word alignment only where it is needed."""
        in_tagged_unit: dict[LineWithProtectedRanges, bool] = {}
        for unit, sentences in zip(units, sentences_of_units, strict=True):
            for sentence in sentences:
                line = sentence.line
                in_tagged_unit[line] = in_tagged_unit.get(line, False) or bool(unit.tags)
        with_alignment, plain = list[LineWithProtectedRanges](), list[LineWithProtectedRanges]()
        for line, is_tagged in in_tagged_unit.items():
            needs_alignment = is_tagged or self._has_protected_text(line)
            (with_alignment if needs_alignment else plain).append(line)
        self._total, self._done = len(in_tagged_unit), 0
        translations = dict(self._translate_batches(plain, self._translate_plain))
        translations.update(self._translate_batches(with_alignment, self._translate_protected))
        return translations

    def _has_protected_text(self, line: LineWithProtectedRanges) -> bool:
        placeholders = find_placeholders(line.text, include_numbers=self._keep_numbers)
        return bool(line.protected or placeholders)

    def _translate_batches(
        self,
        lines: Sequence[LineWithProtectedRanges],
        translate: Callable[[Sequence[LineWithProtectedRanges]], list[list[ProtectedTranslation]]],
    ) -> Iterable[tuple[LineWithProtectedRanges, list[ProtectedTranslation]]]:
        size = _BATCH_SIZE if self._on_progress else max(len(lines), 1)
        for start in range(0, len(lines), size):
            batch = lines[start : start + size]
            yield from zip(batch, translate(batch), strict=True)
            self._done += len(batch)
            if self._on_progress:
                self._on_progress(self._done, self._total)

    def _translate_plain(
        self, lines: Sequence[LineWithProtectedRanges]
    ) -> list[list[ProtectedTranslation]]:
        texts = [line.text for line in lines]
        translations = self._translator.translate(texts, self._options)
        return [
            [ProtectedTranslation(one), *map(ProtectedTranslation, one.alternatives)]
            for one in translations
        ]

    def _translate_protected(
        self, lines: Sequence[LineWithProtectedRanges]
    ) -> list[list[ProtectedTranslation]]:
        return translate_preserving_placeholders(
            self._translator, lines, self._options, keep_numbers=self._keep_numbers
        )

    def _build_units(
        self,
        unit: TextUnit,
        sentences: Sequence[_Sentence],
        candidates: Sequence[Sequence[ProtectedTranslation]],
    ) -> list[UnitTranslation]:
        return [
            self._build_unit(unit, sentences, [one[min(rank, len(one) - 1)] for one in candidates])
            for rank in range(max(map(len, candidates), default=1))
        ]

    def _build_unit(
        self,
        unit: TextUnit,
        sentences: Sequence[_Sentence],
        translations: Sequence[ProtectedTranslation],
    ) -> UnitTranslation:
        """Replace the sentences of a unit by their translations and place its tags."""
        builder = _UnitBuilder(unit, self._separator)
        for sentence, result in zip(sentences, translations, strict=True):
            builder.add_translation(sentence, result)
        builder.copy_until(len(unit.text))
        text = builder.text
        positions = compute_target_tag_positions(unit, text, builder.links, builder.copied_spans)
        nodes = list(unit.to_nodes(text, positions))
        return UnitTranslation(nodes, tuple(result.translation for result in translations))


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as the model gets it: on one line, with single spaces."""

    start: int
    end: int
    line: LineWithProtectedRanges
    offsets: tuple[int, ...]
    """Offset in the unit of each character of the line."""


def _normalize_sentence(
    text: str, sentence: IndexRange, protected: Sequence[IndexRange]
) -> _Sentence:
    """Replace white space in a sentence by single spaces and store the original offsets."""
    offsets = [
        offset
        for offset in range(*sentence)
        if offset == sentence.start
        or text[offset] not in _WHITE_SPACE
        or text[offset - 1] not in _WHITE_SPACE
    ]
    line = "".join(" " if text[o] in _WHITE_SPACE else text[o] for o in offsets)
    mapped = (
        IndexRange(bisect_left(offsets, one.start), bisect_left(offsets, one.end))
        for one in _select_ranges_within(protected, *sentence)
    )
    return _Sentence(*sentence, LineWithProtectedRanges(line, tuple(mapped)), tuple(offsets))


class _UnitBuilder:
    """Builds a translated unit from left to right, with all text between its sentences."""

    def __init__(self, unit: TextUnit, separator: str) -> None:
        self._unit, self._separator = unit, separator
        self._protected = unit.protected_ranges
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self.links: list[WeightedRangeLink] = []
        self.copied_spans: list[CopiedSpan] = []

    @property
    def text(self) -> str:
        """The translated text so far."""
        return "".join(self._parts)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def add_translation(self, sentence: _Sentence, result: ProtectedTranslation) -> None:
        """Append the translation of a sentence, or the sentence if its translation failed."""
        if self._done == sentence.start > 0:
            self._append(self._separator)
        self.copy_until(sentence.start)
        translation = result.translation
        if translation.error is not None:
            self.copy_until(sentence.end)
            return
        texts = sentence.line.text, translation.text
        links = reweight_alignment_links(convert_to_weighted_links(translation), *texts)
        self.links += [
            WeightedRangeLink(*self._to_unit(sentence, link.source, link.target), link.weight)
            for link in links or align_diagonally(*texts)
        ]
        self.copied_spans += [
            CopiedSpan(*self._to_unit(sentence, *span)) for span in result.copied_spans
        ]
        self._append(translation.text)
        self._done = sentence.end

    def _to_unit(
        self, sentence: _Sentence, source: IndexRange, target: IndexRange
    ) -> tuple[IndexRange, IndexRange]:
        """Return ranges of a sentence and its translation as ranges of the unit."""
        offsets = sentence.offsets
        start, end = offsets[source.start], offsets[source.end - 1] + 1
        shift = self._length
        return IndexRange(start, end), IndexRange(target.start + shift, target.end + shift)

    def copy_until(self, end: int) -> None:
        """Append the source text up to an offset."""
        start, shift = self._done, self._length - self._done
        text = self._unit.text
        self._append(text[start:end])
        protected = _select_ranges_within(self._protected, start, end)
        words = [IndexRange(*match.span()) for match in _WORD.finditer(text, start, end)]
        self.copied_spans += [
            CopiedSpan(one, IndexRange(one.start + shift, one.end + shift)) for one in protected
        ]
        self.links += [
            WeightedRangeLink(one, IndexRange(one.start + shift, one.end + shift)) for one in words
        ]
        self._done = end


def _select_ranges_within(
    ranges: Sequence[IndexRange], start: int, end: int
) -> Sequence[IndexRange]:
    """Return the ranges, which must be sorted, that are between two offsets."""
    first = bisect_left(ranges, start, key=lambda one: one.start)
    return ranges[first : bisect_right(ranges, end, key=lambda one: one.end)]
