"""Language identification with lingua, an optional dependency."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from seq2see.errors import InputError

if TYPE_CHECKING:
    from lingua import LanguageDetector

_DOUBT = 0.05
"""A line whose own language is likelier than this is never called foreign."""


_RIVALS = 3
"""How many of the likeliest languages are compared for a foreign line's name."""


_KIN = ({"da", "nb", "nn"}, {"bs", "hr", "sr"}, {"id", "ms"}, {"cs", "sk"}, {"xh", "zu"})
"""Languages too close to be told apart by a line."""


_ALIASES = {"no": "nb", "yue": "zh", "cmn": "zh", "sh": "hr"}


def is_lingua_installed() -> bool:
    """Tell if the extra is there."""
    return find_spec("lingua") is not None


def detector_code(language: str) -> str:
    """Return the language of a tag such as zh-Hans or pt_BR, as the detector calls it."""
    code = language.lower().replace("_", "-").split("-")[0]
    return _ALIASES.get(code, code)


def are_confusable(one: str, other: str) -> bool:
    """Tell if two languages are too close to be told apart by a line."""
    return any({one, other} <= group for group in _KIN)


class LinguaDetector:
    """Tells languages by their two letters (ISO 639-1)."""

    def __init__(self) -> None:
        from lingua import Language  # noqa: PLC0415 an extra, and slow to import

        self._languages = {one.iso_code_639_1.name.lower(): one for one in Language.all()}
        self.detect_other_language = lru_cache(50_000)(self._foreign)
        """Return the language of a text that is surely not in its own, or None."""

    def supports(self, language: str) -> bool:
        """Tell if it knows a language."""
        return language in self._languages

    def detect_majority_language(self, lines: Iterable[str]) -> str | None:
        """Return the language that most of these lines are in."""
        answers = (self._rough.detect_language_of(line) for line in lines)
        found = Counter(a.iso_code_639_1.name.lower() for a in answers if a)
        best, count = found.most_common(1)[0] if found else ("", 0)
        return best if count * 2 > found.total() else None

    def _foreign(self, text: str, own: str) -> str | None:
        first = _ask(self._rough, text)
        if not self.supports(own) or first[own] > _DOUBT:
            return None
        rivals = [code for code, _ in first.most_common(_RIVALS)]
        second = _ask(self._exact(own, rivals[0]), text)
        if second[own] > _DOUBT or are_confusable(own, rivals[0]):
            return None
        return _ask(self._exact(*rivals), text).most_common(1)[0][0]

    @cached_property
    def _rough(self) -> LanguageDetector:
        from lingua import LanguageDetectorBuilder  # noqa: PLC0415

        return LanguageDetectorBuilder.from_all_languages().with_low_accuracy_mode().build()

    def _exact(self, *codes: str) -> LanguageDetector:
        from lingua import LanguageDetectorBuilder  # noqa: PLC0415

        languages = (self._languages[code] for code in codes)
        return LanguageDetectorBuilder.from_languages(*languages).build()


def _ask(detector: LanguageDetector, text: str) -> Counter[str]:
    """Return how likely each language is; those not named, 0."""
    values = detector.compute_language_confidence_values(text)
    return Counter({v.language.iso_code_639_1.name.lower(): v.value for v in values})


_ENOUGH = 1000
"""Characters of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class DetectedLanguage:
    """A language, and how sure it is, from 0 to 1."""

    language: str
    confidence: float


class LanguageIdentifier:
    """Tells languages apart, only those that are there: a short line has few other clues."""

    def __init__(self, languages: Sequence[str]) -> None:
        if not is_lingua_installed():
            raise InputError(
                "the languages of texts are found by lingua: pip install 'seq2see[serve]'"
            )
        self._languages = tuple(dict.fromkeys(languages))
        self._detector, self._codes = _build_detector(self._languages)

    def rank_languages(self, text: str) -> list[DetectedLanguage]:
        """Return every language that it may be in, likeliest first; at least one."""
        text = text[:_ENOUGH]
        if not any(unicodedata.category(c)[0] == "L" for c in text):
            return [DetectedLanguage(self._languages[0], 0.0)]
        if self._detector is None:
            return [DetectedLanguage(self._languages[0], 1.0)]
        values = self._detector.compute_language_confidence_values(text)
        found = [
            DetectedLanguage(self._codes[v.language.iso_code_639_1.name.lower()], v.value)
            for v in values
        ]
        return [g for g in found if g.confidence > 0] or found[:1]

    def best(self, text: str) -> DetectedLanguage:
        """Return the likeliest language."""
        return self.rank_languages(text)[0]


@lru_cache(16)
def _build_detector(languages: tuple[str, ...]) -> tuple[LanguageDetector | None, dict[str, str]]:
    """Return lingua for these languages, and our code of each of its own.

    It needs two at least; with one that it knows, there is no choice.
    """
    from lingua import Language, LanguageDetectorBuilder  # noqa: PLC0415 an extra, slow to import

    known: dict[str, Any] = {one.iso_code_639_1.name.lower(): one for one in Language.all()}
    codes: dict[str, str] = {}
    for language in languages:
        if detector_code(language) in known:
            codes.setdefault(detector_code(language), language)
    if len(codes) < 2:
        return None, codes
    builder = LanguageDetectorBuilder.from_languages(*(known[code] for code in codes))
    return builder.with_preloaded_language_models().build(), codes
