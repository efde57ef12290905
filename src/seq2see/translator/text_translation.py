"""The way from a text to its translation, which all callers share.

A text is split into parts: its lines, or their sentences. White space, list markers, and lines and
sentences without a letter are copied. The blocks of all parts are translated together, each
different one once; placeholders and other protected text stay as they are. A line whose translation
has fewer sentences than the line is translated again sentence by sentence.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from seq2see.cancellation import check_cancelled
from seq2see.errors import InputError
from seq2see.markup.text_units import IndexRange
from seq2see.progress_callbacks import ProgressCallback
from seq2see.text import TextSpan, split_sentences
from seq2see.text.languages import find_sentence_separator, has_letter
from seq2see.text.normalization import check_surrogates
from seq2see.text.sentence_splitting import count_sentences, may_have_several_sentences
from seq2see.translator.placeholders import (
    ProtectedBlock,
    ProtectedTranslation,
    find_placeholders,
    merge_overlapping_ranges,
    select_ranges_starting_in,
    translate_preserving_placeholders,
)
from seq2see.translator.translation import (
    Block,
    BlockTranslationFunction,
    Translation,
    TranslationOptions,
    join_translations,
)

LINE_BREAK = re.compile(r"[\r\n\u2028\u2029]")
_LINE = re.compile(r"[^\r\n\u2028\u2029]+")
_BOM = "\ufeff"
_LIST_MARKER = re.compile(
    r"""
    \s*
    (?:
        (?:
            [-*+·–—]
            | >{1,9}
            | \#{1,6}
            | \[[ xX]\]  # task of a checklist
            | \(?(?:\d{1,3}(?:\.\d{1,3})*|[a-z]|[ivx]{2,4}|[IVX]{2,4})[.)]  # not I., an initial
            | \(?[A-Z]\)
        )
        \s+
        | [•‣◦▪■●○►▸✓☐☑①-⑳]\s*
        | [(（]?(?:\d{1,3}|[a-z])）\s*
        | \d{1,3}[、．](?!\s*\d)\s*  # not 1、2 and 3．5
    )+
    """,
    re.VERBOSE,
)
"""Bullets and numbers at the beginning of a list item, with the white space around them."""


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
        if marker and protected:
            around = IndexRange(match.start(), match.start() + len(marker))
            if any(one.end > around.end for one in select_ranges_starting_in(around, protected)):
                marker = ""
        content = TextSpan(line[len(marker) :], match.start() + len(marker)).strip()
        if content.text:
            yield content


def extract_list_marker(line: str) -> str:
    """Return the markers at the beginning of a list item, or an empty string."""
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


_BATCH_SIZE = 256
"""Number of blocks between two calls of `on_progress`; without it all are one batch."""
_MIN_LENGTH_GAIN = 1.25
"""If the sentences of a line that are translated one by one have as many sentences as the line
translated at once, they cover it better if they are longer by this factor."""


class BlockTranslator(Protocol):
    """Translates blocks: a `Translator` does, and so may a queue or several models in sequence."""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""

    @property
    def max_sentences_per_line(self) -> int:
        """Maximum number of sentences of a line that is translated at once by default."""

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        """Translate blocks in order; see `BlockTranslationFunction`."""


@dataclass(frozen=True, slots=True)
class TranslatedPart:
    """A part of a text with its translations, the best first."""

    span: TextSpan
    candidates: Sequence[ProtectedTranslation]

    def merge_candidates(self, *, has_alignment: bool) -> Translation:
        """Return the best translation with the others as alternatives."""
        best, *others = (
            one.translation
            if has_alignment or not one.translation.alignment
            else replace(one.translation, alignment=())
            for one in self.candidates
        )
        return replace(best, alternatives=tuple(others)) if others or best.alternatives else best


class TextTranslator:
    """Translates texts with the same options.

    Args:
        translator: Translates blocks.
        options: Options of the translation.
        translate_blocks: Called instead of the method of the translator.
        on_progress: Called with the number of translated blocks and their total number.
    """

    def __init__(
        self,
        translator: BlockTranslator,
        options: TranslationOptions | None = None,
        *,
        translate_blocks: BlockTranslationFunction | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self.languages = translator.languages
        self.separator = find_sentence_separator(*translator.languages)
        self._translate_blocks = translate_blocks or translator.translate_blocks
        self._options = options or TranslationOptions()
        self._plain_options = self._options.model_copy(update={"prefix": ""})
        self._alignment_options = self._plain_options.model_copy(update={"alignment": True})
        self._on_progress = on_progress
        self._max_sentences = {
            "auto": translator.max_sentences_per_line,
            "always": 1,
            "never": None,
        }[self._options.split]

    def translate(self, texts: Sequence[SourceText]) -> list[Translation]:
        """Translate texts in order. A text that is invalid has an error in its translation."""
        problems = [self.find_problem(source) for source in texts]
        valid = [one for one, problem in zip(texts, problems, strict=True) if problem is None]
        parts = iter(self.translate_parts([self.find_parts(source) for source in valid]))
        return [
            self.join_parts(source.text, next(parts))
            if problem is None
            else Translation("", 0.0, 0.0, error=problem)
            for source, problem in zip(texts, problems, strict=True)
        ]

    @staticmethod
    def find_problem(source: SourceText) -> str | None:
        """Return why a text cannot be translated, or None."""
        text: object = source.text
        if not isinstance(text, str):
            return f"a line must be a string, but is {type(text).__name__} instead"
        try:
            check_surrogates(text)
        except InputError as error:
            return str(error)
        return None

    def find_parts(self, source: SourceText) -> list[TextPart]:
        """Return the parts of a text that are translated."""
        check_cancelled()
        return find_parts(source, self.languages[0], self._max_sentences)

    def join_parts(self, text: str, parts: Sequence[TranslatedPart]) -> Translation:
        """Return the translation of a text from those of its parts."""
        has_alignment = self._options.alignment
        translations = [part.merge_candidates(has_alignment=has_alignment) for part in parts]
        spans = [part.span for part in parts]
        return join_translations(text, spans, translations, separator=self.separator)

    def translate_parts(self, texts: Sequence[Sequence[TextPart]]) -> list[list[TranslatedPart]]:
        """Translate the parts of several texts together.

        A part that is better translated sentence by sentence is replaced by its sentences.
        """
        candidates = self._translate_different_blocks([part for text in texts for part in text])
        doubtful = [
            part
            for text in texts
            for part in text
            if part.sentences and self._lacks_sentences(part, candidates[part.block][0])
        ]
        retried = self._translate_different_blocks(
            [sentence for part in doubtful for sentence in part.sentences]
        )
        replaced = {
            part.block
            for part in doubtful
            if self._covers_more(part, candidates[part.block][0], retried)
        }
        return [
            [
                TranslatedPart(each.span, (retried if each is not part else candidates)[each.block])
                for part in text
                for each in (part.sentences if part.block in replaced else (part,))
            ]
            for text in texts
        ]

    def _lacks_sentences(self, part: TextPart, result: ProtectedTranslation) -> bool:
        if result.translation.error is not None:
            return False
        return self._count_sentences(result.translation.text) < len(part.sentences)

    def _covers_more(
        self,
        part: TextPart,
        at_once: ProtectedTranslation,
        retried: dict[ProtectedBlock, list[ProtectedTranslation]],
    ) -> bool:
        """Return whether the sentences, translated one by one, cover more of a part.

        The number of their sentences decides, or their length if it is equal.
        """
        translations = [retried[sentence.block][0].translation for sentence in part.sentences]
        spans = [sentence.span for sentence in part.sentences]
        shifted = [replace(span, start=span.start - part.start) for span in spans]
        joined = join_translations(part.block.text, shifted, translations, separator=self.separator)
        if joined.error is not None:
            return False
        counts = [
            min(self._count_sentences(text), len(part.sentences))
            for text in (joined.text, at_once.translation.text)
        ]
        if counts[0] != counts[1]:
            return counts[0] > counts[1]
        return len(joined.text) > _MIN_LENGTH_GAIN * len(at_once.translation.text)

    def _count_sentences(self, text: str) -> int:
        return count_sentences(text, self.languages[1])

    def _translate_different_blocks(
        self, parts: Sequence[TextPart]
    ) -> dict[ProtectedBlock, list[ProtectedTranslation]]:
        """Translate each different block once, with alignment only where it is needed."""
        keep_numbers = self._options.keep_numbers
        needs_alignment: dict[ProtectedBlock, bool] = {}
        for part in parts:
            needs_alignment[part.block] = (
                needs_alignment.get(part.block, False)
                or part.needs_alignment
                or bool(part.block.find_protected_ranges(keep_numbers=keep_numbers))
            )
        results: dict[ProtectedBlock, list[ProtectedTranslation]] = {}
        for has_alignment, options in enumerate((self._plain_options, self._alignment_options)):
            blocks = [block for block, needs in needs_alignment.items() if needs == has_alignment]
            size = _BATCH_SIZE if self._on_progress else max(len(blocks), 1)
            for start in range(0, len(blocks), size):
                batch = blocks[start : start + size]
                found = translate_preserving_placeholders(self._translate_blocks, batch, options)
                results.update(zip(batch, found, strict=True))
                if self._on_progress:
                    self._on_progress(len(results), len(needs_alignment))
        return results
