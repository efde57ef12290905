"""A text to its lines and back, each with the white space around it.

A translator sees a line at a time: a line break in a text that people send ends a thought more
often than not, and a list must stay a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from seq2see.documents.passages import Extent
from seq2see.documents.sentences import find_sentences
from seq2see.documents.text import bullet
from seq2see.translator.translation import Flag, Link, Sentence, Translation

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
