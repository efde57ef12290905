"""Translate the text units of a document and collect a report.

Units are split into sentences, all different sentences are translated together, and the
translations are put back into the units with their inline tags.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seq2see.documents.markup import IndexRange, MarkupNode, TextUnit, has_letter
from seq2see.documents.markup_transfer import transfer_tags
from seq2see.documents.placeholders import (
    ProtectedLine,
    ProtectedTranslation,
    find_placeholders,
    merge_overlapping_ranges,
)
from seq2see.documents.protected_translation import (
    translate_with_alignment,
    translate_with_fallbacks,
)
from seq2see.documents.word_alignment import (
    CopiedSpan,
    WeightedLink,
    align_diagonally,
    extract_alignment_links,
    reweight_alignment_links,
)
from seq2see.text import TextSpan, split_sentences
from seq2see.text.languages import is_written_without_spaces

if TYPE_CHECKING:
    from seq2see.progress import ProgressCallback
    from seq2see.translator import Translation, TranslationOptions, Translator


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that a reader should look at, and where it is."""

    location: str
    message: str


@dataclass(slots=True)
class DocumentReport:
    """What was translated, and what should be looked at."""

    num_units: int = 0
    """Passages that were translated: paragraphs, cues, entries, attributes."""
    num_sentences: int = 0
    num_already_translated: int = 0
    """Units that had a translation already, and keep it."""
    flags: list[Issue] = field(default_factory=list)
    """Translations that look suspicious, and why."""
    unmet_constraints: list[Issue] = field(default_factory=list)
    """Terms of the glossary that a translation lacks."""
    errors: list[Issue] = field(default_factory=list)
    """Sentences that could not be translated, and stay as they were."""


_BLOCK = 256
"""Sentences between two words of progress; without an ear for them, all go at once."""


_WHITE = frozenset(" \t\r\n\f\v")


