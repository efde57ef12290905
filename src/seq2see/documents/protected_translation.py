"""Translate lines without changing their placeholders: `{name}`, `%s`, `${x}`, URLs, addresses.

A model that was not trained on placeholders may change or drop them. The strategies are tried in
turn:

1. Translate the line as it is. The translation is accepted if it contains every placeholder as
   often as the source and the model sets no flag that indicates confusion.
2. Translate the line without its placeholders and insert them next to the translations of their
   neighbors.
3. If there is no word alignment for that, translate the text between placeholders separately.
4. If the translation still gains or loses a placeholder, return the source.

Each placeholder therefore occurs in the translation exactly as often as in the source. Replacing
placeholders by ordinary words does not work with small models: "7 people" becomes "Fünf Personen".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from seq2see.documents.markup import IndexRange, has_letter
from seq2see.documents.markup_transfer import find_insertion_offsets
from seq2see.documents.placeholders import (
    PlaceholderInserter,
    ProtectedLine,
    ProtectedLineTask,
    ProtectedTranslation,
    find_occurrences,
    find_remaining_offsets,
    include_surrounding_brackets,
    select_ranges_starting_in,
)
from seq2see.documents.word_alignment import (
    CopiedSpan,
    WeightedLink,
    extract_alignment_links,
    reweight_alignment_links,
)
from seq2see.translator import AlignmentLink, Translation

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

TranslateWithAlignment = Callable[[Sequence[str]], list[Translation]]
"""Translates lines, with alignments."""


_CONFUSED = frozenset({"repetition", "length_limit", "long"})
"""Flags of a translation that shows that the model could not read what it got."""


_MOST_TO_COPY = 2000
"""Characters of all that a model is trusted to copy in one line: more is no sentence, and it would
take long to look for it."""


def translate_protected(
    translator: Translator,
    lines: Sequence[str],
    options: TranslationOptions | None = None,
    *,
    keep_numbers: bool = False,
) -> list[Translation]:
    """Translate lines so that each placeholder is in the translation as often as in the line."""

    def call(texts: Sequence[str]) -> list[Translation]:
        return translate_with_alignment(translator, texts, options)

    guarded = translate_with_fallbacks(
        [ProtectedLine(text) for text in lines], call, keep_numbers=keep_numbers
    )
    found = [one.translation for one in guarded]
    return found if options and options.alignment else [_without_alignment(one) for one in found]


def _without_alignment(translation: Translation) -> Translation:
    """Return a translation without what only the placeholders had need of."""
    others = tuple(map(_without_alignment, translation.alternatives))
    return replace(translation, alignment=(), alternatives=others)


def translate_with_alignment(
    translator: Translator, texts: Sequence[str], options: TranslationOptions | None
) -> list[Translation]:
    """Translate lines with alignments."""
    return translator.translate(list(texts), options, alignment=True)


def translate_with_fallbacks(
    lines: Sequence[ProtectedLine], translate: TranslateWithAlignment, *, keep_numbers: bool = False
) -> list[ProtectedTranslation]:
    """Translate lines; what must stay as it is does."""
    tasks = [ProtectedLineTask(line, keep_numbers=keep_numbers) for line in lines]
    for attempt in (_AsItIs, _Without, _InPieces):
        waiting = [attempt(task) for task in tasks if attempt.may_help(task)]
        texts = [text for one in waiting for text in one.texts]
        found = iter(translate(texts) if texts else [])
        for one in waiting:
            one.task.result = one.result([next(found) for _ in one.texts])
    return [task.result or task.build_untranslated_result() for task in tasks]


class _Attempt:
    """A way to translate a line: what the translator is asked, and what is made of its answers."""

    def __init__(self, task: ProtectedLineTask) -> None:
        self.task = task
        self.texts = [task.text]

    @classmethod
    def may_help(cls, task: ProtectedLineTask) -> bool:
        """Tell if a line is worth this try."""
        return task.result is None and bool(task.protected_ranges)

    def result(self, translations: Sequence[Translation]) -> ProtectedTranslation | None:
        """Return what stands the test, with the alternatives that do, or None."""
        (best,) = translations
        if best.error is not None:
            return ProtectedTranslation(best)
        made = [self._made(one) for one in (best, *best.alternatives)]
        good = [
            one for one in made if one and self.task.has_same_placeholders(one.translation.text)
        ]
        if made[0] is None or made[0] not in good:
            return None
        others = tuple(one.translation for one in good[1:])
        return replace(good[0], translation=replace(good[0].translation, alternatives=others))

    def _made(self, translation: Translation) -> ProtectedTranslation | None:
        raise NotImplementedError


class _AsItIs(_Attempt):
    """Leave everything in, and look if it is still there."""

    @classmethod
    def may_help(cls, task: ProtectedLineTask) -> bool:
        """Tell if a line is worth this try: also one in which there is nothing to keep."""
        return task.result is None and sum(map(len, task.protected_texts)) <= _MOST_TO_COPY

    def _made(self, translation: Translation) -> ProtectedTranslation | None:
        if not self.task.protected_ranges:
            return ProtectedTranslation(translation)
        if _CONFUSED & set(translation.flags):
            return None
        texts = self.task.text, translation.text
        before, now = (find_occurrences(text, self.task.protected_texts) for text in texts)
        if {k: len(v) for k, v in before.items()} != {k: len(v) for k, v in now.items()}:
            return None
        places = {
            s: t for key, found in before.items() for s, t in zip(found, now[key], strict=True)
        }
        if not places.keys() >= set(self.task.protected_ranges):
            return None  # one is part of a longer one
        return ProtectedTranslation(
            translation, tuple(CopiedSpan(e, places[e]) for e in self.task.protected_ranges)
        )


class _Without(_Attempt):
    """Take everything out, and put it back where its neighbours went."""

    def __init__(self, task: ProtectedLineTask) -> None:
        super().__init__(task)
        self._chunks = include_surrounding_brackets(task.text, task.protected_ranges)
        self._kept = find_remaining_offsets(task.text, self._chunks)
        """The characters that stay, by their places in the line."""
        self._residue = "".join(task.text[place] for place in self._kept)
        self.texts = [self._residue]

    def _made(self, translation: Translation) -> ProtectedTranslation | None:
        ties = reweight_alignment_links(
            extract_alignment_links(translation), self._residue, translation.text
        )
        if not ties:
            return None
        points = [bisect_left(self._kept, chunk.start) for chunk in self._chunks]
        places = find_insertion_offsets(self._residue, translation.text, ties, points)
        row = sorted(zip(places, self._chunks, strict=True))
        text = PlaceholderInserter(self.task.text, translation.text)
        moved = [text.insert(place, chunk) for place, chunk in row]
        return self._put_together(translation, text, ties, moved)

    def _put_together(
        self,
        translation: Translation,
        text: PlaceholderInserter,
        ties: Sequence[WeightedLink],
        moved: list[CopiedSpan],
    ) -> ProtectedTranslation:
        anchors = tuple(
            CopiedSpan(extent, _shifted(extent, chunk.target.start - chunk.source.start))
            for chunk in moved
            for extent in select_ranges_starting_in(chunk.source, self.task.protected_ranges)
        )
        origin = [*self._kept, len(self.task.text)]
        links = [
            *(
                WeightedLink(_carried(t.source, origin), text.map_range(t.target), t.weight)
                for t in ties
            ),
            *(WeightedLink(anchor.source, anchor.target) for anchor in anchors),
        ]
        tokens = [
            replace(token, start=where.start, end=where.end)
            for token in translation.tokens
            for where in [text.map_range(IndexRange(token.start, token.end))]
        ]
        changed = replace(
            translation,
            text=text.text,
            tokens=tuple(tokens),
            alignment=tuple(map(_link, links)),
            sentences=(),
        )
        return ProtectedTranslation(changed, anchors)


class _InPieces(_Attempt):
    """Translate what stands between the placeholders, stretch by stretch."""

    def __init__(self, task: ProtectedLineTask) -> None:
        super().__init__(task)
        ends = [0, *(place for extent in task.protected_ranges for place in extent), len(task.text)]
        stretches = [
            _stripped(task.text, IndexRange(*ends[i : i + 2])) for i in range(0, len(ends), 2)
        ]
        self._stretches = [e for e in stretches if has_letter(task.text[e.start : e.end])]
        self.texts = [task.text[start:end] for start, end in self._stretches]

    def result(self, translations: Sequence[Translation]) -> ProtectedTranslation | None:
        """Return the line with each stretch translated."""
        if not translations:
            return None
        failed = next((one for one in translations if one.error is not None), None)
        if failed:
            return ProtectedTranslation(failed)
        text, done, shifts = "", 0, []
        for stretch, translation in zip(self._stretches, translations, strict=True):
            text += self.task.text[done : stretch.start]
            shifts.append((stretch.end, len(text) + len(translation.text) - stretch.end))
            text += translation.text
            done = stretch.end
        text += self.task.text[done:]
        if not self.task.has_same_placeholders(text):
            return None
        anchors = [
            CopiedSpan(extent, _shifted(extent, _shift(shifts, extent.start)))
            for extent in self.task.protected_ranges
        ]
        links = tuple(_link(WeightedLink(anchor.source, anchor.target)) for anchor in anchors)
        whole = Translation(
            text,
            sum(one.score for one in translations) / len(translations),
            sum(one.log_prob for one in translations),
            alignment=links,
            flags=tuple(dict.fromkeys(flag for one in translations for flag in one.flags)),
            unmet_constraints=tuple(
                dict.fromkeys(term for one in translations for term in one.unmet_constraints)
            ),
        )
        return ProtectedTranslation(whole, tuple(anchors))


def _stripped(text: str, extent: IndexRange) -> IndexRange:
    part = text[extent.start : extent.end]
    start = extent.start + len(part) - len(part.lstrip())
    return IndexRange(start, start + len(part.strip()))


def _shifted(extent: IndexRange, by: int) -> IndexRange:
    return IndexRange(extent.start + by, extent.end + by)


def _shift(shifts: Sequence[tuple[int, int]], place: int) -> int:
    before = bisect_right(shifts, place, key=lambda shift: shift[0])
    return shifts[before - 1][1] if before else 0


def _carried(extent: IndexRange, origin: Sequence[int]) -> IndexRange:
    return IndexRange(origin[extent.start], origin[extent.end - 1] + 1)


def _link(tie: WeightedLink) -> AlignmentLink:
    return AlignmentLink(*tie.source, *tie.target, tie.weight)
