"""Random choice of words that fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from seq2see.data.fables.lexicon import (
    ADJECTIVES,
    MY,
    NOUNS,
    THE,
    THIS,
    A,
    Adjective,
    Determiner,
    Kind,
    Noun,
)
from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.phrases import EMPTY, Mark, Nominal, Phrase, nominal, pair
from seq2see.data.fables.verbs import GIVERS, INTRANSITIVES, SAYERS, TRANSITIVES, WANTERS, Verb

T = TypeVar("T")


ANIMATE: tuple[Kind, ...] = ("animal", "person")


TENSES: tuple[Tense, ...] = ("present", "past", "past", "future", "progressive", "imperfect")


WHEN: dict[Tense, tuple[tuple[str, str], ...]] = {
    "present": (
        ("every day", "tous les jours"),
        ("every morning", "chaque matin"),
        ("in the evening", "le soir"),
        ("in winter", "en hiver"),
        ("in summer", "en été"),
        ("at night", "la nuit"),
    ),
    "progressive": (("now", "maintenant"), ("today", "aujourd'hui")),
    "past": (
        ("yesterday", "hier"),
        ("this morning", "ce matin"),
        ("last week", "la semaine dernière"),
        ("one day", "un jour"),
        ("last night", "la nuit dernière"),
        ("three days ago", "il y a trois jours"),
    ),
    "imperfect": (("that day", "ce jour-là"), ("at midnight", "à minuit"), ("at noon", "à midi")),
    "future": (
        ("tomorrow", "demain"),
        ("tonight", "ce soir"),
        ("next week", "la semaine prochaine"),
        ("one day", "un jour"),
    ),
}


OFTEN: dict[Tense, tuple[tuple[str, str], ...]] = {
    "present": (
        ("often", "souvent"),
        ("always", "toujours"),
        ("sometimes", "parfois"),
        ("rarely", "rarement"),
    ),
    "perfect": (("already", "déjà"), ("often", "souvent"), ("always", "toujours")),
    "future": (("always", "toujours"), ("often", "souvent")),
}


HOW = (
    ("slowly", "lentement"),
    ("quickly", "rapidement"),
    ("quietly", "doucement"),
    ("calmly", "calmement"),
    ("happily", "joyeusement"),
)


WHERE: tuple[tuple[str, str, tuple[Kind, ...]], ...] = (
    ("in", "dans", ("land", "building", "hollow")),
    ("near", "près de", ("water", "building", "height", "road", "load")),
    ("behind", "derrière", ("building", "load", "height")),
    ("in front of", "devant", ("building", "hollow", "opening")),
    ("next to", "à côté de", ("load", "building", "water", "road")),
    ("far from", "loin de", ("building", "land", "water")),
    ("at the edge of", "au bord de", ("water", "road")),
)


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The words that may be used."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    transitives: tuple[Verb, ...]
    intransitives: tuple[Verb, ...]

    def of(self, kinds: Sequence[Kind]) -> tuple[Noun, ...]:
        """Return the nouns of these kinds."""
        return _of(self, tuple(kinds))


@cache
def _of(lexicon: Lexicon, kinds: tuple[Kind, ...]) -> tuple[Noun, ...]:
    return tuple(noun for noun in lexicon.nouns if noun.kind in kinds)


@cache
def _suiting(lexicon: Lexicon, noun: Noun, attributive: bool) -> tuple[Adjective, ...]:
    suiting = [adjective for adjective in lexicon.adjectives if adjective.suits(noun)]
    if attributive:
        return tuple(adjective for adjective in suiting if not adjective.idiom)
    return tuple(adjective for adjective in suiting if adjective.gradable)


FULL = Lexicon(NOUNS, ADJECTIVES, TRANSITIVES, INTRANSITIVES)


SHORT_KINDS: dict[Kind, int] = {
    "animal": 14,
    "person": 6,
    "road": 4,
    "water": 4,
    "height": 4,
    "building": 4,
    "hollow": 2,
    "land": 4,
    "fruit": 4,
    "load": 4,
}


SHORT = Lexicon(
    tuple(
        noun
        for kind, count in SHORT_KINDS.items()
        for noun in [each for each in NOUNS if each.kind == kind][:count]
    ),
    ADJECTIVES[:24] + tuple(a for a in ADJECTIVES if a.en in {"small", "big", "old", "brave"}),
    TRANSITIVES[:12],
    INTRANSITIVES[:8],
)


KIN = frozenset({"sister", "brother", "aunt", "uncle", "grandmother"})


UNWANTED = frozenset({"perdre", "tomber", "entendre", "reconnaître", "revenir"})
"""What one does, but not on purpose."""


AGE_AND_SIZE = frozenset({"small", "big", "old", "young", "new"})


def _natural(noun: Noun, determiner: Determiner) -> Determiner:
    """Return "my aunt" rather than "an aunt", but "the king" rather than "my king"."""
    if noun.en in KIN:
        return MY if determiner in (A, THIS) else determiner
    if noun.kind == "provision" or (noun.kind == "person" and determiner is MY):
        return THE
    return determiner


class Writer:
    """Chooses words from a lexicon; all randomness of the corpus passes through here."""

    def __init__(self, rng: Random, lexicon: Lexicon = FULL) -> None:
        self.rng = rng
        self.lexicon = lexicon

    def chance(self, probability: float) -> bool:
        """Throw a biased coin."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Choose one, all alike."""
        return choices[int(self.rng.random() * len(choices))]

    def noun(self, kinds: Sequence[Kind], *but: Noun | None) -> Noun:
        """Choose a noun of these kinds that is none of the others."""
        return self.pick([noun for noun in self.lexicon.of(kinds) if noun not in but])

    def adjective(self, noun: Noun, attributive: bool = True) -> Adjective:
        """Choose an adjective that suits a noun."""
        return self.pick(_suiting(self.lexicon, noun, attributive))

    def described(
        self,
        noun: Noun,
        determiner: Determiner | None = None,
        plural: bool | None = None,
        rich: float = 0.3,
        mark: Mark = "",
    ) -> Nominal:
        """Return a noun with a determiner and, with probability `rich`, adjectives."""
        determiner = determiner or self.pick((THE, THE, THE, THE, A, THIS, MY))
        determiner = _natural(noun, determiner)
        if noun.kind == "provision":
            plural = False
        if plural is None:
            plural = self.chance(0.25)
        return nominal(determiner, noun, self._adjectives(noun, rich), plural, mark)

    def _adjectives(self, noun: Noun, rich: float) -> tuple[Adjective, ...]:
        if not self.chance(rich):
            return ()
        first = self.adjective(noun)
        second = self.adjective(noun)
        if self.chance(rich / 2) and first.en in AGE_AND_SIZE and not second.before:
            return first, second
        return (first,)

    def some(
        self,
        kinds: Sequence[Kind],
        *but: Noun | None,
        plural: bool | None = None,
        rich: float = 0.3,
    ) -> Nominal:
        """Return a noun phrase of these kinds."""
        return self.described(self.noun(kinds, *but), plural=plural, rich=rich)

    def action(self) -> tuple[Nominal, Verb, Nominal]:
        """Return who does what to whom."""
        verb = self.transitive()
        subject = self.some(self.known(verb.subjects))
        noun = self.noun(self.known(verb.objects), subject.noun)
        determiner = self.pick((THE, THE, THIS, MY)) if verb.state else None
        return subject, verb, self.described(noun, determiner)

    def deed(self) -> tuple[Nominal, Verb, Nominal]:
        """Return what someone can want to do to something known."""
        verbs = [verb for verb in self.lexicon.transitives if not verb.state]
        verb = self.pick([verb for verb in verbs if verb.fr.infinitive not in UNWANTED])
        subject = self.some(self.known(verb.subjects))
        noun = self.noun(self.known(verb.objects), subject.noun)
        return subject, verb, self.described(noun, self.pick((THE, THE, THIS, MY)))

    def known(self, kinds: Sequence[Kind]) -> list[Kind]:
        """Return those of the kinds that the lexicon has two nouns of."""
        return [kind for kind in kinds if len(self.lexicon.of((kind,))) > 1]

    def transitive(self) -> Verb:
        """Choose a transitive verb."""
        return self.pick(self.lexicon.transitives)

    def intransitive(self) -> Verb:
        """Choose an intransitive verb."""
        return self.pick(self.lexicon.intransitives)

    def giver(self) -> Verb:
        """Choose a verb of giving."""
        return self.pick(GIVERS)

    def wanter(self) -> Verb:
        """Choose a verb that takes an infinitive."""
        return self.pick(WANTERS)

    def sayer(self) -> Verb:
        """Choose a verb that takes a clause."""
        return self.pick(SAYERS)

    def tense(self, verb: Verb) -> Tense:
        """Choose a tense that the verb has."""
        if verb.state:
            return self.among("present", "imperfect")
        return self.pick(TENSES[:4] if verb.momentary else TENSES)

    def among(self, *tenses: Tense) -> Tense:
        """Choose one of these tenses."""
        return self.pick(tenses)

    def when(self, tense: Tense) -> Phrase:
        """Choose a time that goes with a tense."""
        return pair(*self.pick(WHEN[tense]))

    def often(self, tense: Tense) -> Phrase:
        """Choose an adverb that stands beside the verb, or none."""
        choices = OFTEN.get(tense)
        return pair(*self.pick(choices)) if choices else EMPTY

    def where(self, *but: Noun | None) -> Phrase:
        """Choose a place."""
        en, fr, kinds = self.pick(WHERE)
        there = self.described(self.noun(self.known(kinds), *but), THE, plural=False, rich=0.2)
        return pair(en, fr) + there.phrase