_WORDS = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as the model gets it: on one line, with single spaces."""

    start: int
    end: int
    line: ProtectedLine
    origin: tuple[int, ...]
    """Where each of its characters is in the passage."""


@dataclass(frozen=True, slots=True)
class TranslatedUnit:
    """The events of a passage around its translation."""

    nodes: list[MarkupNode]
    has_failed: bool = False
    """Some sentence of it is still what it was."""

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(event for event in self.nodes if isinstance(event, str))


class DocumentTranslator:
    """Translates passages with one translator, and keeps the report."""

    def __init__(
        self,
        translator: Translator,
        options: TranslationOptions | None = None,
        *,
        keep_numbers: bool = False,
        overwrite: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> None:
        self._translator = translator
        self._options = options
        self._numbers = keep_numbers
        self.overwrite = overwrite
        self._progress = on_progress
        self.source_language, self.target_language = translator.languages
        self.report = DocumentReport()

    def translate(self, units: Sequence[TextUnit]) -> list[TranslatedUnit]:
        """Translate all passages of a document at once."""
        cut = [self._sentences(passage) for passage in units]
        found = self._translated(cut, [bool(passage.tags) for passage in units])
        return [
            self._assembled(passage, sentences, found)
            for passage, sentences in zip(units, cut, strict=True)
        ]

    def translate_texts(self, texts: Sequence[str], locations: Sequence[str]) -> list[str]:
        """Translate texts without marks."""
        passages = [TextUnit(text, (), place) for text, place in zip(texts, locations, strict=True)]
        return [one.text for one in self.translate(passages)]

    def _sentences(self, passage: TextUnit) -> list[_Sentence]:
        """Cut a passage; never inside of what must stay whole."""
        text, kept = passage.text, passage.protected_ranges
        return [
            _sentence(text, one, kept) for one in find_sentences(text, self.source_language, kept)
        ]

    def _translated(
        self, cut: Sequence[Sequence[_Sentence]], marked: Sequence[bool]
    ) -> dict[ProtectedLine, ProtectedTranslation]:
        """Translate each different sentence once; alignments only where there is need of them."""
        needs: dict[ProtectedLine, bool] = {}
        for sentences, has_marks in zip(cut, marked, strict=True):
            for sentence in sentences:
                needs[sentence.line] = needs.get(sentence.line, False) or has_marks
        with_marks, plain = list[ProtectedLine](), list[ProtectedLine]()
        for line, need in needs.items():
            (with_marks if need or self._is_guarded(line) else plain).append(line)
        self._total, self._done = len(needs), 0
        found = dict(self._in_blocks(plain, self._plain))
        found.update(self._in_blocks(with_marks, self._guarded))
        return found

    def _is_guarded(self, line: ProtectedLine) -> bool:
        return bool(line.protected or find_placeholders(line.text, include_numbers=self._numbers))

    def _in_blocks(
        self,
        lines: Sequence[ProtectedLine],
        translate: Callable[[Sequence[ProtectedLine]], list[ProtectedTranslation]],
    ) -> Iterable[tuple[ProtectedLine, ProtectedTranslation]]:
        size = _BLOCK if self._progress else max(len(lines), 1)
        for start in range(0, len(lines), size):
            block = lines[start : start + size]
            yield from zip(block, translate(block), strict=True)
            self._done += len(block)
            if self._progress:
                self._progress(self._done, self._total)

    def _plain(self, lines: Sequence[ProtectedLine]) -> list[ProtectedTranslation]:
        texts = [line.text for line in lines]
        return [
            ProtectedTranslation(one) for one in self._translator.translate(texts, self._options)
        ]

    def _guarded(self, lines: Sequence[ProtectedLine]) -> list[ProtectedTranslation]:
        def call(texts: Sequence[str]) -> list[Translation]:
            return translate_with_alignment(self._translator, texts, self._options)

        return translate_with_fallbacks(lines, call, keep_numbers=self._numbers)

    def _assembled(
        self,
        passage: TextUnit,
        sentences: Sequence[_Sentence],
        found: dict[ProtectedLine, ProtectedTranslation],
    ) -> TranslatedUnit:
        """Put the translations in the places of the sentences, and the marks around their words."""
        joins = is_written_without_spaces(self.source_language) and not is_written_without_spaces(
            self.target_language
        )
        whole = _Whole(passage, " " if joins else "")
        for sentence in sentences:
            guarded = found[sentence.line]
            self._note(passage.location, guarded.translation)
            whole.add(sentence, guarded)
        whole.keep_until(len(passage.text))
        self.report.num_units += bool(sentences)
        self.report.num_sentences += len(sentences)
        text = whole.text
        spots = transfer_tags(passage, text, whole.ties, whole.anchors)
        failed = any(found[sentence.line].translation.error for sentence in sentences)
        return TranslatedUnit(list(passage.to_nodes(text, spots)), failed)

    def _note(self, place: str, translation: Translation) -> None:
        if translation.error is not None:
            self.report.errors.append(Issue(place, translation.error))
        self.report.flags.extend(Issue(place, str(flag)) for flag in translation.flags)
        self.report.unmet_constraints.extend(
            Issue(place, term) for term in translation.unmet_constraints
        )


class _Whole:
    """A passage that grows sentence by sentence, with all that was between them."""

    def __init__(self, passage: TextUnit, filler: str) -> None:
        self._passage, self._filler = passage, filler
        self._kept = passage.protected_ranges
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self.ties: list[WeightedLink] = []
        self.anchors: list[CopiedSpan] = []

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._parts)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def add(self, sentence: _Sentence, guarded: ProtectedTranslation) -> None:
        """Go on with the translation of a sentence, or with itself where there is none."""
        if self._done == sentence.start > 0:
            self._append(self._filler)
        self.keep_until(sentence.start)
        translation = guarded.translation
        if translation.error is not None:
            self.keep_until(sentence.end)
            return
        texts = sentence.line.text, translation.text
        ties = reweight_alignment_links(
            extract_alignment_links(translation), *texts
        ) or align_diagonally(*texts)
        self.ties += [
            WeightedLink(*self._moved(sentence, t.source, t.target), t.weight) for t in ties
        ]
        self.anchors += [
            CopiedSpan(*self._moved(sentence, *anchor)) for anchor in guarded.copied_spans
        ]
        self._append(translation.text)
        self._done = sentence.end

    def _moved(
        self, sentence: _Sentence, source: IndexRange, target: IndexRange
    ) -> tuple[IndexRange, IndexRange]:
        origin = sentence.origin
        start, end = origin[source.start], origin[source.end - 1] + 1
        shift = self._length
        return IndexRange(start, end), IndexRange(target.start + shift, target.end + shift)

    def keep_until(self, end: int) -> None:
        """Go on with what stays as it is."""
        start, shift = self._done, self._length - self._done
        self._append(self._passage.text[start:end])
        kept = _inside(self._kept, start, end)
        words = [IndexRange(*m.span()) for m in _WORDS.finditer(self._passage.text, start, end)]
        self.anchors += [
            CopiedSpan(one, IndexRange(one.start + shift, one.end + shift)) for one in kept
        ]
        self.ties += [
            WeightedLink(one, IndexRange(one.start + shift, one.end + shift)) for one in words
        ]
        self._done = end


def _inside(extents: Sequence[IndexRange], start: int, end: int) -> Sequence[IndexRange]:
    """Return those of the extents, which are in order, that are within these places."""
    first = bisect_left(extents, start, key=lambda extent: extent.start)
    return extents[first : bisect_right(extents, end, key=lambda extent: extent.end)]


def _sentence(text: str, extent: IndexRange, kept: Sequence[IndexRange]) -> _Sentence:
    """Make a sentence one line with single spaces, and remember where its characters were."""
    origin = [
        place
        for place in range(*extent)
        if place == extent.start or text[place] not in _WHITE or text[place - 1] not in _WHITE
    ]
    line = "".join(" " if text[place] in _WHITE else text[place] for place in origin)
    moved = (
        IndexRange(bisect_left(origin, one.start), bisect_left(origin, one.end))
        for one in _inside(kept, *extent)
    )
    return _Sentence(*extent, ProtectedLine(line, tuple(moved)), tuple(origin))


def find_sentences(
    text: str, language: str, protected: Sequence[IndexRange] = ()
) -> list[IndexRange]:
    """Return the sentences that have a letter.

    None ends inside of a placeholder, or of what else must stay whole.
    """
    if not has_letter(text):
        return []
    whole = _merged(
        split_sentences(text, language),
        merge_overlapping_ranges([*protected, *find_placeholders(text)]),
    )
    return [one for one in whole if has_letter(text[one.start : one.end])]


def _merged(spans: Sequence[TextSpan], whole: Sequence[IndexRange]) -> list[IndexRange]:
    """Return the sentences, joined where one would end inside of what must stay whole."""
    result: list[IndexRange] = []
    for span in spans:
        before = bisect_left(whole, span.start, key=lambda extent: extent.start) - 1
        if result and before >= 0 and span.start < whole[before].end:
            result[-1] = IndexRange(result[-1].start, span.end)
        else:
            result.append(IndexRange(span.start, span.end))
    return result
