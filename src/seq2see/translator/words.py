"""Words inside a text: where they begin and end, in scripts with spaces and without."""

from __future__ import annotations

import re

_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # radicals, 々, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_WORD_END = re.compile(rf"[^\W{_UNSPACED}]")
_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|\S")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")


def goes_on(character: str) -> bool:
    """Tell whether a character behind a word makes it another word."""
    return _WORD_END.match(character) is not None


def whole(phrase: str) -> re.Pattern[str]:
    """Return what finds a phrase where its ends are ends of words: "Herr", but not in "Herrin"."""
    return re.compile(_whole(phrase))


def whole_in_any_case(phrase: str) -> re.Pattern[str]:
    """As `whole`; a phrase in lower case is found in any case."""
    return re.compile(_whole(phrase), re.IGNORECASE if phrase == phrase.lower() else 0)


def _whole(phrase: str) -> str:
    words = phrase.split()
    before = rf"(?<![^\W{_UNSPACED}])" if goes_on(words[0][0]) else ""
    behind = rf"(?![^\W{_UNSPACED}])" if goes_on(words[-1][-1]) else ""
    return before + r"\s+".join(map(re.escape, words)) + behind


def word_spans(text: str, cuts: set[int]) -> list[tuple[int, int]]:
    """Return where words and punctuation marks stand; without spaces, cut where pieces are."""
    spans = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        if _UNSPACED_CHARACTER.search(match[0]):
            inside = [cut for cut in sorted(cuts) if start < cut < end]
            ends = [*inside, end]
            spans += list(zip([start, *inside], ends, strict=True))
        else:
            spans.append((start, end))
    return spans
