"""Bilingual phrases: English and French words side by side, each knowing what it translates.

A phrase is built in both languages at once. Words that translate each other share a `Link`; the
gold alignment of a sentence is read off the links, whatever order the words ended up in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

Mark = Literal["", "doer", "thing", "it", "predicate"]

ENDS = frozenset(".?!")
ELIDED = r"(?:[ldnsjcmt]|(?:lors|puis|jus)?qu)'(?=\w)"
WORD = re.compile(rf"{ELIDED}|\w+(?:['-]\w+)*|[^\w\s]", re.IGNORECASE)


def words(text: str) -> list[str]:
    """Split into words and punctuation marks, which are the units of the gold alignment.

    An elided French word stands alone ("l'", "animal"); an English contraction is one word
    ("didn't"), and so is what a hyphen joins.
    """
    return WORD.findall(text)


class Link:
    """What words share that translate each other; every link is equal to itself alone."""

    __slots__ = ()


class Word(NamedTuple):
    """A word of a sentence."""

    text: str
    links: tuple[Link, ...] = ()
    mark: Mark = ""
    """The part it plays in a pronoun case."""


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """The same thing in both languages."""

    en: tuple[Word, ...] = ()
    fr: tuple[Word, ...] = ()

    def __add__(self, other: Phrase) -> Phrase:
        """Put the other behind, in both languages."""
        return Phrase(self.en + other.en, self.fr + other.fr)


EMPTY = Phrase()


_split = cache(words)  # the lexicon is small, and its words come again and again


def spell(text: str, *links: Link, mark: Mark = "") -> tuple[Word, ...]:
    """Return the words of a text, all with these links."""
    return tuple([Word(word, links, mark) for word in _split(text)]) if text else ()


def pair(en: str, fr: str, mark: Mark = "") -> Phrase:
    """Return two texts of which every word translates every word."""
    link = Link()
    return Phrase(spell(en, link, mark=mark), spell(fr, link, mark=mark))


def alignment(en: Iterable[Word], fr: Iterable[Word]) -> tuple[tuple[int, int], ...]:
    """Return the pairs (source index, target index) of the words that share a link."""
    places: dict[Link, list[int]] = {}
    for i, word in enumerate(en):
        for link in word.links:
            places.setdefault(link, []).append(i)
    found = {
        (i, j) for j, word in enumerate(fr) for link in word.links for i in places.get(link, ())
    }
    return tuple(sorted(found))


def capitalised(sentence: tuple[Word, ...]) -> tuple[Word, ...]:
    """Begin each sentence with a capital letter."""
    done = list(sentence)
    ends = [i for i, word in enumerate(sentence[:-1]) if word.text in ENDS]
    for start in (0, *(end + 1 for end in ends)):
        text = done[start].text
        done[start] = done[start]._replace(text=text[0].upper() + text[1:])
    return tuple(done)


def written(sentence: Iterable[Word], spaced: str = "") -> str:
    """Return the text; only the marks in `spaced` have a space before them."""
    text = " ".join([word.text for word in sentence]).replace("' ", "'")
    for mark in ".,?!":
        text = text if mark in spaced else text.replace(f" {mark}", mark)
    return text
