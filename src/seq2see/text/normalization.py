"""Unicode normalization of text before it is tokenized."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from seq2see.errors import InputError

Normalization = Literal["nfc", "nfkc", "none"]


_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}


_NO_BREAK = "\u00a0\u2007\u202f"  # NFKC makes spaces of them


_WHITE = [c for c in map(chr, range(0x3001)) if c.isspace() and c not in f" {_NO_BREAK}"]


_RUN = re.compile(rf"[^\S{_NO_BREAK}]+")


_BLOCK = 128  # lines; one that is not ready makes its whole block slow


_PROTECTED = re.compile("\x1b([\x1b_])")


def normalize(text: str, form: Normalization = "nfc") -> str:
    """Return the text as the named normalisation leaves it."""
    if form == "none":
        return text
    return _RUN.sub(" ", unicodedata.normalize(_FORMS[form], text)).strip(" ")


def normalize_and_escape(lines: Sequence[str], form: Normalization) -> list[str]:
    """Return `protect(normalise(line))` of each line."""
    blocks = (lines[start : start + _BLOCK] for start in range(0, len(lines), _BLOCK))
    return [line for block in blocks for line in _prepared(block, form)]


def _prepared(lines: Sequence[str], how: Normalization) -> Sequence[str]:
    """Look at all lines as one text, at the speed of C: most need no change at all."""
    if _is_ready(" ".join(lines), how):
        return lines
    return [escape_meta_space(normalize(line, how)) for line in lines]


def _is_ready(text: str, how: Normalization) -> bool:
    if "\u2581" in text or "\x1b" in text:
        return False
    if how == "none":
        return True
    if "  " in text or text.startswith(" ") or text.endswith(" "):
        return False
    if any(white in text for white in _WHITE):
        return False
    return text.isascii() or unicodedata.is_normalized(_FORMS[how], text)


def escape_meta_space(text: str) -> str:
    """Hide ▁ from SentencePiece."""
    if "\u2581" in text or "\x1b" in text:
        return text.replace("\x1b", "\x1b\x1b").replace("\u2581", "\x1b_")
    return text


def unescape_meta_space(text: str) -> str:
    """Undo `protect`."""
    if "\x1b" not in text:
        return text
    return _PROTECTED.sub(lambda match: "\x1b" if match[1] == "\x1b" else "\u2581", text)


def check_surrogates(text: str, location: str = "") -> None:
    """Raise an error if the text has half of a surrogate pair, which is no Unicode text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text must be Unicode, but has half of a surrogate pair, {text[error.start]!r}, "
            f"as character {error.start + 1}{location}"
        ) from None
