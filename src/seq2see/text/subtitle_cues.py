"""Cues of subtitles (SubRip and WebVTT), which are training data or documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

_TIME = r"(?:(\d+):)?(\d+):(\d+)[.,](\d+)"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}")


class SubtitleCue(NamedTuple):
    """The times and the lines of a cue."""

    start: float
    """In seconds."""
    end: float
    paragraphs: list[tuple[int, int]]
    """Half-open ranges of consecutive lines that are not blank."""


def find_cues(lines: Sequence[str], *, is_webvtt: bool) -> Iterator[SubtitleCue]:
    """Yield the cues of a file."""
    matches = [(n, match) for n, line in enumerate(lines) if (match := _TIMES.match(line))]
    for count, (line, match) in enumerate(matches, 1):
        next_times = matches[count][0] if count < len(matches) else len(lines)
        end = _find_cue_end(lines, line + 1, next_times, is_webvtt=is_webvtt)
        groups = match.groups()
        paragraphs = list(_find_paragraphs(lines, line + 1, end))
        yield SubtitleCue(_parse_time(*groups[:4]), _parse_time(*groups[4:]), paragraphs)


def _parse_time(hours: str | None, minutes: str, seconds: str, fraction: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + float(f"{seconds}.{fraction}")


def _find_cue_end(lines: Sequence[str], start: int, next_times: int, *, is_webvtt: bool) -> int:
    if is_webvtt:  # a blank line ends the cue; notes and styles may follow
        return next((n for n in range(start, next_times) if not lines[n].strip()), next_times)
    if next_times < len(lines) and lines[next_times - 1].strip().isdigit():
        return next_times - 1
    return next_times


def _find_paragraphs(lines: Sequence[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of consecutive lines that are not blank."""
    for has_text, group in groupby(range(start, end), key=lambda n: bool(lines[n].strip())):
        if has_text:
            numbers = list(group)
            yield numbers[0], numbers[-1] + 1
