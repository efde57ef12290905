"""Splits a text into sentences, and sentences that are too long for a model into parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sentencex  # type: ignore[import-untyped]

from seq2see.errors import InputError
from seq2see.text.languages import has_letter, primary_language
from seq2see.text.normalization import check_surrogates

_WINDOW = 2000
"""Characters that sentencex processes at once, because its time is quadratic for some texts."""
_MAX_WINDOW = 4 * _WINDOW
"""If a window of this size has no end of a sentence, the search continues after it."""

_NON_ASCII_SPACES = {
    code: "\n" if chr(code) in "\x85\u2028\u2029" else " "
    for code in range(0x80, 0x3001)
    if chr(code).isspace()
}
"""White space outside of ASCII, which makes sentencex panic before a full stop ("A\\u2028.")."""

_CLAUSE_END = re.compile(
    r"""[,;:.!?…–—،؛؟।][)\]"'»”’]{0,2}(?=\s)"""
    r"|[，、；：。！？．｡､](?![，、；：。！？．｡､」』”’）》])"
)
_POSSIBLE_SENTENCE_END = re.compile(r"[^\w \t,'’\"“”„«»()–—-]")
"""A character that may end a sentence: one that is no letter, space or inner punctuation."""
_END_BEFORE_DIGIT = re.compile(r"(?:(?<=[。！？])|(?<=[。！？][”’」』）]))(?=\d)")
"""End of a sentence that sentencex takes for a decimal point, as in 我病了。2天前他来了。"""
_CLOSING_MARKS = "』」】〗〕〉》）］｝"
_FINAL_CHARACTERS = ".!?…。！？\"'”’»)」』"
_SPACE = re.compile(r"\s+")
_ZERO_WIDTH_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text with its offset."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Offset of its end (exclusive)."""
        return self.start + len(self.text)

    def strip(self) -> TextSpan:
        """Return the span without the white space around it."""
        start = self.start + len(self.text) - len(self.text.lstrip())
        return TextSpan(self.text.strip(), start)


def split_sentences(text: str, language: str) -> list[TextSpan]:
    """Return the sentences of a text, without the white space around them.

    There is only white space between and around them. For a language that sentencex does not
    support, its default rules are used.

    Raises:
        InputError: If the text is not valid Unicode.
    """
    check_surrogates(text)
    return _strip_parts(text, 0, _find_sentence_ends(text, primary_language(language)))


def may_have_several_sentences(text: str) -> bool:
    """Return False if no character before the end of a text can end a sentence in any language."""
    return _POSSIBLE_SENTENCE_END.search(text.rstrip(_FINAL_CHARACTERS)) is not None


def count_sentences(text: str, language: str) -> int:
    """Return the number of sentences of a text that contain a letter."""
    if not has_letter(text):
        return 0
    return sum(has_letter(sentence.text) for sentence in split_sentences(text, language))


def count_clauses(text: str) -> int:
    """Return the number of parts of a text between punctuation marks that contain a letter."""
    return sum(map(has_letter, _CLAUSE_END.split(text)))


def split_long_sentence(
    span: TextSpan, max_tokens: int, count_tokens: Callable[[str], int]
) -> list[TextSpan]:
    """Split a span into parts of at most `max_tokens` tokens, without surrounding white space.

    Spans are split after clauses; long clauses at white space; long words between grapheme
    clusters, and these between code points. A single code point is never split, even if it has
    more tokens.
    """
    if max_tokens < 1:
        raise InputError(f"`max_tokens` must be at least 1, but is {max_tokens} instead")

    def fits(text: str) -> bool:
        return count_tokens(text.strip()) <= max_tokens

    return _strip_parts(span.text, span.start, _find_part_ends(span.text, _BOUNDARY_FINDERS, fits))


def _strip_parts(text: str, offset: int, ends: Iterator[int]) -> list[TextSpan]:
    """Return the parts up to each end without surrounding white space; empty parts are removed."""
    ranges = pairwise([0, *ends])
    parts = (TextSpan(text[start:end], offset + start).strip() for start, end in ranges)
    return [part for part in parts if part.text]


