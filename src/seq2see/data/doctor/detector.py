"""Which language a line is in, by lingua, an extra that knows 75 of them.

Asked in two steps. All languages at once, by trigrams only, is quick and small. Where that is sure
of another language, the two are compared by lingua's full models, which are large and loaded when
they are needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lingua import LanguageDetector

_DOUBT = 0.05
"""A line whose own language is likelier than this is never called foreign."""
_RIVALS = 3
"""How many of the likeliest languages are compared for a foreign line's name."""
_KIN = ({"da", "nb", "nn"}, {"bs", "hr", "sr"}, {"id", "ms"}, {"cs", "sk"}, {"xh", "zu"})
"""Languages too close to be told apart by a line."""
_ALIASES = {"no": "nb", "yue": "zh", "cmn": "zh", "sh": "hr"}


def is_installed() -> bool:
    """Tell if the extra is there."""
    return find_spec("lingua") is not None


def primary(language: str) -> str:
    """Return the language of a tag such as zh-Hans or pt_BR, as the detector calls it."""
    code = language.lower().replace("_", "-").split("-")[0]
    return _ALIASES.get(code, code)


def are_kin(one: str, other: str) -> bool:
    """Tell if two languages are too close to be told apart by a line."""
    return any({one, other} <= group for group in _KIN)


class Detector:
    """Tells languages by their two letters (ISO 639-1)."""

    def __init__(self) -> None:
        from lingua import Language  # noqa: PLC0415 an extra, and slow to import

        self._languages = {one.iso_code_639_1.name.lower(): one for one in Language.all()}
        self.foreign = lru_cache(50_000)(self._foreign)
        """Return the language of a text that is surely not in its own, or None."""

    def knows(self, language: str) -> bool:
        """Tell if it knows a language."""
        return language in self._languages

    def majority(self, lines: Iterable[str]) -> str | None:
        """Return the language that most of these lines are in."""
        answers = (self._rough.detect_language_of(line) for line in lines)
        found = Counter(a.iso_code_639_1.name.lower() for a in answers if a)
        best, count = found.most_common(1)[0] if found else ("", 0)
        return best if count * 2 > found.total() else None

    def _foreign(self, text: str, own: str) -> str | None:
        first = _ask(self._rough, text)
        if not self.knows(own) or first[own] > _DOUBT:
            return None
        rivals = [code for code, _ in first.most_common(_RIVALS)]
        second = _ask(self._exact(own, rivals[0]), text)
        if second[own] > _DOUBT or are_kin(own, rivals[0]):
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
