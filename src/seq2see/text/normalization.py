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
from functools import lru_cache
from itertools import chain, groupby
from typing import Literal

from seq2see.errors import InputError

Normalization = Literal["nfc", "nfkc", "none"]

_FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
_NO_BREAK = "\u00a0\u2007\u202f"  # NFKC replaces them by spaces
_WHITE_SPACE_RUN = re.compile(rf"[^\S{_NO_BREAK}]+")
_DECOMPOSED: dict[str, Literal["NFD", "NFKD"]] = {"nfc": "NFD", "nfkc": "NFKD"}
_LONG_RUN = 32
"""Number of combining marks in a row from which they are sorted before `unicodedata.normalize`,
whose time is quadratic in the length of a run that is not in canonical order."""
_ESCAPED = re.compile("\x1b([\x1b_])")


def normalize_unicode_and_spaces(text: str, form: Normalization = "nfc") -> str:
    """Return the normalized text."""
    if form == "none":
        return text
    text = unicodedata.normalize(_FORMS[form], _sort_long_runs_of_marks(text, form))
    if text.isascii():  # faster than the regular expression
        return " ".join(text.split())
    return _WHITE_SPACE_RUN.sub(" ", text).strip(" ")


def _sort_long_runs_of_marks(text: str, form: Normalization) -> str:
    """Return an equivalent text whose long runs of combining marks are in canonical order."""
    sample = "" if text.isascii() else text[::_LONG_RUN]
    if not any(_decompose_mark(character, form) for character in sample):
        return text  # a long run contains a character of the sample
    parts = []
    for is_mark, run in groupby(text, lambda character: bool(_decompose_mark(character, form))):
        characters = list(run)
        if is_mark and len(characters) >= _LONG_RUN:
            marks = chain.from_iterable(_decompose_mark(mark, form) for mark in characters)
            characters = sorted(marks, key=unicodedata.combining)
        parts += characters
    return "".join(parts)


@lru_cache(maxsize=4096)
def _decompose_mark(character: str, form: Normalization) -> str:
    """Return the decomposition of a character that consists of combining marks, otherwise ""."""
    decomposed = unicodedata.normalize(_DECOMPOSED[form], character)
    return decomposed if unicodedata.combining(decomposed[0]) else ""


def normalize_and_escape(lines: Sequence[str], form: Normalization) -> list[str]:
    """Return each line, normalized and with ▁ escaped."""
    return [escape_meta_space(normalize_unicode_and_spaces(line, form)) for line in lines]


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
