"""Splits a text into sentences, and joins their translations."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sentencex  # type: ignore[import-untyped]

from seq2see.errors import InputError
from seq2see.text.languages import primary_language
from seq2see.text.normalization import check_surrogates

_WINDOW = 2000
"""Characters that sentencex sees at once: on some texts its time grows with their square."""


_WIDEST = 4 * _WINDOW
"""Where even so many hold no end of a sentence, it is sought behind them."""


_WIDE_SPACES = {
    code: "\n" if chr(code) in "\x85\u2028\u2029" else " "
    for code in range(0x80, 0x3001)
    if chr(code).isspace()
}
"""White space beyond ASCII, which makes sentencex panic before a full stop ("A\\u2028.")."""


_CLAUSE = re.compile(
    r"""[,;:.!?…–—،؛؟।][)\]"'»”’]{0,2}(?=\s)"""
    r"|[，、；：。！？．｡､](?![，、；：。！？．｡､」』”’）》])"
)


_SPACE = re.compile(r"\s+")


_JOINER = "\u200d"


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text, and where it starts there."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The place behind it."""
        return self.start + len(self.text)


def split_sentences(text: str, language: str) -> list[TextSpan]:
    """Return the sentences of a text, without the white space around them.

    Between and around them is nothing but white space. A language that sentencex does not know is
    split by the rules that most share.
    """
    check_surrogates(text)
    return _trimmed(text, 0, _boundaries(text, primary_language(language)))


def join_sentences(
    text: str, spans: Sequence[TextSpan], replacements: Sequence[str], separator: str = ""
) -> str:
    """Return the text with each span replaced, and what stands between them kept.

    `filler` goes between two that nothing separates: a space from Chinese to English, say.
    """
    if len(spans) != len(replacements):
        counts = f"{len(spans)} spans, but are {len(replacements)} instead"
        raise InputError(f"`replacements` must be as many as the {counts}")
    parts, end = [], 0
    for span, replacement in zip(spans, replacements, strict=True):
        gap = text[end : span.start]
        parts += [gap or (separator if end else ""), replacement]
        end = span.end
    return "".join([*parts, text[end:]])


def split_long_sentence(
    span: TextSpan, max_tokens: int, count_tokens: Callable[[str], int]
) -> list[TextSpan]:
    """Cut a span into parts of at most `limit` tokens, without the white space around them.

    Cuts are made behind clauses; where a clause is too long, at white space; where a word is too
    long, between characters as a reader sees them, and at the very last between code points. One
    code point is never cut, even if it has more tokens than the limit.
    """
    if max_tokens < 1:
        raise InputError(f"`limit` must be at least 1, but is {max_tokens} instead")

    def fits(text: str) -> bool:
        return count_tokens(text.strip()) <= max_tokens

    return _trimmed(span.text, span.start, _fitting(span.text, _CUTTERS, fits))


def _trimmed(text: str, offset: int, ends: Iterator[int]) -> list[TextSpan]:
    """Return the parts up to each end, without white space around; those of nothing else go."""
    spans, start = [], 0
    for end in ends:
        part = text[start:end]
        if content := part.strip():
            spans.append(TextSpan(content, offset + start + len(part) - len(part.lstrip())))
        start = end
    return spans


def _boundaries(text: str, code: str) -> Iterator[int]:
    """Yield where each sentence ends, through a window that moves from sentence to sentence."""
    start, width = 0, _WINDOW
    while start < len(text):
        parts = _segment(text[start : start + width], code)
        whole = start + width >= len(text)
        if len(parts) == 1 and not whole:  # its end is not in sight
            if width < _WIDEST:
                width *= 2
            else:
                start += width
            continue
        for part in parts if whole else parts[:-1]:
            start += len(part)
            yield start
        width = _WINDOW


def _segment(text: str, code: str) -> list[str]:
    try:
        parts: list[str] = sentencex.segment(code, text.translate(_WIDE_SPACES))
    except BaseException as error:  # a panic of Rust is no Exception, and would end a server
        if type(error).__name__ != "PanicException":
            raise
        return [text]
    return parts if sum(map(len, parts)) == len(text) else [text]  # it may lose blank lines


def _clause_ends(text: str) -> list[int]:
    return [match.end() for match in _CLAUSE.finditer(text)]


def _word_ends(text: str) -> list[int]:
    return [match.start() for match in _SPACE.finditer(text)]


def _character_ends(text: str) -> list[int]:
    """Find where characters end as a reader sees them: marks, emoji, flags, jamo, CR LF whole."""
    ends, flag_letters = [], 0
    for place, (before, here) in enumerate(pairwise(text), start=1):
        flag_letters = flag_letters + 1 if _is_flag_letter(before) else 0
        second = flag_letters % 2 == 1 and _is_flag_letter(here)
        if not second and not _belongs(before, here):
            ends.append(place)
    return ends


def _code_ends(text: str) -> list[int]:
    return list(range(1, len(text)))


_CUTTERS = (_clause_ends, _word_ends, _character_ends, _code_ends)


def _belongs(before: str, here: str) -> bool:
    """Tell if a code point goes with the one before it: the essence of Unicode's clusters."""
    if _JOINER in {before, here} or (before, here) == ("\r", "\n"):
        return True
    if "\u1160" <= here <= "\u11ff":  # vowels and finals of Hangul
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return unicodedata.category(here)[0] == "M" or "\U0001f3fb" <= here <= "\U0001f3ff"


def _is_flag_letter(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _fitting(
    text: str, cutters: Sequence[Callable[[str], list[int]]], fits: Callable[[str], bool]
) -> Iterator[int]:
    """Yield the ends of parts that fit, each as long as the first cutter allows."""
    if not cutters or fits(text):
        yield len(text)
        return
    ends = [*cutters[0](text), len(text)]
    start = first = 0
    while first < len(ends):
        last = _furthest(text, start, ends, first, fits)
        if last < first:  # the next part alone is too long
            last = first
            inner = _fitting(text[start : ends[first]], cutters[1:], fits)
            yield from (start + end for end in inner)
        else:
            yield ends[last]
        start, first = ends[last], last + 1


def _furthest(
    text: str, start: int, ends: Sequence[int], first: int, fits: Callable[[str], bool]
) -> int:
    """Return the last of the ends up to which the text fits, or one before the first.

    Steps double, then halve: counting tokens up to a far end would cost the square of the length.
    """
    best, step = first - 1, 1
    while step:
        reach = best + step
        if reach < len(ends) and fits(text[start : ends[reach]]):
            best, step = reach, step * 2
        else:
            step //= 2
    return best
