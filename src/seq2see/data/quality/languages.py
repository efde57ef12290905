"""Language of each side, and lines in a wrong language.

Lines in a wrong language are found by script, by a word model of both sides, and by lingua. lingua
is slow and optional; it gets only lines with improbable words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from seq2see.data.quality.words import Floats, Ragged, size, without_names, words
from seq2see.text.language_detection import Detector, are_kin, is_installed, primary

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


EXTRA = "languages"
"""The extra that brings the detector."""


_OTHER = -1.0
"""Nats a word by which a line must look more like the other side than like its own."""


_CLIP = 4.0
"""Nats that one word can say about its side."""


_VOTERS = 300
"""Lines that decide on a side's language."""


_LEAST_VOTERS = 20


_CHUNK = 200


_FEW = 0.02
"""The share of foreign lines in a chunk below which the rest is left unasked."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is known of one side's language."""

    stated: str | None
    """What the user said."""
    found: str | None
    """What most lines are in, if the detector could tell."""
    scripts: frozenset[str]
    """What most letters are."""

    @property
    def name(self) -> str | None:
        """The language to check lines against."""
        return self.found or self.stated

    @property
    def is_other(self) -> bool:
        """Most lines are in another language than was stated."""
        if self.stated and self.found:
            return self.found != self.stated and not are_kin(self.found, self.stated)
        return self.stated is not None and not self.fits(self.stated)

    def fits(self, language: str) -> bool:
        """Tell if most lines could be in this language."""
        if self.found:
            return self.found == language or are_kin(self.found, language)
        return not self.scripts or home(language) in {None, *self.scripts}


@dataclass(frozen=True, slots=True)
class LanguageCheck:
    """Says which lines are in the wrong language, and in which."""

    sides: tuple[Side, Side]
    least_words: int
    odds: Floats
    """Of each known word: how much likelier it is in the source than in the target (log)."""
    usual: tuple[Floats, Floats]
    """Of each known word, and at last of any other: its log-probability on each side."""
    detector: Detector | None
    cuts: tuple[float, float] = (-np.inf, -np.inf)
    """Lines of less usual words are shown to the detector."""

    @property
    def unknown(self) -> list[str]:
        """Languages that the detector does not know."""
        stated = (side.stated for side in self.sides)
        return [code for code in stated if code and self.detector and not self.detector.knows(code)]

    @property
    def swapped(self) -> bool:
        """The source is in the target's language, and the other way round."""
        source, target = self.sides
        if source.stated is None or target.stated is None:
            return False
        crossed = source.fits(target.stated) and target.fits(source.stated)
        return crossed and source.is_other and target.is_other

    @property
    def is_one(self) -> bool:
        """Both sides are stated to be in the same language."""
        source, target = self.sides
        return source.stated is not None and source.stated == target.stated

    def wrong(self, side: int, lines: Sequence[str], ids: Ragged) -> list[str]:
        """Return for each line of a side the language that it is in by mistake, or ""."""
        long = ids.lengths >= self.least_words
        other = (self._leaning(side, ids) < _OTHER) & (not self.is_one)
        strange = _mean(ids, self.usual[side]) < self.cuts[side]
        found = [""] * len(lines)
        for line in map(int, np.flatnonzero(long)):
            found[line] = self._found(side, lines[line], bool(other[line]), bool(strange[line]))
        return found

    def foreign(self, side: int, text: str) -> str:
        """Ask the detector."""
        own = self.sides[side].name
        # Names say nothing about a language, though "Tōkyō" seems to. German nouns go with them.
        plain = without_names(text, keep_latin="LATIN" in self.sides[side].scripts)
        if self.detector is None or own is None or len(words(plain)) < self.least_words:
            return ""
        return self.detector.foreign(plain, own) or ""

    def strangeness(self, side: int, ids: Ragged) -> Floats:
        """Return how unusual each line's words are; those too short are not."""
        strange = -_mean(ids, self.usual[side])
        return np.where(ids.lengths >= self.least_words, strange, -np.inf)

    def _leaning(self, side: int, ids: Ragged) -> Floats:
        return _mean(ids, self.odds) * (1 - 2 * side)

    def _found(self, side: int, text: str, other: bool, strange: bool) -> str:
        if script := foreign_script(text, self.sides[side].scripts):
            other = script in self.sides[1 - side].scripts
            if not other:
                return f"in {script.capitalize()} script"
        if other:
            return self.sides[1 - side].name or ("the target's", "the source's")[side]
        return self.foreign(side, text) if strange else ""


def learn(
    lines: tuple[Sequence[str], Sequence[str]],
    ids: tuple[Ragged, Ragged],
    stated: tuple[str, str] | None,
    least_words: int,
    size: int,
) -> LanguageCheck:
    """Learn from these pairs what is usual on each side."""
    detector = Detector() if is_installed() else None
    counts = [np.bincount(side.ids, minlength=size) + 0.5 for side in ids]
    # The last place is for words that were never seen: rare, and of neither side.
    usual = [np.log(np.append(c, 0.5) / (c.sum() + 0.5)) for c in counts]
    odds = np.clip(usual[0] - usual[1], -_CLIP, _CLIP)
    odds[-1] = 0
    sides = [
        _side(lines[side], ids[side], stated[side] if stated else None, least_words, detector)
        for side in (0, 1)
    ]
    check = LanguageCheck((sides[0], sides[1]), least_words, odds, (usual[0], usual[1]), detector)
    if detector is None:
        return check
    cuts = [_cut(check, side, lines[side], ids[side]) for side in (0, 1)]
    return replace(check, cuts=(cuts[0], cuts[1]))


def _side(
    lines: Sequence[str],
    ids: Ragged,
    stated: str | None,
    least_words: int,
    detector: Detector | None,
) -> Side:
    long = np.flatnonzero(ids.lengths >= least_words)
    voters = [lines[line] for line in long[:: len(long) // _VOTERS + 1]]
    stated = primary(stated) if stated else None
    found = None
    # A language that it does not know would be taken for its neighbour.
    if detector and len(voters) >= _LEAST_VOTERS and (not stated or detector.knows(stated)):
        found = detector.majority(voters)
    return Side(stated, found, main_scripts(voters or lines))


def _cut(check: LanguageCheck, side: int, lines: Sequence[str], ids: Ragged) -> float:
    """Return how usual the words of a line must be for it to be taken unasked."""
    strangeness = check.strangeness(side, ids)
    order = np.argsort(-strangeness, kind="stable")
    order = order[strangeness[order] > -np.inf]
    for start in range(0, len(order), _CHUNK):
        chunk = order[start : start + _CHUNK]
        foreign = sum(bool(check.foreign(side, lines[line])) for line in chunk)
        if foreign <= _FEW * len(chunk):
            return -float(strangeness[chunk[-1]])
    return np.inf if len(order) else -np.inf


def _mean(ids: Ragged, values: Floats) -> Floats:
    """Return the mean value of each line's words; the last value is that of unknown ones."""
    known = np.minimum(ids.ids, len(values) - 1)
    return np.asarray(ids.sums(values[known]) / np.maximum(ids.lengths, 1))
