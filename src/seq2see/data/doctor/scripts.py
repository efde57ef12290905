"""Which script a text is written in, by the names that Unicode gives its letters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

from seq2see.data.doctor.words import size

_BEYOND_LATIN = re.compile("[^\x00-\u024f\u2000-\u20cf]")
_MAIN = 0.25
"""The share of a side's letters that makes a script one of its own (Japanese has three)."""
_FOREIGN = 0.1
"""A line with a smaller share of its side's letters is in another script. They are weighed in
bytes, so that a Han character counts as much as a short word of Latin letters."""
_HOME = {
    **dict.fromkeys(("zh", "yue"), "CJK"),
    **dict.fromkeys(("be", "bg", "kk", "mk", "mn", "ru", "uk"), "CYRILLIC"),
    **dict.fromkeys(("ar", "fa", "ur"), "ARABIC"),
    **dict.fromkeys(("hi", "mr", "ne"), "DEVANAGARI"),
    "el": "GREEK",
    "he": "HEBREW",
    "ja": "HIRAGANA",
    "ka": "GEORGIAN",
    "ko": "HANGUL",
    "hy": "ARMENIAN",
    "th": "THAI",
    "bn": "BENGALI",
    "ta": "TAMIL",
    "te": "TELUGU",
    **dict.fromkeys(("cs", "da", "de", "en", "es", "fi", "fr", "hu", "id", "it", "nl"), "LATIN"),
    **dict.fromkeys(("pl", "pt", "ro", "sk", "sl", "sv", "tr", "vi"), "LATIN"),
}


def home(language: str) -> str | None:
    """Return the script that a language is written in, where there is one and we know it."""
    return _HOME.get(language)


def main_scripts(lines: Iterable[str]) -> frozenset[str]:
    """Return the scripts that make up most of these lines."""
    counts = Counter[str]()
    for line in lines:
        counts += _scripts(line)
    total = counts.total()
    return frozenset(script for script, count in counts.items() if count >= _MAIN * total)


def foreign_script(text: str, own: frozenset[str]) -> str | None:
    """Return the script of a text that is hardly written in its own side's, or None."""
    if not own or ("LATIN" in own and not _BEYOND_LATIN.search(text)):
        return None
    counts = _scripts(text)
    if sum(counts[script] for script in own) >= _FOREIGN * counts.total():
        return None
    return counts.most_common(1)[0][0]


def _scripts(text: str) -> Counter[str]:
    counts = Counter[str]()
    for character, count in Counter(text).items():
        if script := _script(character):
            counts[script] += count * size(character)
    return counts


@lru_cache(None)
def _script(character: str) -> str | None:
    """Return the first word of a letter's name: LATIN, CJK, HIRAGANA …"""
    if not character.isalpha():
        return None
    first, _, rest = unicodedata.name(character, "").partition(" ")
    return rest.split(" ")[0] if first in {"FULLWIDTH", "HALFWIDTH"} else first or None
