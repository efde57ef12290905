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

from seq2see.documents.markup import Event, Extent, Passage, has_letter
from seq2see.documents.markup_transfer import project
from seq2see.documents.placeholders import Guarded, Line, find, united
from seq2see.documents.protected_translation import aligned, guard
from seq2see.documents.word_alignment import Anchor, Tie, diagonal, sharpened, ties_of
from seq2see.text import Span, split
from seq2see.text.languages import is_unspaced

if TYPE_CHECKING:
    from seq2see.translator import Translation, TranslationOptions, Translator


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader should look at, and where it is."""

    place: str
    what: str


@dataclass(slots=True)
class DocumentReport:
    """What was translated, and what should be looked at."""

    units: int = 0
    """Passages that were translated: paragraphs, cues, entries, attributes."""
    sentences: int = 0
    kept: int = 0
    """Units that had a translation already, and keep it."""
    flags: list[Finding] = field(default_factory=list)
    """Translations that look suspicious, and why."""
    unmet: list[Finding] = field(default_factory=list)
    """Terms of the glossary that a translation lacks."""
    errors: list[Finding] = field(default_factory=list)
    """Sentences that could not be translated, and stay as they were."""


Progress = Callable[[int, int], None]
"""Is told how many sentences are done, and of how many."""


_BLOCK = 256
"""Sentences between two words of progress; without an ear for them, all go at once."""


_WHITE = frozenset(" \t\r\n\f\v")


_WORDS = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as the model gets it: on one line, with single spaces."""

    start: int
    end: int
    line: Line
    origin: tuple[int, ...]
    """Where each of its characters is in the passage."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The events of a passage around its translation."""

    events: list[Event]
    has_failed: bool = False
    """Some sentence of it is still what it was."""

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(event for event in self.events if isinstance(event, str))


