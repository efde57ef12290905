"""What software does to text: wrong encodings, lost characters, markup left behind."""

from __future__ import annotations

import re
from collections import Counter

_LOST = re.compile(
    "[\ufffd"  # what a decoder puts where it gave up
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls; tabs and line ends are white space
    "\ud800-\udfff\ufffe\uffff]"  # halves of characters, and none at all
)
# UTF-8 that was read as Latin-1 or Windows-1252: Ã¼ for ü. The second of the two may be a closing
# quotation mark or the like, which "«IRMÃ»" has by right; so it must stand behind a small letter.
_FIRST = "[\u00c2-\u00c5\u00ce-\u00d1]"
_TWICE = re.compile(
    f"{_FIRST}[\u00a1-\u00aa\u00ac-\u00af\u00b1-\u00b6\u00b8-\u00ba\u00bc-\u00bf"
    "\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    "\u2020-\u2022\u2030\u2039\u203a\u20ac\u2122]"
    f"|(?<=[a-z0-9]){_FIRST}"
    "[\u00a0\u00ab\u00b0\u00b7\u00bb\u2013\u2014\u2018-\u201e\u2026]"
    "|\u00e2\u20ac."  # quotation marks and dashes themselves
    "|\u00ef\u00bb\u00bf"  # a byte order mark
)
_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE
)


def damage(text: str) -> str | None:
    """Say what is broken in a text, or None."""
    if text.isascii() and text.isprintable():
        return None
    if lost := _LOST.search(text):
        return f"U+{ord(lost[0]):04X}"
    if twice := next((m[0] for m in _TWICE.finditer(text) if _once(m[0])), None):
        return f"{twice!r} for {_once(twice)!r}"
    return None


def _once(text: str) -> str | None:
    """Undo one wrong decoding; None if it was none."""
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return None


def unmatched_markup(source: str, target: str) -> str | None:
    """Return a tag or an entity of HTML that one side has and the other has not, or None."""
    if not any(mark in text for mark in "<&" for text in (source, target)):
        return None
    here, there = (Counter(_MARKUP.findall(text)) for text in (source, target))
    return next(iter((here - there) + (there - here)), None)
