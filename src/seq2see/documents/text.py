"""Plain text: every line is a paragraph, and stays one."""

from __future__ import annotations

import re

from seq2see.documents.encodings import Decoded
from seq2see.documents.job import Job

_LINE_END = re.compile(r"(\r\n|\n|\r)")
_BULLET = re.compile(r"\s*(?:[-*+•–—‣◦]|#{1,6}|>|\(?(?:\d{1,3}|[a-z])[.)])\s+")
"""What stands before the words of an item in a list."""


def translate(data: bytes, name: str, job: Job) -> bytes:
    """Translate a text file."""
    decoded = Decoded.of(data, name)
    return decoded.encode(translate_lines(decoded.text, job))


def translate_lines(text: str, job: Job) -> str:
    """Translate the lines of a text; their ends, indents and bullets stay."""
    parts = _LINE_END.split(text)
    lines, ends = parts[::2], [*parts[1::2], ""]
    bullets = [bullet(line) for line in lines]
    words = [line[len(start) :] for line, start in zip(lines, bullets, strict=True)]
    places = [f"line {number}" for number in range(1, len(lines) + 1)]
    rows = zip(bullets, job.translate_texts(words, places), ends, strict=True)
    return "".join(part for row in rows for part in row)


def bullet(line: str) -> str:
    """Return what stands before the words of a line, if it is an item of a list."""
    match = _BULLET.match(line)
    return match[0] if match else ""
