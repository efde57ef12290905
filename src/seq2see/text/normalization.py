"""Unicode normalization of text before it is tokenized, and escaping of ▁.

**Normalization** changes the text: `decode(encode(x)) == normalize(x)`. There are three forms.

`nfc`
    The default. Characters are composed (e + ´ becomes é), so that text that looks the same is the
    same; no visible change. A run of white space (spaces, tabs, line ends, U+2028, ideographic
    spaces …) becomes one space, and white space at both ends is removed. The no-break spaces
    U+00A0, U+2007 and U+202F are kept: French needs them before "!" and they could not be restored.
`nfkc`
    As `nfc`, and compatible characters are unified: ½ 1⁄2, ﬁ fi, Ａ A, ① 1; no-break spaces become
    spaces. There are fewer kinds of characters for a small corpus, but content is lost: x² becomes
    x2.
`none`
    The text is not changed, and the round trip is exact.

All forms are idempotent. They use the tables of Python's `unicodedata`.

**Escaping** is reverted by decoding. SentencePiece represents a space as ▁ (U+2581) and would
decode a ▁ of the text to a space. So ▁ becomes ESC _ (U+001B, U+005F), and ESC becomes ESC ESC.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from seq2see.errors import InputError

Normalization = Literal["nfc", "nfkc", "none"]

_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_NO_BREAK = "\u00a0\u2007\u202f"  # NFKC replaces them by spaces
_WHITE_SPACE = [c for c in map(chr, range(0x3001)) if c.isspace() and c not in f" {_NO_BREAK}"]
_WHITE_SPACE_RUN = re.compile(rf"[^\S{_NO_BREAK}]+")
_BLOCK = 128  # lines; a block is slow if one of its lines needs a change
_ESCAPED = re.compile("\x1b([\x1b_])")


def normalize_unicode_and_spaces(text: str, form: Normalization = "nfc") -> str:
    """Return the normalized text."""
    if form == "none":
        return text
    return _WHITE_SPACE_RUN.sub(" ", unicodedata.normalize(_FORMS[form], text)).strip(" ")


def normalize_and_escape(lines: Sequence[str], form: Normalization) -> list[str]:
    """Return each line, normalized and with ▁ escaped."""
    blocks = (lines[start : start + _BLOCK] for start in range(0, len(lines), _BLOCK))
    return [line for block in blocks for line in _normalize_block(block, form)]


def _normalize_block(lines: Sequence[str], form: Normalization) -> Sequence[str]:
    """Normalize and escape lines; first check all at once, because most need no change."""
    if _is_normalized(" ".join(lines), form):
        return lines
    return [escape_meta_space(normalize_unicode_and_spaces(line, form)) for line in lines]


def _is_normalized(text: str, form: Normalization) -> bool:
    if "\u2581" in text or "\x1b" in text:
        return False
    if form == "none":
        return True
    if "  " in text or text.startswith(" ") or text.endswith(" "):
        return False
    if any(character in text for character in _WHITE_SPACE):
        return False
    return text.isascii() or unicodedata.is_normalized(_FORMS[form], text)


def escape_meta_space(text: str) -> str:
    """Escape ▁, which SentencePiece uses for spaces."""
    if "\u2581" in text or "\x1b" in text:
        return text.replace("\x1b", "\x1b\x1b").replace("\u2581", "\x1b_")
    return text


def unescape_meta_space(text: str) -> str:
    """Revert `escape_meta_space`."""
    if "\x1b" not in text:
        return text
    return _ESCAPED.sub(lambda match: "\x1b" if match[1] == "\x1b" else "\u2581", text)


def check_surrogates(text: str, location: str = "") -> None:
    """Check that a text has no unpaired surrogates, which are not valid Unicode.

    Raises:
        InputError: If it has one; `location` is appended to the message.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"text must be Unicode, but has half of a surrogate pair, {text[error.start]!r}, "
            f"as character {error.start + 1}{location}"
        ) from None