class Job:
    """Translates passages with one translator, and keeps the report."""

    def __init__(
        self,
        translator: Translator,
        options: TranslationOptions | None = None,
        *,
        numbers: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._translator = translator
        self._options = options
        self._numbers = numbers
        self.overwrite = overwrite
        self._progress = progress
        self.source, self.target = translator.languages
        self.report = DocumentReport()

    def translate(self, passages: Sequence[Passage]) -> list[Translated]:
        """Translate all passages of a document at once."""
        cut = [self._sentences(passage) for passage in passages]
        found = self._translated(cut, [bool(passage.marks) for passage in passages])
        return [
            self._assembled(passage, sentences, found)
            for passage, sentences in zip(passages, cut, strict=True)
        ]

    def translate_texts(self, texts: Sequence[str], places: Sequence[str]) -> list[str]:
        """Translate texts without marks."""
        passages = [Passage(text, (), place) for text, place in zip(texts, places, strict=True)]
        return [one.text for one in self.translate(passages)]

    def _sentences(self, passage: Passage) -> list[_Sentence]:
        """Cut a passage; never inside of what must stay whole."""
        text, kept = passage.text, passage.kept
        return [_sentence(text, one, kept) for one in find_sentences(text, self.source, kept)]

    def _translated(
        self, cut: Sequence[Sequence[_Sentence]], marked: Sequence[bool]
    ) -> dict[Line, Guarded]:
        """Translate each different sentence once; alignments only where there is need of them."""
        needs: dict[Line, bool] = {}
        for sentences, has_marks in zip(cut, marked, strict=True):
            for sentence in sentences:
                needs[sentence.line] = needs.get(sentence.line, False) or has_marks
        with_marks, plain = list[Line](), list[Line]()
        for line, need in needs.items():
            (with_marks if need or self._is_guarded(line) else plain).append(line)
        self._total, self._done = len(needs), 0
        found = dict(self._in_blocks(plain, self._plain))
        found.update(self._in_blocks(with_marks, self._guarded))
        return found

    def _is_guarded(self, line: Line) -> bool:
        return bool(line.kept or find(line.text, numbers=self._numbers))

    def _in_blocks(
        self, lines: Sequence[Line], translate: Callable[[Sequence[Line]], list[Guarded]]
    ) -> Iterable[tuple[Line, Guarded]]:
        size = _BLOCK if self._progress else max(len(lines), 1)
        for start in range(0, len(lines), size):
            block = lines[start : start + size]
            yield from zip(block, translate(block), strict=True)
            self._done += len(block)
            if self._progress:
                self._progress(self._done, self._total)

    def _plain(self, lines: Sequence[Line]) -> list[Guarded]:
        texts = [line.text for line in lines]
        return [Guarded(one) for one in self._translator.translate(texts, self._options)]

    def _guarded(self, lines: Sequence[Line]) -> list[Guarded]:
        def call(texts: Sequence[str]) -> list[Translation]:
            return aligned(self._translator, texts, self._options)

        return guard(lines, call, numbers=self._numbers)

    def _assembled(
        self, passage: Passage, sentences: Sequence[_Sentence], found: dict[Line, Guarded]
    ) -> Translated:
        """Put the translations in the places of the sentences, and the marks around their words."""
        joins = is_unspaced(self.source) and not is_unspaced(self.target)
        whole = _Whole(passage, " " if joins else "")
        for sentence in sentences:
            guarded = found[sentence.line]
            self._note(passage.place, guarded.translation)
            whole.add(sentence, guarded)
        whole.keep_until(len(passage.text))
        self.report.units += bool(sentences)
        self.report.sentences += len(sentences)
        text = whole.text
        spots = project(passage, text, whole.ties, whole.anchors)
        failed = any(found[sentence.line].translation.error for sentence in sentences)
        return Translated(list(passage.events(text, spots)), failed)

    def _note(self, place: str, translation: Translation) -> None:
        if translation.error is not None:
            self.report.errors.append(Finding(place, translation.error))
        self.report.flags.extend(Finding(place, str(flag)) for flag in translation.flags)
        self.report.unmet.extend(Finding(place, term) for term in translation.unmet)


class _Whole:
    """A passage that grows sentence by sentence, with all that was between them."""

    def __init__(self, passage: Passage, filler: str) -> None:
        self._passage, self._filler = passage, filler
        self._kept = passage.kept
        self._done = 0
        self._parts: list[str] = []
        self._length = 0
        self.ties: list[Tie] = []
        self.anchors: list[Anchor] = []

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self._parts)

    def _append(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def add(self, sentence: _Sentence, guarded: Guarded) -> None:
        """Go on with the translation of a sentence, or with itself where there is none."""
        if self._done == sentence.start > 0:
            self._append(self._filler)
        self.keep_until(sentence.start)
        translation = guarded.translation
        if translation.error is not None:
            self.keep_until(sentence.end)
            return
        texts = sentence.line.text, translation.text
        ties = sharpened(ties_of(translation), *texts) or diagonal(*texts)
        self.ties += [Tie(*self._moved(sentence, t.source, t.target), t.weight) for t in ties]
        self.anchors += [Anchor(*self._moved(sentence, *anchor)) for anchor in guarded.anchors]
        self._append(translation.text)
        self._done = sentence.end

    def _moved(self, sentence: _Sentence, source: Extent, target: Extent) -> tuple[Extent, Extent]:
        origin = sentence.origin
        start, end = origin[source.start], origin[source.end - 1] + 1
        shift = self._length
        return Extent(start, end), Extent(target.start + shift, target.end + shift)

    def keep_until(self, end: int) -> None:
        """Go on with what stays as it is."""
        start, shift = self._done, self._length - self._done
        self._append(self._passage.text[start:end])
        kept = _inside(self._kept, start, end)
        words = [Extent(*m.span()) for m in _WORDS.finditer(self._passage.text, start, end)]
        self.anchors += [Anchor(one, Extent(one.start + shift, one.end + shift)) for one in kept]
        self.ties += [Tie(one, Extent(one.start + shift, one.end + shift)) for one in words]
        self._done = end


def _inside(extents: Sequence[Extent], start: int, end: int) -> Sequence[Extent]:
    """Return those of the extents, which are in order, that are within these places."""
    first = bisect_left(extents, start, key=lambda extent: extent.start)
    return extents[first : bisect_right(extents, end, key=lambda extent: extent.end)]


def _sentence(text: str, extent: Extent, kept: Sequence[Extent]) -> _Sentence:
    """Make a sentence one line with single spaces, and remember where its characters were."""
    origin = [
        place
        for place in range(*extent)
        if place == extent.start or text[place] not in _WHITE or text[place - 1] not in _WHITE
    ]
    line = "".join(" " if text[place] in _WHITE else text[place] for place in origin)
    moved = (
        Extent(bisect_left(origin, one.start), bisect_left(origin, one.end))
        for one in _inside(kept, *extent)
    )
    return _Sentence(*extent, Line(line, tuple(moved)), tuple(origin))


def find_sentences(text: str, language: str, kept: Sequence[Extent] = ()) -> list[Extent]:
    """Return the sentences that have a letter.

    None ends inside of a placeholder, or of what else must stay whole.
    """
    if not has_letter(text):
        return []
    whole = _merged(split(text, language), united([*kept, *find(text)]))
    return [one for one in whole if has_letter(text[one.start : one.end])]


def _merged(spans: Sequence[Span], whole: Sequence[Extent]) -> list[Extent]:
    """Return the sentences, joined where one would end inside of what must stay whole."""
    result: list[Extent] = []
    for span in spans:
        before = bisect_left(whole, span.start, key=lambda extent: extent.start) - 1
        if result and before >= 0 and span.start < whole[before].end:
            result[-1] = Extent(result[-1].start, span.end)
        else:
            result.append(Extent(span.start, span.end))
    return result
