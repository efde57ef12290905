"""Words inside a text: where they begin and end, in scripts with spaces and without."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # radicals, 々, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_WORD_END = re.compile(rf"[^\W{_UNSPACED}]")
_HEAD = re.compile(rf"[^\W{_UNSPACED}]+|\S")
_WORD = re.compile(r"\w+(?:[-'’.]\w+)*|\S")
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")


def goes_on(character: str) -> bool:
    """Tell whether a character behind a word makes it another word."""
    return _WORD_END.match(character) is not None


class Whole:
    """A phrase where its ends are ends of words: "Herr", but not in "Herrin".

    What finds it is compiled at the first text that may have it: most of a glossary never comes up.
    """

    def __init__(self, phrase: str, *, any_case: bool = False) -> None:
        self._words = phrase.split()
        self._flags = re.IGNORECASE if any_case else 0
        self._opens = goes_on(phrase.lstrip()[0])
        self._closes = goes_on(phrase.rstrip()[-1])

    @property
    def key(self) -> str:
        """What `keys` has for every text with this phrase."""
        first = self._words[0]
        head = _HEAD.match(first)
        assert head is not None
        return _folded(first[: head.end() + 1])

    def search(self, text: str) -> tuple[int, int] | None:
        """Return where it stands first, if it does."""
        return next(self.spans(text), None)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where it stands."""
        place = 0
        while found := self._pattern.search(text, place):
            start, end = found.span()
            is_whole = self._is_whole(text, start, end)
            if is_whole:
                yield start, end
            place = end if is_whole else start + 1

    def _is_whole(self, text: str, start: int, end: int) -> bool:
        before, behind = text[max(0, start - 1) : start], text[end : end + 1]
        return not (self._opens and goes_on(before)) and not (self._closes and goes_on(behind))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(r"\s+".join(map(re.escape, self._words)), self._flags)


def whole(phrase: str) -> Whole:
    """Return what finds a phrase as it is written."""
    return Whole(phrase)


def whole_in_any_case(phrase: str) -> Whole:
    """As `whole`; a phrase in lower case is found in any case."""
    return Whole(phrase, any_case=phrase == phrase.lower())


class Phrases:
    """Many phrases: those of a text are found without a look at each."""

    def __init__(self, phrases: Sequence[Whole]) -> None:
        self._phrases = phrases
        self._by_key: dict[str, list[int]] = defaultdict(list)
        for place, phrase in enumerate(phrases):
            self._by_key[phrase.key].append(place)

    def found(self, text: str) -> list[int]:
        """Return the places of those that a text has, in their order."""
        likely = (place for key in keys(text) for place in self._by_key.get(key, ()))
        return [place for place in sorted(likely) if self._phrases[place].search(text)]


def keys(text: str) -> set[str]:
    """Return how phrases in a text may begin: with a word of it, or at any other character; and
    the character behind, for scripts in which the beginnings alone are few."""
    heads = list(_HEAD.finditer(text))
    alone = {_folded(head[0]) for head in heads}
    return alone | {_folded(text[head.start() : head.end() + 1]) for head in heads}


def _folded(text: str) -> str:
    return "".join(map(_fold, text))


@lru_cache(1 << 14)
def _fold(character: str) -> str:
    """Return the same for all that `re.IGNORECASE` takes for one: İ, ı and i too."""
    return character.lower()[0].upper()[0].lower()[0]


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
