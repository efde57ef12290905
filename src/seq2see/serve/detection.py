"""Which of the loaded languages a text is in, by lingua."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from seq2see.data.doctor.detector import is_installed, primary
from seq2see.errors import InputError

if TYPE_CHECKING:
    from lingua import LanguageDetector

_ENOUGH = 1000
"""Characters of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A language, and how sure it is, from 0 to 1."""

    language: str
    confidence: float


class Detection:
    """Tells languages apart, only those that are there: a short line has few other clues."""

    def __init__(self, languages: Sequence[str]) -> None:
        if not is_installed():
            raise InputError(
                "the languages of texts are found by lingua: pip install 'seq2see[serve]'"
            )
        self._languages = tuple(dict.fromkeys(languages))
        self._detector, self._codes = _detector(self._languages)

    def guesses(self, text: str) -> list[Guess]:
        """Return every language that it may be in, likeliest first; at least one."""
        text = text[:_ENOUGH]
        if not any(unicodedata.category(c)[0] == "L" for c in text):
            return [Guess(self._languages[0], 0.0)]
        if self._detector is None:
            return [Guess(self._languages[0], 1.0)]
        values = self._detector.compute_language_confidence_values(text)
        found = [
            Guess(self._codes[v.language.iso_code_639_1.name.lower()], v.value) for v in values
        ]
        return [g for g in found if g.confidence > 0] or found[:1]

    def best(self, text: str) -> Guess:
        """Return the likeliest language."""
        return self.guesses(text)[0]


@lru_cache(16)
def _detector(languages: tuple[str, ...]) -> tuple[LanguageDetector | None, dict[str, str]]:
    """Return lingua for these languages, and our code of each of its own.

    It needs two at least; with one that it knows, there is no choice.
    """
    from lingua import Language, LanguageDetectorBuilder  # noqa: PLC0415 an extra, slow to import

    known: dict[str, Any] = {one.iso_code_639_1.name.lower(): one for one in Language.all()}
    codes: dict[str, str] = {}
    for language in languages:
        if primary(language) in known:
            codes.setdefault(primary(language), language)
    if len(codes) < 2:
        return None, codes
    builder = LanguageDetectorBuilder.from_languages(*(known[code] for code in codes))
    return builder.with_preloaded_language_models().build(), codes
