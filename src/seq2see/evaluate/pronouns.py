"""How often a translation says the right "il" or "elle": what "it" means, fables know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seq2see.data import fables
from seq2see.data.fables import Fable


@dataclass(frozen=True, slots=True)
class Pronouns:
    """Sentences in which the predicate decides between the pronouns."""

    cases: int
    right: int

    @property
    def share(self) -> float:
        """Of the right ones, in percent."""
        return 100 * self.right / max(1, self.cases)


def pronouns(cases: Sequence[Fable], texts: Sequence[str]) -> Pronouns:
    """Count the decisive pronouns of these translations."""
    decisive = [
        _is_right(fable, text)
        for fable, text in zip(cases, texts, strict=True)
        if fable.pronoun and fable.pronoun.contrast
    ]
    return Pronouns(len(decisive), sum(decisive))


def _is_right(fable: Fable, text: str) -> bool:
    """Say whether the word at the pronoun's place is the expected one."""
    assert fable.pronoun
    place = fable.pronoun.target
    return fables.words(text)[place : place + 1] == fables.words(fable.target)[place : place + 1]
