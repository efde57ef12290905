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

from seq2see.data.quality.words import (
    FloatArray,
    PackedWordIds,
    byte_length,
    drop_names,
    extract_words,
)
from seq2see.text.language_detection import (
    LinguaDetector,
    are_confusable,
    detector_code,
    is_lingua_installed,
)

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


def script_of_language(language: str) -> str | None:
    """Return the script that a language is written in, where there is one and we know it."""
    return _HOME.get(language)


def find_dominant_scripts(lines: Iterable[str]) -> frozenset[str]:
    """Return the scripts that make up most of these lines."""
    counts = Counter[str]()
    for line in lines:
        counts += _scripts(line)
    total = counts.total()
    return frozenset(script for script, count in counts.items() if count >= _MAIN * total)


def find_other_script(text: str, expected_scripts: frozenset[str]) -> str | None:
    """Return the script of a text that is hardly written in its own side's, or None."""
    if not expected_scripts or ("LATIN" in expected_scripts and not _BEYOND_LATIN.search(text)):
        return None
    counts = _scripts(text)
    if sum(counts[script] for script in expected_scripts) >= _FOREIGN * counts.total():
        return None
    return counts.most_common(1)[0][0]


def _scripts(text: str) -> Counter[str]:
    counts = Counter[str]()
    for character, count in Counter(text).items():
        if script := _script(character):
            counts[script] += count * byte_length(character)
    return counts


@lru_cache(None)
def _script(character: str) -> str | None:
    """Return the first word of a letter's name: LATIN, CJK, HIRAGANA …"""
    if not character.isalpha():
        return None
    first, _, rest = unicodedata.name(character, "").partition(" ")
    return rest.split(" ")[0] if first in {"FULLWIDTH", "HALFWIDTH"} else first or None


LINGUA_EXTRA = "languages"
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
class SideLanguage:
    """What is known of one side's language."""

    declared: str | None
    """What the user said."""
    detected: str | None
    """What most lines are in, if the detector could tell."""
    scripts: frozenset[str]
    """What most letters are."""

    @property
    def expected(self) -> str | None:
        """The language to check lines against."""
        return self.detected or self.declared

    @property
    def is_mismatch(self) -> bool:
        """Most lines are in another language than was stated."""
        if self.declared and self.detected:
            return self.detected != self.declared and not are_confusable(
                self.detected, self.declared
            )
        return self.declared is not None and not self.may_be(self.declared)

    def may_be(self, language: str) -> bool:
        """Tell if most lines could be in this language."""
        if self.detected:
            return self.detected == language or are_confusable(self.detected, language)
        return not self.scripts or script_of_language(language) in {None, *self.scripts}


@dataclass(frozen=True, slots=True)
class LanguageChecker:
    """Says which lines are in the wrong language, and in which."""

    sides: tuple[SideLanguage, SideLanguage]
    min_words: int
    log_odds: FloatArray
    """Of each known word: how much likelier it is in the source than in the target (log)."""
    word_log_probs: tuple[FloatArray, FloatArray]
    """Of each known word, and at last of any other: its log-probability on each side."""
    detector: LinguaDetector | None
    detector_thresholds: tuple[float, float] = (-np.inf, -np.inf)
    """Lines of less usual words are shown to the detector."""

    @property
    def unsupported_languages(self) -> list[str]:
        """Languages that the detector does not know."""
        stated = (side.declared for side in self.sides)
        return [
            code for code in stated if code and self.detector and not self.detector.supports(code)
        ]

    @property
    def is_swapped(self) -> bool:
        """The source is in the target's language, and the other way round."""
        source, target = self.sides
        if source.declared is None or target.declared is None:
            return False
        crossed = source.may_be(target.declared) and target.may_be(source.declared)
        return crossed and source.is_mismatch and target.is_mismatch

    @property
    def is_monolingual(self) -> bool:
        """Both sides are stated to be in the same language."""
        source, target = self.sides
        return source.declared is not None and source.declared == target.declared

    def find_wrong_languages(
        self, side: int, lines: Sequence[str], ids: PackedWordIds
    ) -> list[str]:
        """Return for each line of a side the language that it is in by mistake, or ""."""
        long = ids.lengths >= self.min_words
        other = (self._leaning(side, ids) < _OTHER) & (not self.is_monolingual)
        strange = _mean(ids, self.word_log_probs[side]) < self.detector_thresholds[side]
        found = [""] * len(lines)
        for line in map(int, np.flatnonzero(long)):
            found[line] = self._found(side, lines[line], bool(other[line]), bool(strange[line]))
        return found

    def detect_other_language(self, side: int, text: str) -> str:
        """Ask the detector."""
        own = self.sides[side].expected
        # Names say nothing about a language, though "Tōkyō" seems to. German nouns go with them.
        plain = drop_names(text, keep_latin="LATIN" in self.sides[side].scripts)
        if self.detector is None or own is None or len(extract_words(plain)) < self.min_words:
            return ""
        return self.detector.detect_other_language(plain, own) or ""

    def compute_surprisal(self, side: int, ids: PackedWordIds) -> FloatArray:
        """Return how unusual each line's words are; those too short are not."""
        strange = -_mean(ids, self.word_log_probs[side])
        return np.where(ids.lengths >= self.min_words, strange, -np.inf)

    def _leaning(self, side: int, ids: PackedWordIds) -> FloatArray:
        return _mean(ids, self.log_odds) * (1 - 2 * side)

    def _found(self, side: int, text: str, other: bool, strange: bool) -> str:
        if script := find_other_script(text, self.sides[side].scripts):
            other = script in self.sides[1 - side].scripts
            if not other:
                return f"in {script.capitalize()} script"
        if other:
            return self.sides[1 - side].expected or ("the target's", "the source's")[side]
        return self.detect_other_language(side, text) if strange else ""


