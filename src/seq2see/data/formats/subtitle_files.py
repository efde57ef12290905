"""Two subtitle files (SubRip or WebVTT) of one film: cues at the same time are translations.

Cues are paired if their times overlap by at least half of the shorter one. Cues that overlap
several cues of the other file are joined with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from seq2see.data.formats.opened_corpus import CorpusRequest, OpenedCorpus
from seq2see.data.readers import SentencePair, SkippedUnitCallback, read_lines
from seq2see.data.text_encodings import detect_encoding
from seq2see.errors import InputError
from seq2see.text.subtitle_cues import find_cues

_MIN_OVERLAP = 0.5
"""Minimum overlap of two cues, as a fraction of the shorter one."""
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>|\{\\[^{}]{0,200}\}")
"""Formatting, for example <i> or {\\an8}."""


class _TimedText(NamedTuple):
    start: float
    end: float
    text: str


def open_subtitles(request: CorpusRequest) -> OpenedCorpus:
    """Open two subtitle files."""
    encodings = [detect_encoding(path) for path in request.paths]
    notes = [
        f"{path}: {encoding.note}"
        for path, encoding in zip(request.paths, encodings, strict=True)
        if encoding.note
    ]

    def read(on_skipped: SkippedUnitCallback) -> Iterator[SentencePair]:
        source, target = (
            _read_texts(path, encoding.name)
            for path, encoding in zip(request.paths, encodings, strict=True)
        )
        return _pair_by_time(source, target, request.paths, on_skipped)

    return OpenedCorpus(read, notes=tuple(notes))


def _read_texts(path: str, encoding: str) -> list[_TimedText]:
    """Return the cues of a file with text; raise InputError if there are none."""
    lines = list(read_lines(path, encoding=encoding))
    is_webvtt = bool(lines) and lines[0].startswith("WEBVTT")
    texts = []
    for cue in find_cues(lines, is_webvtt=is_webvtt):
        parts = (" ".join(lines[first:end]) for first, end in cue.paragraphs)
        text = " ".join(_TAG.sub("", " ".join(parts)).split())
        if text:
            texts.append(_TimedText(cue.start, cue.end, text))
    if not texts:
        raise InputError(f"{path} must be subtitles, but has no cue with times and text")
    return sorted(texts, key=lambda one: one.start)


def _pair_by_time(
    source: Sequence[_TimedText],
    target: Sequence[_TimedText],
    paths: Sequence[str],
    on_skipped: SkippedUnitCallback,
) -> Iterator[SentencePair]:
    """Yield the texts of cues that overlap.

    `on_skipped` is called with the number of each source cue without a target, and once for each
    target cue without a source. Raises InputError if no cues overlap.
    """
    num_pairs = s = t = 0
    while s < len(source) or t < len(target):
        end_s, end_t = _find_group_end(source, target, s, t)
        if end_s > s and end_t > t:
            num_pairs += 1
            sides = source[s:end_s], target[t:end_t]
            yield SentencePair(*(" ".join(one.text for one in side) for side in sides))
        else:
            on_skipped(s + 1)
        s, t = end_s, end_t
    if not num_pairs:
        raise InputError(f"{' and '.join(paths)} must have cues at the same times, but have none")


def _find_group_end(
    source: Sequence[_TimedText], target: Sequence[_TimedText], s: int, t: int
) -> tuple[int, int]:
    """Return the ends of the cues that overlap directly or through another cue.

    If the first cues do not overlap, the group is the one that ends first.
    """
    if s == len(source):
        return s, t + 1
    if t == len(target):
        return s + 1, t
    if not _overlap(source[s], target[t]):
        return (s + 1, t) if source[s].end <= target[t].end else (s, t + 1)
    end_s, end_t = s + 1, t + 1
    while True:
        if end_s < len(source) and _overlap(source[end_s], target[end_t - 1]):
            end_s += 1
        elif end_t < len(target) and _overlap(source[end_s - 1], target[end_t]):
            end_t += 1
        else:
            return end_s, end_t


def _overlap(one: _TimedText, other: _TimedText) -> bool:
    overlap = min(one.end, other.end) - max(one.start, other.start)
    shorter = min(one.end - one.start, other.end - other.start)
    return overlap > 0 and overlap >= _MIN_OVERLAP * shorter
