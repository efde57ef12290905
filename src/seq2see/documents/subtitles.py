"""Translate subtitles (SubRip and WebVTT): the text of the cues changes, everything else is copied.

Each cue is translated by itself. A sentence that continues in the next cue is translated in two
parts, because the cues follow the speech.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise

from seq2see.documents.parsed_document import DocumentLanguages, ParsedDocument, UnitTranslation
from seq2see.documents.plain_text import DecodedText
from seq2see.errors import InputError
from seq2see.markup.text_units import MarkupNode, TextUnit, parse_markup_nodes, render_markup_nodes
from seq2see.markup.weighted_links import WORD_PATTERN
from seq2see.text.subtitle_cues import find_cues

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_DASH = re.compile(r"\s*[-–—]\s*(?=\S)")
_SPACE = re.compile(r"(?<=\S)\s(?=\S)")
_CLAUSE_BONUS = 8
"""A line break after punctuation is preferred if it is at most this number of characters farther
from the original position."""
_MAX_LINE_LENGTH = 42
"""Usual maximum number of characters per line of a subtitle."""


@dataclass(frozen=True, slots=True)
class _Speech:
    """The text of one speaker in a cue, and the half-open range of its lines."""

    start_line: int
    end_line: int
    dash: str
    unit: TextUnit


def parse(data: bytes, file_name: str) -> ParsedDocument[bytes]:
    """Parse a file; the text of each speaker in a cue is a unit."""
    decoded = DecodedText.from_bytes(data, file_name)
    is_webvtt = decoded.text.startswith("WEBVTT")
    matches = [match for match in _LINE.finditer(decoded.text) if match[0]]
    lines, ends = [match[1] for match in matches], [match[2] for match in matches]
    speeches = list(_find_speeches(lines, is_webvtt=is_webvtt))
    if not speeches and decoded.text.strip() and not is_webvtt:
        raise InputError(f"{file_name} must be subtitles, but has no cue with times and text")
    output = [line + end for line, end in zip(lines, ends, strict=True)]

    def render(translations: Sequence[UnitTranslation], _: DocumentLanguages) -> bytes:
        rendered = list(output)
        for speech, translation in zip(speeches, translations, strict=True):
            start, end = speech.start_line, speech.end_line
            nodes = _break_lines(translation.nodes, lines[start:end])
            text = _render_cue(nodes, is_webvtt=is_webvtt).replace("\n", ends[start] or "\n")
            rendered[start:end] = [speech.dash + text + ends[end - 1], *[""] * (end - start - 1)]
        return decoded.encode("".join(rendered))

    return ParsedDocument([speech.unit for speech in speeches], render)


def _find_speeches(lines: Sequence[str], *, is_webvtt: bool) -> Iterator[_Speech]:
    """Yield the text of each speaker of each cue."""
    for number, cue in enumerate(find_cues(lines, is_webvtt=is_webvtt), 1):
        for first, last in cue.paragraphs:
            yield from _split_speakers(lines, first, last, f"cue {number}")


def _split_speakers(lines: Sequence[str], start: int, end: int, location: str) -> Iterator[_Speech]:
    """Yield the text of each speaker; if several lines start with a dash, each starts a speaker."""
    dashed = [number for number in range(start, end) if _DASH.match(lines[number])]
    starts = dashed if len(dashed) > 1 and dashed[0] == start else [start]
    for first, last in zip(starts, [*starts[1:], end], strict=True):
        text = " ".join(lines[first:last])
        match = _DASH.match(text)
        dash = match[0] if match else ""
        unit = TextUnit.from_nodes(parse_markup_nodes(text[len(dash) :]), location)
        yield _Speech(first, last, dash, unit)


def _break_lines(nodes: Sequence[MarkupNode], lines: Sequence[str]) -> Iterator[MarkupNode]:
    """Yield the nodes with line breaks at about the same positions as in the original lines.

    If a line would be too long, the text is broken into lines of similar length instead.
    """
    text = "".join(node for node in nodes if isinstance(node, str))
    max_length = max(_MAX_LINE_LENGTH, *map(len, lines))
    breaks = _find_similar_breaks(text, lines)
    if _longest_line(text, breaks) > max_length:
        breaks = _find_even_breaks(text, max(len(lines), -(-len(text) // max_length)))
    done = 0
    for node in nodes:
        if isinstance(node, str):
            offsets = range(done, done + len(node))
            done += len(node)
            yield "".join("\n" if offset in breaks else text[offset] for offset in offsets)
        else:
            yield node


def _find_similar_breaks(text: str, lines: Sequence[str]) -> set[int]:
    """Return the spaces nearest to the original line breaks, preferably after a clause."""
    spaces = [match.start() for match in _SPACE.finditer(text)]
    if not spaces:
        return set()
    length = sum(map(len, lines)) or 1
    expected = [len(text) * end / length for end in accumulate(map(len, lines[:-1]))]
    return {_find_best_space(text, spaces, offset) for offset in expected}


def _find_best_space(text: str, spaces: Sequence[int], expected: float) -> int:
    index = bisect_left(spaces, expected)
    nearest = min(abs(space - expected) for space in spaces[max(index - 1, 0) : index + 1])
    distance = nearest + _CLAUSE_BONUS
    first = bisect_left(spaces, expected - distance)
    last = bisect_right(spaces, expected + distance)
    return min(spaces[first:last], key=lambda space: _break_cost(text, space, expected))


def _break_cost(text: str, space: int, expected: float) -> float:
    return abs(space - expected) - (_CLAUSE_BONUS if text[space - 1] in ",.;:!?…" else 0)


def _longest_line(text: str, breaks: set[int]) -> int:
    ends = sorted({-1, len(text), *breaks})
    return max(end - start - 1 for start, end in pairwise(ends))


def _find_even_breaks(text: str, num_lines: int) -> set[int]:
    """Return the spaces that break a text into this number of lines of similar length."""
    words = [match.span() for match in WORD_PATTERN.finditer(text)]
    lengths = range(-(-len(text) // num_lines), len(text) + 1)
    index = bisect_left(lengths, True, key=lambda length: len(_wrap(words, length)) < num_lines)
    return _wrap(words, lengths[index])


def _wrap(words: Sequence[tuple[int, int]], max_length: int) -> set[int]:
    """Return the offsets of line breaks if each line has as many words as fit."""
    breaks, start = set[int](), words[0][0] if words else 0
    for (_, previous_end), (word_start, word_end) in pairwise(words):
        if word_end - start > max_length:
            start = word_start
            breaks.add(previous_end)
    return breaks


def _render_cue(nodes: Iterable[MarkupNode], *, is_webvtt: bool) -> str:
    """Return the text of a cue; in WebVTT, text is escaped so that it cannot contain tags."""
    if is_webvtt:
        nodes = (escape(node, quote=False) if isinstance(node, str) else node for node in nodes)
    return render_markup_nodes(nodes)
