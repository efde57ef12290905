"""Language identification with lingua, an optional dependency that supports 75 languages.

`LinguaDetector` finds lines in a wrong language in two steps. The first compares all languages by
trigrams only, which is fast and needs little memory. If it is certain of another language, the
second step compares the two with the full models of lingua, which are large and loaded on demand.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from seq2see.errors import InputError
from seq2see.text.languages import primary_language

if TYPE_CHECKING:
    from lingua import Language, LanguageDetector

_MAX_OWN_PROBABILITY = 0.05
"""A line is in another language only if its own language is at most this probable."""
_NUM_CANDIDATES = 3
"""Number of most probable languages that are compared to identify another language."""
_CONFUSABLE = ({"da", "nb", "nn"}, {"bs", "hr", "sr"}, {"id", "ms"}, {"cs", "sk"}, {"xh", "zu"})
"""Groups of languages that are too similar to be distinguished by one line."""
_ALIASES = {"no": "nb", "yue": "zh", "cmn": "zh", "sh": "hr"}
_MAX_CHARACTERS = 1000
"""Number of characters of a text that are used."""


def is_lingua_installed() -> bool:
    """Return whether lingua is installed."""
    return find_spec("lingua") is not None


def detector_code(language: str) -> str:
    """Return the code that lingua uses for the language of a tag such as zh-Hans or pt_BR."""
    code = primary_language(language)
    return _ALIASES.get(code, code)


def are_confusable_languages(one: str, other: str) -> bool:
    """Return whether two languages are too similar to be distinguished by one line."""
    return any({one, other} <= group for group in _CONFUSABLE)


class LinguaDetector:
    """Identifies languages by their ISO 639-1 codes."""

    def __init__(self) -> None:
        self.detect_other_language = lru_cache(50_000)(self._detect_other_language)
        """Return the language of a text if it is certainly not `own`, or None."""

    def supports(self, language: str) -> bool:
        """Return whether lingua supports a language."""
        return language in _load_lingua_languages()

    def detect_majority_language(self, lines: Iterable[str]) -> str | None:
        """Return the language of more than half of the lines, or None."""
        languages = (self._fast_detector.detect_language_of(line) for line in lines)
        counts = Counter(each.iso_code_639_1.name.lower() for each in languages if each)
        best, count = counts.most_common(1)[0] if counts else ("", 0)
        return best if count * 2 > counts.total() else None

    def _detect_other_language(self, text: str, own: str) -> str | None:
        probabilities = _compute_probabilities(self._fast_detector, text)
        if not self.supports(own) or probabilities[own] > _MAX_OWN_PROBABILITY:
            return None
        candidates = [code for code, _ in probabilities.most_common(_NUM_CANDIDATES)]
        detector = _build_detector(own, candidates[0])
        is_own = _compute_probabilities(detector, text)[own] > _MAX_OWN_PROBABILITY
        if is_own or are_confusable_languages(own, candidates[0]):
            return None
        detector = _build_detector(*candidates)
        return _compute_probabilities(detector, text).most_common(1)[0][0]

    @cached_property
    def _fast_detector(self) -> LanguageDetector:
        from lingua import LanguageDetectorBuilder  # noqa: PLC0415

        return LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()


@cache
def _load_lingua_languages() -> dict[str, Language]:
    """Return the languages of lingua by their codes."""
    from lingua import Language  # noqa: PLC0415 optional, and slow to import

    return {one.iso_code_639_1.name.lower(): one for one in Language.all()}


@lru_cache(64)
def _build_detector(*codes: str) -> LanguageDetector:
    """Return a detector of two or more languages, which loads their full models on demand."""
    from lingua import LanguageDetectorBuilder  # noqa: PLC0415

    supported = _load_lingua_languages()
    return LanguageDetectorBuilder.from_languages(*(supported[code] for code in codes)).build()


def _compute_probabilities(detector: LanguageDetector, text: str) -> Counter[str]:
    """Return the probability of each language of the detector."""
    values = detector.compute_language_confidence_values(text)
    return Counter({v.language.iso_code_639_1.name.lower(): v.value for v in values})


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A language with its confidence, from 0 to 1."""

    language: str
    confidence: float


class LanguageIdentifier:
    """Identifies the language of a text among given languages.

    The fewer languages, the better short texts are identified.

    Raises:
        InputError: If lingua is not installed.
    """

    def __init__(self, languages: Sequence[str]) -> None:
        if not is_lingua_installed():
            raise InputError("language detection needs lingua: pip install 'seq2see[serve]'")
        self._default = languages[0]
        supported = _load_lingua_languages()
        # If several languages have the same code, the first one is returned.
        codes = {detector_code(language): language for language in reversed(languages)}
        self._codes = {code: codes[code] for code in codes if code in supported}

    def rank_languages(self, text: str) -> list[DetectedLanguage]:
        """Return all possible languages of a text, most probable first; at least one.

        Without evidence, because the text has no letters or lingua supports fewer than two of the
        languages, this is the first language with the confidence 0.
        """
        text = text[:_MAX_CHARACTERS]
        has_letters = any(unicodedata.category(c)[0] == "L" for c in text)
        if len(self._codes) < 2 or not has_letters:
            return [DetectedLanguage(self._default, 0.0)]
        probabilities = _compute_probabilities(_build_detector(*self._codes), text)
        detected = [
            DetectedLanguage(self._codes[code], probability)
            for code, probability in probabilities.most_common()
        ]
        return [each for each in detected if each.confidence > 0] or detected[:1]
