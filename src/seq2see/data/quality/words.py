"""Split text into words, and reduce it to keys for comparison."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]


FloatArray = NDArray[np.float64]


BoolArray = NDArray[np.bool_]


# Thai, Lao, Burmese, Khmer, kana and Han: no spaces between words, so a character is a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)


def _marks(first: int, end: int) -> str:
    """Return vowel signs, points and accents, which `\\w` leaves out; no selectors of looks."""
    marks = (c for c in map(chr, range(first, end)) if unicodedata.category(c) in {"Mn", "Mc"})
    return "".join(mark for mark in marks if "VARIATION SELECTOR" not in unicodedata.name(mark))


# In two classes: `re` looks up what has 16 bits, and searches all of a class that has more.
_MARKS, _FAR_MARKS = _marks(0x300, 0x10000), _marks(0x10000, 0x1F000)


_IF_FAR = "(?![\x00-\uffff])"


_JOINERS = "\u200c\u200d"


_LETTER = rf"[^\W{_UNSPACED}]"


_WORD = re.compile(
    rf"{_LETTER}+(?:(?:[{_MARKS}{_JOINERS}]|{_IF_FAR}[{_FAR_MARKS}]){_LETTER}*)*"
    rf"|[{_UNSPACED}][{_MARKS}]*"
)


_ASCII_WORD = re.compile(r"\w+", re.ASCII)
"""The same words, where all characters are ASCII, at twice the speed."""


_ONE_KIND = rf"[^\W\d_{_UNSPACED}]"


_RUN = re.compile(rf"\d+|[{_UNSPACED}]+|{_ONE_KIND}+(?:[{_MARKS}]{_ONE_KIND}*)*")


_NOT_WORD = re.compile(rf"(?:[^\w{_MARKS}\U00010000-\U0001efff]|{_IF_FAR}[^\w{_FAR_MARKS}])+")


_DOTTED = "i\u0307"
"""What İ becomes in lower case."""


_LAST_LATIN = "\u024f"


_STEM = 5
"""Characters; most endings are behind them, so that a word's forms count as one."""


_MOST_WORDS = 200
"""The beginning of a longer line says enough, and links grow with the square."""


def extract_words(text: str) -> list[str]:
    """Return the words of a text in lower case; where a script has no spaces, characters."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(_composed(_composed(text).lower()))


def find_word_runs(text: str) -> Iterator[str]:
    """Yield what a tokenizer can make one piece of, and has not as a letter already.

    That is digits or letters between anything else; one alone only where a space comes before.
    """
    text = unicodedata.normalize("NFC", text)
    for run in _RUN.finditer(text):
        if len(run[0]) > 1 or not text[max(run.start() - 1, 0) : run.start()].strip():
            yield run[0]


def drop_names(text: str, keep_latin: bool = True) -> str:
    """Drop capitalised words and numbers, and at will all Latin ones: they are of no language."""

    def kept(match: re.Match[str]) -> str:
        first = match[0][0]
        plain = first.isalpha() and not first.isupper()
        return match[0] if plain and (keep_latin or first > _LAST_LATIN) else ""

    return _WORD.sub(kept, text)


def compute_match_key(text: str) -> str:
    """Return the text without case, punctuation and white space."""
    return _NOT_WORD.sub("", _composed(_composed(text).casefold())).replace("_", "")


def _composed(text: str) -> str:
    """Write what looks the same in the same way."""
    return unicodedata.normalize("NFC", text).replace(_DOTTED, "i")


def byte_length(text: str) -> int:
    """Return the bytes of a text: in them a Han character weighs as much as a short word."""
    return len(text.encode("utf-8", "replace"))


def has_word(text: str) -> bool:
    """Tell if there is a letter or a digit."""
    return _WORD.search(text) is not None


@dataclass(frozen=True, slots=True)
class PackedWordIds:
    """The words of many lines by their ids, end to end."""

    ids: IntArray
    lengths: IntArray

    @property
    def line_indices(self) -> IntArray:
        """The line of each word."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def line_starts(self) -> IntArray:
        """Where each line begins."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    def take(self, lines: IntArray) -> PackedWordIds:
        """Return these lines, in this order."""
        lengths = self.lengths[lines]
        first = np.repeat(self.line_starts[lines] - (np.cumsum(lengths) - lengths), lengths)
        return PackedWordIds(self.ids[first + np.arange(lengths.sum())], lengths)

    def sum_by_line(self, values: NDArray[np.generic]) -> FloatArray:
        """Add up the values of each line's words."""
        return np.bincount(self.line_indices, values, len(self.lengths)).astype(float)


class StemVocabulary:
    """Gives a number to the beginning of each word, the same on both sides."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add_lines(self, lines: Iterable[Sequence[str]]) -> PackedWordIds:
        """Number the words of these lines, new ones as they come."""
        return _numbered(lines, self._ids)

    def look_up(self, *sides: Iterable[Sequence[str]]) -> list[PackedWordIds]:
        """Number words without learning them: new ones are the same on all sides, for now."""
        ids = _Overlay(self._ids)
        return [_numbered(lines, ids) for lines in sides]


class _Overlay(dict[str, int]):
    """New words, on top of those that are known."""

    def __init__(self, known: dict[str, int]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, word: str) -> int:
        self[word] = number = self._known.get(word, len(self._known) + len(self))
        return number


def _numbered(lines: Iterable[Sequence[str]], ids: dict[str, int]) -> PackedWordIds:
    flat: list[int] = []
    lengths: list[int] = []
    learning = not isinstance(ids, _Overlay)
    for line in lines:
        stems = [word[:_STEM] for word in line[:_MOST_WORDS]]
        if learning:
            flat += [ids.setdefault(stem, len(ids)) for stem in stems]
        else:
            flat += [ids[stem] for stem in stems]
        lengths.append(len(stems))
    return PackedWordIds(np.array(flat, np.int64), np.array(lengths, np.int64))
