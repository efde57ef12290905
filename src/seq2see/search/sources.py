"""What a search knows of each sentence before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from seq2see.errors import InputError
from seq2see.search.config import LengthsConfig

Phrase = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """One sentence to translate, with what its translation must and must not hold."""

    length: int
    """Its tokens as the model reads them, the stop symbol included."""
    line: int = 0
    """Which line it is: sampling draws from the seed and this number."""
    prefix: Phrase = ()
    """How the translation starts. It stands above every other wish, and leaves room for more."""
    forbidden: tuple[Phrase, ...] = ()
    """What it must not hold; a phrase is one token or several in a row."""
    terms: tuple[Phrase, ...] = ()
    """What it must hold, each at least once. The first come first where room is short."""

    def longest(self, lengths: LengthsConfig) -> int:
        """Return the greatest length of its translation: a prefix never fills it alone."""
        return max(lengths.longest(self.length), len(self.prefix) + 1)

    def shortest(self, lengths: LengthsConfig) -> int:
        """Return the least length of its translation."""
        return lengths.shortest(self.length)


def check(sources: Sequence[Source], reserved: frozenset[int]) -> None:
    """Refuse what no translation could have: special ids inside, phrases without a token."""
    for index, source in enumerate(sources):
        phrases = (*source.forbidden, *source.terms)
        if not all(phrases):
            raise InputError(
                f"a phrase must have at least one token, but source {index} has one without"
            )
        taken = reserved.intersection(chain(source.prefix, *source.terms))
        if taken:
            raise InputError(
                f"`prefix` and `terms` must be text, "
                f"but source {index} has the special id {min(taken)} in one"
            )