def _find_sentence_ends(text: str, code: str) -> Iterator[int]:
    """Yield the end of each sentence, found in a window that moves over the text."""
    start, width = 0, _WINDOW
    while start < len(text):
        parts = _segment(text[start : start + width], code)
        is_last = start + width >= len(text)
        if len(parts) == 1 and not is_last:  # the window has no end of a sentence
            if width < _MAX_WINDOW:
                width *= 2
            else:
                start += width
            continue
        for part in parts if is_last else parts[:-1]:
            start += len(part)
            yield start
        width = _WINDOW


def _segment(text: str, code: str) -> list[str]:
    try:
        parts: list[str] = sentencex.segment(code, text.translate(_NON_ASCII_SPACES))
    except BaseException as error:  # a Rust panic is not an Exception
        if type(error).__name__ != "PanicException":
            raise
        return [text]
    if sum(map(len, parts)) != len(text):  # it may drop blank lines
        return [text]
    sentences = [sentence for part in parts for sentence in _END_BEFORE_DIGIT.split(part)]
    return _attach_closing_marks(sentences)


def _attach_closing_marks(sentences: Sequence[str]) -> list[str]:
    """Move closing marks at the start of a sentence to the end of the sentence before it.

    sentencex knows few of the marks that close a Chinese or Japanese sentence, as in 『好。』.
    """
    attached: list[str] = []
    for sentence in sentences:
        rest = sentence.lstrip(_CLOSING_MARKS) if attached else sentence
        if len(rest) < len(sentence):
            attached[-1] += sentence[: -len(rest) or None]
        if rest:
            attached.append(rest)
    return attached


def _find_clause_ends(text: str) -> list[int]:
    return [match.end() for match in _CLAUSE_END.finditer(text)]


def _find_word_ends(text: str) -> list[int]:
    return [match.start() for match in _SPACE.finditer(text)]


def _find_grapheme_ends(text: str) -> list[int]:
    """Return the ends of grapheme clusters: marks, emoji, flags, Hangul and CR LF stay together."""
    ends, flag_letters = [], 0
    for offset, (before, here) in enumerate(pairwise(text), start=1):
        flag_letters = flag_letters + 1 if _is_flag_letter(before) else 0
        is_second = flag_letters % 2 == 1 and _is_flag_letter(here)
        if not is_second and not _joins_previous(before, here):
            ends.append(offset)
    return ends


def _find_code_point_ends(text: str) -> list[int]:
    return list(range(1, len(text)))


_BOUNDARY_FINDERS = (_find_clause_ends, _find_word_ends, _find_grapheme_ends, _find_code_point_ends)


def _joins_previous(before: str, here: str) -> bool:
    """Return whether a code point belongs to the grapheme cluster before it (simplified rules)."""
    if _ZERO_WIDTH_JOINER in {before, here} or (before, here) == ("\r", "\n"):
        return True
    if "\u1160" <= here <= "\u11ff":  # Hangul vowels and final consonants
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return unicodedata.category(here)[0] == "M" or "\U0001f3fb" <= here <= "\U0001f3ff"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _find_part_ends(
    text: str, finders: Sequence[Callable[[str], list[int]]], fits: Callable[[str], bool]
) -> Iterator[int]:
    """Yield the ends of parts that fit, each as long as possible.

    A part ends at a boundary of the first finder; the other finders split parts that do not fit.
    """
    if not finders or fits(text):
        yield len(text)
        return
    ends = [*finders[0](text), len(text)]
    start = first = 0
    while first < len(ends):
        last = _find_last_fitting(text, start, ends, first, fits)
        if last < first:  # a single part is too long
            last = first
            inner = _find_part_ends(text[start : ends[first]], finders[1:], fits)
            yield from (start + end for end in inner)
        else:
            yield ends[last]
        start, first = ends[last], last + 1


def _find_last_fitting(
    text: str, start: int, ends: Sequence[int], first: int, fits: Callable[[str], bool]
) -> int:
    """Return the index of the last end up to which the text fits, or `first - 1`.

    The step doubles, then halves (galloping search), to avoid quadratic time for counting tokens.
    """
    best, step = first - 1, 1
    while step:
        reach = best + step
        if reach < len(ends) and fits(text[start : ends[reach]]):
            best, step = reach, step * 2
        else:
            step //= 2
    return best
