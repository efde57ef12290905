"""Language of each side, and lines in a wrong language.

Lines in a wrong language are found by script, by a word model of both sides, and by lingua. The
word model is fitted to the corpus and knows no language. lingua is optional and slow; it gets only
lines with improbable words. The threshold is fitted to the sample: lingua checks the lines with the
most improbable words first, until hardly any of them is in another language.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2see.data.quality.words_and_word_ids import (
    FloatArray,
    byte_length,
    extract_words,
    remove_names_and_numbers,
    sum_by_line,
)
from seq2see.text.language_detection import (
    LinguaDetector,
    are_confusable_languages,
    detector_code,
    is_lingua_installed,
)
from seq2see.text.languages import find_script_of_letter
from seq2see.text.packed_ids import IntArray, PackedIds

LINGUA_EXTRA = "languages"
"""The optional dependency group with lingua."""

_BEYOND_LATIN = re.compile("[^\x00-\u024f\u2000-\u20cf]")
_MIN_DOMINANT_SHARE = 0.25
"""Minimum share of a side's letters for a dominant script (Japanese has three)."""
_MIN_EXPECTED_SHARE = 0.1
"""A line with a smaller share of letters in the expected scripts is in another script. Letters are
weighted by bytes, so that a Han character counts as much as a short word of Latin letters."""
_SCRIPTS_BY_LANGUAGE = {
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
_MIN_OWN_SIDE_SCORE = -1.0
"""A line with a lower mean log odds per word, in nats, is assigned to the other side."""
_MAX_WORD_LOG_ODDS = 4.0
"""Maximum log odds of a single word, in nats."""
_MAX_VOTING_LINES = 300
"""Number of lines that determine the language of a side."""
_MIN_VOTING_LINES = 20
_MIN_WORDS = 5
"""Minimum number of words of a line whose language is checked."""
_DETECTION_CHUNK = 200
_MAX_OTHER_SHARE = 0.02
"""The threshold is set where at most this share of a chunk is in another language."""


def _find_dominant_scripts(text: str) -> frozenset[str]:
    """Return the scripts that most letters of a text belong to."""
    counts = _count_scripts(text)
    min_count = _MIN_DOMINANT_SHARE * counts.total()
    return frozenset(script for script, count in counts.items() if count >= min_count)


def detect_unexpected_script(text: str, expected_scripts: frozenset[str]) -> str | None:
    """Return the script of a text if it is hardly in the expected scripts, otherwise None."""
    if not expected_scripts or ("LATIN" in expected_scripts and not _BEYOND_LATIN.search(text)):
        return None
    counts = _count_scripts(text)
    if sum(counts[script] for script in expected_scripts) >= _MIN_EXPECTED_SHARE * counts.total():
        return None
    return counts.most_common(1)[0][0]


def _count_scripts(text: str) -> Counter[str]:
    counts = Counter[str]()
    for character, count in Counter(text).items():
        if script := find_script_of_letter(character):
            counts[script] += count * byte_length(character)
    return counts


@dataclass(frozen=True, slots=True)
class SideLanguage:
    """The declared and detected language of one side."""

    declared: str | None
    """The language that the user specified."""
    detected: str | None
    """The language of most lines, if it could be detected."""
    scripts: frozenset[str]
    """The scripts of most letters."""

    @property
    def expected(self) -> str | None:
        """The language that lines are checked against."""
        return self.detected or self.declared

    @property
    def is_mismatch(self) -> bool:
        """Whether most lines are in another language than the declared one."""
        return self.declared is not None and not self.may_be(self.declared)

    def may_be(self, language: str) -> bool:
        """Return whether most lines may be in a language."""
        if self.detected:
            return self.detected == language or are_confusable_languages(self.detected, language)
        return not self.scripts or _SCRIPTS_BY_LANGUAGE.get(language) in {None, *self.scripts}


class LanguageChecker:
    """Finds lines in a wrong language; it is fitted to lines of both sides and their word ids."""

    def __init__(
        self,
        lines: tuple[Sequence[str], Sequence[str]],
        ids: tuple[PackedIds, PackedIds],
        declared: tuple[str, str] | None,
        vocabulary_size: int,
    ) -> None:
        self.detector = LinguaDetector() if is_lingua_installed() else None
        counts = [np.bincount(side.ids, minlength=vocabulary_size) + 0.5 for side in ids]
        # The last entry is for unknown words: rare, and equally probable on both sides.
        self._log_probs = [np.log(np.append(c, 0.5) / (c.sum() + 0.5)) for c in counts]
        """For each side: the log probability of each known word and, at the end, of any other."""
        log_odds = self._log_probs[0] - self._log_probs[1]
        self._log_odds = np.clip(log_odds, -_MAX_WORD_LOG_ODDS, _MAX_WORD_LOG_ODDS)
        """For each known word: log of its probability in the source over that in the target."""
        self._log_odds[-1] = 0
        self.sides = [
            detect_side_language(side_lines, side_ids.lengths, language, self.detector)
            for side_lines, side_ids, language in zip(
                lines, ids, declared or (None, None), strict=True
            )
        ]
        self._thresholds = [self._fit_threshold(side, lines[side], ids[side]) for side in (0, 1)]
        """Lines with a lower mean log probability are passed to the detector."""

    @property
    def unsupported_languages(self) -> list[str]:
        """Declared languages that the detector does not support."""
        detector = self.detector
        declared = (side.declared for side in self.sides)
        return [code for code in declared if code and detector and not detector.supports(code)]

    @property
    def is_swapped(self) -> bool:
        """Whether the source is in the target language and the target in the source language."""
        source, target = self.sides
        if source.declared is None or target.declared is None:
            return False
        may_be_swapped = source.may_be(target.declared) and target.may_be(source.declared)
        return may_be_swapped and source.is_mismatch and target.is_mismatch

    @property
    def is_monolingual(self) -> bool:
        """Whether both sides are declared to be in the same language."""
        source, target = self.sides
        return source.declared is not None and source.declared == target.declared

    def find_wrong_languages(self, side: int, lines: Sequence[str], ids: PackedIds) -> list[str]:
        """Return for each line of a side the wrong language that it is in, or ""."""
        is_long = ids.lengths >= _MIN_WORDS
        own_side_scores = _mean_by_line(ids, self._log_odds) * (1 - 2 * side)
        is_other_side = (own_side_scores < _MIN_OWN_SIDE_SCORE) & (not self.is_monolingual)
        is_improbable = _mean_by_line(ids, self._log_probs[side]) < self._thresholds[side]
        languages = [""] * len(lines)
        for line in map(int, np.flatnonzero(is_long)):
            languages[line] = self._find_wrong_language(
                side, lines[line], bool(is_other_side[line]), bool(is_improbable[line])
            )
        return languages

    def _fit_threshold(self, side: int, lines: Sequence[str], ids: PackedIds) -> float:
        """Return the mean log probability from which lines are not passed to the detector."""
        surprisal = -_mean_by_line(ids, self._log_probs[side])
        order = np.argsort(-surprisal, kind="stable")
        order = order[ids.lengths[order] >= _MIN_WORDS]
        if self.detector is None or not len(order):
            return -np.inf
        for start in range(0, len(order), _DETECTION_CHUNK):
            chunk = order[start : start + _DETECTION_CHUNK]
            num_other = sum(bool(self._detect_other_language(side, lines[line])) for line in chunk)
            if num_other <= _MAX_OTHER_SHARE * len(chunk):
                return -float(surprisal[chunk[-1]])
        return np.inf

    def _detect_other_language(self, side: int, text: str) -> str:
        """Return the language of a text if the detector finds that it is not the expected one."""
        expected = self.sides[side].expected
        # Names do not indicate a language, though "Tōkyō" seems to. This drops German nouns too.
        plain = remove_names_and_numbers(text, keep_latin="LATIN" in self.sides[side].scripts)
        if self.detector is None or expected is None or len(extract_words(plain)) < _MIN_WORDS:
            return ""
        return self.detector.detect_other_language(plain, expected) or ""

    def _find_wrong_language(
        self, side: int, text: str, is_other_side: bool, is_improbable: bool
    ) -> str:
        if script := detect_unexpected_script(text, self.sides[side].scripts):
            is_other_side = script in self.sides[1 - side].scripts
            if not is_other_side:
                return f"in {script.capitalize()} script"
        if is_other_side:
            unnamed = ("in the target language", "in the source language")[side]
            return self.sides[1 - side].expected or unnamed
        return self._detect_other_language(side, text) if is_improbable else ""


def detect_side_language(
    lines: Sequence[str],
    word_counts: Sequence[int] | IntArray,
    declared: str | None,
    detector: LinguaDetector | None,
) -> SideLanguage:
    """Return the language of most lines, from those with enough words."""
    is_long = np.flatnonzero(np.asarray(word_counts) >= _MIN_WORDS)
    voting = [lines[line] for line in is_long[:: len(is_long) // _MAX_VOTING_LINES + 1]]
    declared = detector_code(declared) if declared else None
    detected = None
    # A declared language that is not supported would be detected as a similar one.
    is_supported = detector is not None and (not declared or detector.supports(declared))
    if detector and is_supported and len(voting) >= _MIN_VOTING_LINES:
        detected = detector.detect_majority_language(voting)
    return SideLanguage(declared, detected, _find_dominant_scripts("".join(voting or lines)))


def _mean_by_line(ids: PackedIds, values: FloatArray) -> FloatArray:
    """Return the mean value of each line's words; the last value is that of unknown words."""
    known = np.minimum(ids.ids, len(values) - 1)
    return np.asarray(sum_by_line(ids, values[known]) / np.maximum(ids.lengths, 1))
