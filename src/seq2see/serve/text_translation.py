"""Translates plain texts and HTML: finds the translatable spans, translates them, joins the
results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from seq2see.documents import html, translate_protected
from seq2see.documents.document_translator import Job, find_sentences
from seq2see.documents.markup import Extent
from seq2see.documents.placeholders import find
from seq2see.documents.plain_text import bullet
from seq2see.translator import TranslationOptions, Translator
from seq2see.translator.translation import Flag, Link, Sentence, Translation


@dataclass(frozen=True, slots=True)
class Manner:
    """How texts are translated."""

    options: TranslationOptions
    html: bool = False
    numbers: bool = False
    """Numbers stay as they are, like placeholders."""


def translate_texts(
    translator: Translator, texts: Sequence[str], manner: Manner
) -> list[Translation]:
    """Translate texts in their order."""
    if manner.html:
        return [translate_page(translator, text, manner.options, manner.numbers) for text in texts]
    cuts = [cut(text, translator.languages[0]) for text in texts]
    parts = iter(_lines(translator, [line.text for lines in cuts for line in lines], manner))
    return [
        joined(text, lines, [next(parts) for _ in lines])
        for text, lines in zip(texts, cuts, strict=True)
    ]


def _lines(translator: Translator, lines: Sequence[str], manner: Manner) -> list[Translation]:
    """Translate lines; those with placeholders so that these survive, which takes longer."""
    marked = [bool(find(line, numbers=manner.numbers)) for line in lines]
    plain = [line for line, mark in zip(lines, marked, strict=True) if not mark]
    rest = [line for line, mark in zip(lines, marked, strict=True) if mark]
    found = iter(translator.translate(plain, manner.options) if plain else [])
    kept = iter(_kept(translator, rest, manner) if rest else [])
    return [next(kept if mark else found) for mark in marked]


def _kept(translator: Translator, lines: Sequence[str], manner: Manner) -> list[Translation]:
    return translate_protected(translator, lines, manner.options, numbers=manner.numbers)


_LINE = re.compile(r"[^\r\n\u2028\u2029]+")


_BOM = "\ufeff"


Placed = TypeVar("Placed", Link, Sentence)


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A line, or a part of one, without the white space around it, and where it starts."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.start + len(self.text)


def cut(text: str, language: str) -> list[Paragraph]:
    """Return what is to be translated of each line: no bullet, and no sentence without a letter."""
    found = []
    for match in _LINE.finditer(text, len(_BOM) if text.startswith(_BOM) else 0):
        before = bullet(match[0])
        words = match[0][len(before) :]
        start = match.start() + len(before)
        found += [Paragraph(words[s:e], start + s) for s, e in _stretches(words, language)]
    return found


def _stretches(line: str, language: str) -> list[Extent]:
    """Return the sentences of a line that have a letter, with their neighbours as one."""
    found: list[Extent] = []
    for sentence in find_sentences(line, language):
        if found and not line[found[-1].end : sentence.start].strip():
            found[-1] = Extent(found[-1].start, sentence.end)
        else:
            found.append(sentence)
    return found


def joined(text: str, lines: Sequence[Paragraph], parts: Sequence[Translation]) -> Translation:
    """Return the translation of a text from those of its lines; all places count in the text."""
    count = max((len(part.alternatives) for part in parts), default=0)
    others = (_whole(text, lines, [_other(part, n) for part in parts]) for n in range(count))
    return replace(_whole(text, lines, parts), alternatives=tuple(others))


def _whole(text: str, lines: Sequence[Paragraph], parts: Sequence[Translation]) -> Translation:
    if failed := [part.error for part in parts if part.error]:
        return Translation("", 0.0, 0.0, error=failed[0])
    pieces, tokens, links, sentences = [], [], [], []
    end = place = 0
    for line, part in zip(lines, parts, strict=True):
        gap = text[end : line.start]
        place += len(gap)
        tokens += [replace(t, start=t.start + place, end=t.end + place) for t in part.tokens]
        links += [_moved(link, line.start, place) for link in part.alignment]
        sentences += [_moved(each, line.start, place) for each in part.sentences]
        pieces += [gap, part.text]
        place += len(part.text)
        end = line.end
    sizes = [len(line.text) for line in lines]
    score = sum(p.score * size for p, size in zip(parts, sizes, strict=True)) / (sum(sizes) or 1)
    return Translation(
        "".join([*pieces, text[end:]]),
        score,
        sum(part.log_prob for part in parts),
        tokens=tuple(tokens),
        alignment=tuple(links),
        flags=tuple(flag for flag in Flag if any(flag in part.flags for part in parts)),
        unmet=tuple(dict.fromkeys(wish for part in parts for wish in part.unmet)),
        sentences=tuple(sentences),
    )


def _moved(one: Placed, source: int, target: int) -> Placed:
    """Return it with places that count in the text, not in its line."""
    return replace(
        one,
        source_start=one.source_start + source,
        source_end=one.source_end + source,
        target_start=one.target_start + target,
        target_end=one.target_end + target,
    )


def _other(part: Translation, index: int) -> Translation:
    """Return an alternative of a line, or its best translation where it has no more."""
    return part.alternatives[index] if index < len(part.alternatives) else part


class _Nth:
    """A translator whose best translation is another's n-th. That one sees each line once."""

    def __init__(self, inner: Translator) -> None:
        self._inner = inner
        self._known: dict[tuple[str, str], Translation] = {}
        self.rank = 0

    @property
    def languages(self) -> tuple[str, str]:
        return self._inner.languages

    @property
    def most(self) -> int:
        """The most alternatives that a line has."""
        return max((len(one.alternatives) for one in self._known.values()), default=0)

    def translate(
        self, lines: Sequence[str], options: TranslationOptions, **settings: Any
    ) -> list[Translation]:
        options = options.changed(settings)
        wishes = options.model_dump_json()
        new = [line for line in dict.fromkeys(lines) if (wishes, line) not in self._known]
        if new:
            keys = [(wishes, line) for line in new]
            self._known.update(zip(keys, self._inner.translate(new, options), strict=True))
        return [self._ranked(self._known[wishes, line]) for line in lines]

    def _ranked(self, found: Translation) -> Translation:
        ranks = (replace(found, alternatives=()), *found.alternatives)
        return ranks[min(self.rank, len(ranks) - 1)]


def translate_page(
    translator: Translator, page: str, options: TranslationOptions, numbers: bool
) -> Translation:
    """Translate a piece of HTML; tags go where their words went, in each alternative too."""
    ranked = _Nth(translator)
    best = _page(ranked, page, options, numbers)
    others = []
    for rank in range(1, ranked.most + 1):
        ranked.rank = rank
        others.append(_page(ranked, page, options, numbers))
    return replace(best, alternatives=tuple(others))


def _page(ranked: _Nth, page: str, options: TranslationOptions, numbers: bool) -> Translation:
    job = Job(cast("Translator", ranked), options, numbers=numbers)
    text = html.translate_page(page, job)
    report = job.report
    found = {finding.what for finding in report.flags}
    return Translation(
        text,
        0.0,
        0.0,
        flags=tuple(flag for flag in Flag if flag in found),
        unmet=tuple(dict.fromkeys(finding.what for finding in report.unmet)),
        error=report.errors[0].what if report.errors else None,
    )
