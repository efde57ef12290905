"""Translate the text units of a document, and put the translations back with their inline tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seq2see.cancellation import check_cancelled
from seq2see.documents.parsed_document import DocumentLanguages, UnitTranslation
from seq2see.markup.tag_transfer import compute_target_tag_positions
from seq2see.markup.text_units import IndexRange, TextUnit
from seq2see.markup.weighted_links import (
    WORD_PATTERN,
    WeightedRangeLink,
    align_diagonally,
    reweight_alignment_links,
)
from seq2see.text import TextSpan
from seq2see.translator import SourceText, TextTranslator
from seq2see.translator.placeholders import (
    ProtectedTranslation,
    convert_to_weighted_links,
    select_ranges_starting_in,
)
from seq2see.translator.text_translation import TranslatedPart

if TYPE_CHECKING:
    from seq2see.progress_callbacks import ProgressCallback
    from seq2see.translator import BlockTranslator, TranslationOptions

_LINE_BREAK_TO_SPACE = str.maketrans(dict.fromkeys("\r\n\f\v", " "))


class TextUnitTranslator:
    """Translates text units, those of a document together.

    Line breaks in a unit are white space, as in HTML. `on_progress` is called with the number of
    translated lines or sentences.
    """

    def __init__(
        self,
        translator: BlockTranslator,
        options: TranslationOptions | None = None,
        *,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.languages = DocumentLanguages(*translator.languages)
        self._prefix = options.prefix if options else ""
        self._text_translator = TextTranslator(translator, options, on_progress=on_progress)

    def translate(self, units: Sequence[TextUnit]) -> list[UnitTranslation]:
        """Return the best translation of each unit."""
        return [best for best, *_ in self.translate_n_best(units)]

    def translate_n_best(self, units: Sequence[TextUnit]) -> list[list[UnitTranslation]]:
        """Return the translations of each unit, at least one, the best first.

        They are as many as a part of the unit has at most; other parts repeat their last one.
        """
        parts = [self._text_translator.find_parts(self._to_source(unit)) for unit in units]
        translated = self._text_translator.translate_parts(parts)
        return [
            [self._build_unit(unit, own, rank) for rank in range(_count_candidates(own))]
            for unit, own in zip(units, translated, strict=True)
        ]

    def _to_source(self, unit: TextUnit) -> SourceText:
        return SourceText(
            unit.text.translate(_LINE_BREAK_TO_SPACE),
            self._prefix,
            protected=unit.protected_ranges,
            needs_alignment=bool(unit.tags),
        )

    def _build_unit(
        self, unit: TextUnit, parts: Sequence[TranslatedPart], rank: int
    ) -> UnitTranslation:
        """Replace the parts of a unit by their translations of a rank and place its tags."""
        check_cancelled()
        builder = _UnitBuilder(unit, self._text_translator.separator)
        results = [part.candidates[min(rank, len(part.candidates) - 1)] for part in parts]
        for part, result in zip(parts, results, strict=True):
            builder.add_translation(part.span, result)
        builder.copy_until(len(unit.text))
        text = builder.text
        positions = compute_target_tag_positions(unit, text, builder.links, builder.copied_links)
        nodes = list(unit.to_nodes(text, positions))
        return UnitTranslation(nodes, tuple(result.translation for result in results))


class _UnitBuilder:
    """Builds a translated unit from left to right, with all text between its sentences."""

    def __init__(self, unit: TextUnit, separator: str) -> None:
        self._unit, self._separator = unit, separator
        self._protected = unit.protected_ranges
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self.links: list[WeightedRangeLink] = []
        self.copied_links: list[WeightedRangeLink] = []

    @property
    def text(self) -> str:
        """The translated text so far."""
        return "".join(self._parts)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def add_translation(self, span: TextSpan, result: ProtectedTranslation) -> None:
        """Append the translation of a span, or the span if its translation failed."""
        if self._done == span.start > 0:
            self._append(self._separator)
        self.copy_until(span.start)
        translation = result.translation
        if translation.error is not None:
            self.copy_until(span.end)
            return
        texts = span.text, translation.text
        links = reweight_alignment_links(convert_to_weighted_links(translation), *texts)
        start, length = span.start, self._length
        links = links or align_diagonally(*texts)
        self.links += [link.shift(start, length) for link in links]
        self.copied_links += [link.shift(start, length) for link in result.copied_links]
        self._append(translation.text)
        self._done = span.end

    def copy_until(self, end: int) -> None:
        """Append the source text up to an offset."""
        start, shift = self._done, self._length - self._done
        text = self._unit.text
        self._append(text[start:end])
        protected = select_ranges_starting_in(IndexRange(start, end), self._protected)
        words = [IndexRange(*match.span()) for match in WORD_PATTERN.finditer(text, start, end)]
        self.copied_links += [WeightedRangeLink(one, one.shift(shift)) for one in protected]
        self.links += [WeightedRangeLink(one, one.shift(shift)) for one in words]
        self._done = end


def _count_candidates(parts: Sequence[TranslatedPart]) -> int:
    return max((len(part.candidates) for part in parts), default=1)
