"""Subtitles, SubRip and WebVTT: the words of the cues change, and nothing else.

Cue by cue: a sentence that runs over two cues is translated as two, since who wrote them cut it
where its words are heard.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from seq2see.documents import markup
from seq2see.documents.document_translator import DocumentTranslator
from seq2see.documents.markup import MarkupNode, TextUnit
from seq2see.documents.plain_text import DecodedText
from seq2see.errors import InputError

_TIMES = re.compile(r"\s*(?:\d+:)?\d+:\d+[.,]\d+\s*-->\s*(?:\d+:)?\d+:\d+[.,]\d+")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")
_WORD = re.compile(r"\S+")
_GAP = re.compile(r"(?<=\S)\s(?=\S)")
_CLAUSE = 8
"""So many characters off is a break behind a clause still better."""
_WIDEST = 42
"""Characters of a line that viewers read at a glance: longer ones are broken in two."""


@dataclass(frozen=True, slots=True)
class _Speech:
    """What one speaker says in a cue, over one or more lines."""

    first: int
    last: int
    dash: str
    passage: TextUnit


def translate(data: bytes, file_name: str, translator: DocumentTranslator) -> bytes:
    """Translate the cues of a file."""
    decoded = DecodedText.from_bytes(data, file_name)
    is_web = decoded.text.startswith("WEBVTT")
    found = [match for match in _LINE.finditer(decoded.text) if match[0]]
    lines, ends = [match[1] for match in found], [match[2] for match in found]
    speeches = list(_speeches(lines, is_web=is_web))
    if not speeches and decoded.text.strip() and not is_web:
        raise InputError(f"{file_name} must be subtitles, but has no cue with times and words")
    translated = translator.translate([speech.passage for speech in speeches])
    texts = [line + end for line, end in zip(lines, ends, strict=True)]
    for speech, result in zip(speeches, translated, strict=True):
        inner = ends[speech.first] or "\n"
        words = _written(_broken(result.nodes, lines[speech.first : speech.last]), is_web=is_web)
        texts[speech.first : speech.last] = [""] * (speech.last - speech.first)
        texts[speech.first] = speech.dash + words.replace("\n", inner) + ends[speech.last - 1]
    return decoded.encode("".join(texts))


def _speeches(lines: Sequence[str], *, is_web: bool) -> Iterator[_Speech]:
    """Yield what is said in the cues."""
    times = [number for number, line in enumerate(lines) if _TIMES.match(line)]
    for count, start in enumerate(times, 1):
        next_times = times[count] if count < len(times) else len(lines)
        end = _end_of_cue(lines, start + 1, next_times, is_web=is_web)
        for first, last in _paragraphs(lines, start + 1, end):
            yield from _turns(lines, first, last, f"cue {count}")


def _end_of_cue(lines: Sequence[str], start: int, next_times: int, *, is_web: bool) -> int:
    if is_web:  # a blank line ends it; notes and styles may follow
        return next((n for n in range(start, next_times) if not lines[n].strip()), next_times)
    if next_times < len(lines) and lines[next_times - 1].strip().isdigit():
        return next_times - 1
    return next_times


def _paragraphs(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of lines that are not blank."""
    first = start
    for number in range(start, end + 1):
        if number == end or not lines[number].strip():
            if first < number:
                yield first, number
            first = number + 1


def _turns(lines: Sequence[str], first: int, last: int, place: str) -> Iterator[_Speech]:
    """Yield the speakers of a cue: where several lines have a dash, each of them starts one."""
    dashed = [number for number in range(first, last) if _DASH.match(lines[number])]
    starts = dashed if len(dashed) > 1 and dashed[0] == first else [first]
    for start, end in zip(starts, [*starts[1:], last], strict=True):
        text = " ".join(lines[start:end])
        match = _DASH.match(text)
        dash = match[0] if match else ""
        yield _Speech(
            start,
            end,
            dash,
            TextUnit.from_nodes(markup.parse_inline_tags(text[len(dash) :]), place),
        )


def _broken(events: Sequence[MarkupNode], lines: Sequence[str]) -> Iterator[MarkupNode]:
    """Yield the events with line breaks: about where they were, or as many as are needed."""
    text = "".join(event for event in events if isinstance(event, str))
    widest = max(_WIDEST, *map(len, lines))
    breaks = _same_breaks(text, lines)
    if _longest(text, breaks) > widest:
        breaks = _even_breaks(text, max(len(lines), -(-len(text) // widest)))
    done = 0
    for event in events:
        if isinstance(event, str):
            places = range(done, done + len(event))
            done += len(event)
            yield "".join("\n" if p in breaks else text[p] for p in places)
        else:
            yield event


def _same_breaks(text: str, lines: Sequence[str]) -> set[int]:
    """Return the spaces nearest to where the lines were broken, best behind a clause."""
    spaces = [match.start() for match in _GAP.finditer(text)]
    if not spaces:
        return set()
    whole = sum(map(len, lines)) or 1
    wanted = [len(text) * end / whole for end in accumulate(map(len, lines[:-1]))]
    return {_nearest(text, spaces, place) for place in wanted}


def _nearest(text: str, spaces: Sequence[int], wanted: float) -> int:
    at = bisect_left(spaces, wanted)
    apart = min(abs(space - wanted) for space in spaces[max(at - 1, 0) : at + 1]) + _CLAUSE
    first, last = bisect_left(spaces, wanted - apart), bisect_right(spaces, wanted + apart)
    return min(spaces[first:last], key=lambda space: _cost(text, space, wanted))


def _cost(text: str, space: int, wanted: float) -> float:
    return abs(space - wanted) - (_CLAUSE if text[space - 1] in ",.;:!?…" else 0)


def _longest(text: str, breaks: set[int]) -> int:
    ends = sorted({-1, len(text), *breaks})
    return max(end - start - 1 for start, end in pairwise(ends))


def _even_breaks(text: str, count: int) -> set[int]:
    """Return the spaces at which to break a text into so many lines of about the same length."""
    words = [match.span() for match in _WORD.finditer(text)]
    widths = range(-(-len(text) // count), len(text) + 1)
    fits = bisect_left(widths, True, key=lambda width: len(_breaks(words, width)) < count)
    return _breaks(words, widths[fits])


def _breaks(words: Sequence[tuple[int, int]], width: int) -> set[int]:
    """Return where lines of a width are broken, with as many words on each as fit."""
    breaks, start = set[int](), words[0][0] if words else 0
    for (_, before), (first, end) in pairwise(words):
        if end - start > width:
            start = first
            breaks.add(before)
    return breaks


def _written(events: Iterator[MarkupNode], *, is_web: bool) -> str:
    """Return a cue as it is written; in WebVTT, words cannot be tags."""
    if not is_web:
        return markup.render_inline_tags(events)
    escaped = (_escaped(event) if isinstance(event, str) else event for event in events)
    return markup.render_inline_tags(escaped)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