def fit_languages(
    lines: tuple[Sequence[str], Sequence[str]],
    ids: tuple[PackedWordIds, PackedWordIds],
    declared: tuple[str, str] | None,
    min_words: int,
    vocabulary_size: int,
) -> LanguageChecker:
    """Learn from these pairs what is usual on each side."""
    detector = LinguaDetector() if is_lingua_installed() else None
    counts = [np.bincount(side.ids, minlength=vocabulary_size) + 0.5 for side in ids]
    # The last place is for words that were never seen: rare, and of neither side.
    usual = [np.log(np.append(c, 0.5) / (c.sum() + 0.5)) for c in counts]
    odds = np.clip(usual[0] - usual[1], -_CLIP, _CLIP)
    odds[-1] = 0
    sides = [
        _side(lines[side], ids[side], declared[side] if declared else None, min_words, detector)
        for side in (0, 1)
    ]
    check = LanguageChecker((sides[0], sides[1]), min_words, odds, (usual[0], usual[1]), detector)
    if detector is None:
        return check
    cuts = [_cut(check, side, lines[side], ids[side]) for side in (0, 1)]
    return replace(check, detector_thresholds=(cuts[0], cuts[1]))


def _side(
    lines: Sequence[str],
    ids: PackedWordIds,
    stated: str | None,
    least_words: int,
    detector: LinguaDetector | None,
) -> SideLanguage:
    long = np.flatnonzero(ids.lengths >= least_words)
    voters = [lines[line] for line in long[:: len(long) // _VOTERS + 1]]
    stated = detector_code(stated) if stated else None
    found = None
    # A language that it does not know would be taken for its neighbour.
    if detector and len(voters) >= _LEAST_VOTERS and (not stated or detector.supports(stated)):
        found = detector.detect_majority_language(voters)
    return SideLanguage(stated, found, find_dominant_scripts(voters or lines))


def _cut(check: LanguageChecker, side: int, lines: Sequence[str], ids: PackedWordIds) -> float:
    """Return how usual the words of a line must be for it to be taken unasked."""
    strangeness = check.compute_surprisal(side, ids)
    order = np.argsort(-strangeness, kind="stable")
    order = order[strangeness[order] > -np.inf]
    for start in range(0, len(order), _CHUNK):
        chunk = order[start : start + _CHUNK]
        foreign = sum(bool(check.detect_other_language(side, lines[line])) for line in chunk)
        if foreign <= _FEW * len(chunk):
            return -float(strangeness[chunk[-1]])
    return np.inf if len(order) else -np.inf


def _mean(ids: PackedWordIds, values: FloatArray) -> FloatArray:
    """Return the mean value of each line's words; the last value is that of unknown ones."""
    known = np.minimum(ids.ids, len(values) - 1)
    return np.asarray(ids.sum_by_line(values[known]) / np.maximum(ids.lengths, 1))
