"""Split text into words, give them ids, and reduce text to keys for comparison."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from seq2see.text.languages import UNSPACED_CHARACTERS
from seq2see.text.packed_ids import PackedIds

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def _find_marks(first: int, end: int) -> str:
    """Return the combining marks of a range, which `\\w` excludes, without variation selectors."""
    marks = (c for c in map(chr, range(first, end)) if unicodedata.category(c) in {"Mn", "Mc"})
    return "".join(mark for mark in marks if "VARIATION SELECTOR" not in unicodedata.name(mark))


# Two classes, because `re` has a lookup table for 16-bit characters, but searches larger classes.
_MARKS, _FAR_MARKS = _find_marks(0x300, 0x10000), _find_marks(0x10000, 0x1F000)
_IF_FAR = "(?![\x00-\uffff])"
_JOINERS = "\u200c\u200d"
_LETTER = rf"[^\W{UNSPACED_CHARACTERS}]"
_WORD = re.compile(
    rf"{_LETTER}+(?:(?:[{_MARKS}{_JOINERS}]|{_IF_FAR}[{_FAR_MARKS}]){_LETTER}*)*"
    rf"|[{UNSPACED_CHARACTERS}][{_MARKS}]*"
)
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
"""Matches the same words in ASCII text, at twice the speed."""
_LETTER_ONLY = rf"[^\W\d_{UNSPACED_CHARACTERS}]"
_RUN = re.compile(rf"\d+|[{UNSPACED_CHARACTERS}]+|{_LETTER_ONLY}+(?:[{_MARKS}]{_LETTER_ONLY}*)*")
_NOT_WORD = re.compile(rf"(?:[^\w{_MARKS}\U00010000-\U0001efff]|{_IF_FAR}[^\w{_FAR_MARKS}])+")
_DOTTED_I = "i\u0307"
"""The lower case of İ."""
_LAST_LATIN = "\u024f"
_PREFIX_LENGTH = 5
"""Most inflectional endings come later, so that the forms of a word share one id."""
_MAX_WORDS = 200
"""The start of a longer line is sufficient, and the number of links grows quadratically."""


def extract_words(text: str) -> list[str]:
    """Return the words of a text in lower case; in scripts without spaces, the characters."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(_normalize(_normalize(text).lower()))


def find_learnable_subwords(text: str) -> Iterator[str]:
    """Yield the substrings that a tokenizer could learn as one piece.

    These are runs of digits or letters; single characters only at the start of a word, because
    others are pieces already.
    """
    text = unicodedata.normalize("NFC", text)
    for run in _RUN.finditer(text):
        if len(run[0]) > 1 or not text[max(run.start() - 1, 0) : run.start()].strip():
            yield run[0]


def remove_names_and_numbers(text: str, keep_latin: bool = True) -> str:
    """Remove capitalized words and numbers, which do not indicate a language.

    Without `keep_latin`, all words in Latin letters are removed too.
    """

    def keep_word(match: re.Match[str]) -> str:
        first = match[0][0]
        is_plain = first.isalpha() and not first.isupper()
        return match[0] if is_plain and (keep_latin or first > _LAST_LATIN) else ""

    return _WORD.sub(keep_word, text)


def compute_match_key(text: str) -> str:
    """Return the text without case, punctuation and white space, for comparison."""
    return _NOT_WORD.sub("", _normalize(_normalize(text).casefold())).replace("_", "")


def _normalize(text: str) -> str:
    return unicodedata.normalize("NFC", text).replace(_DOTTED_I, "i")


def byte_length(text: str) -> int:
    """Return the length in bytes, in which a Han character weighs as much as a short word."""
    return len(text.encode("utf-8", "replace"))


def has_letter_or_digit(text: str) -> bool:
    """Return whether the text has a letter or a digit."""
    return _WORD.search(text) is not None


def number_word_prefixes(lines: Iterable[Sequence[str]], ids: dict[str, int]) -> PackedIds:
    """Return the id of the first characters of each word; new ones are added to `ids`."""
    prefixes = ([word[:_PREFIX_LENGTH] for word in line[:_MAX_WORDS]] for line in lines)
    return PackedIds.from_lists(
        [[ids.setdefault(prefix, len(ids)) for prefix in line] for line in prefixes]
    )


def sum_by_line(ids: PackedIds, values: NDArray[np.generic]) -> FloatArray:
    """Return the sum of the values of each line's words."""
    return np.bincount(ids.line_indices, values, len(ids.lengths)).astype(float)
