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
    Noun,
    NounKind,
)
from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    BilingualPhrase,
    NounPhrase,
    PronounRole,
    build_noun_phrase,
    make_aligned_pair,
)
from seq2see.data.fables.verbs import (
    GIVING_VERBS,
    INFINITIVE_VERBS,
    INTRANSITIVE_VERBS,
    REPORTING_VERBS,
    TRANSITIVE_VERBS,
    Verb,
)

T = TypeVar("T")


ANIMATE_KINDS: tuple[NounKind, ...] = ("animal", "person")


TENSES: tuple[Tense, ...] = ("present", "past", "past", "future", "progressive", "imperfect")


TIME_ADVERBIALS: dict[Tense, tuple[tuple[str, str], ...]] = {
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


FREQUENCY_ADVERBS: dict[Tense, tuple[tuple[str, str], ...]] = {
    "present": (
        ("often", "souvent"),
        ("always", "toujours"),
        ("sometimes", "parfois"),
        ("rarely", "rarement"),
    ),
    "perfect": (("already", "déjà"), ("often", "souvent"), ("always", "toujours")),
    "future": (("always", "toujours"), ("often", "souvent")),
}


MANNER_ADVERBS = (
    ("slowly", "lentement"),
    ("quickly", "rapidement"),
    ("quietly", "doucement"),
    ("calmly", "calmement"),
    ("happily", "joyeusement"),
)


LOCATION_PREPOSITIONS: tuple[tuple[str, str, tuple[NounKind, ...]], ...] = (
    ("in", "dans", ("land", "building", "hollow")),
    ("near", "près de", ("water", "building", "height", "road", "load")),
    ("behind", "derrière", ("building", "load", "height")),
    ("in front of", "devant", ("building", "hollow", "opening")),
    ("next to", "à côté de", ("load", "building", "water", "road")),
    ("far from", "loin de", ("building", "land", "water")),
    ("at the edge of", "au bord de", ("water", "road")),
)


@dataclass(frozen=True, slots=True, eq=False)
class FableLexicon:
    """The words that may be used."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    transitive_verbs: tuple[Verb, ...]
    intransitive_verbs: tuple[Verb, ...]

    def nouns_of_kinds(self, kinds: Sequence[NounKind]) -> tuple[Noun, ...]:
        """Return the nouns of these kinds."""
        return _of(self, tuple(kinds))


@cache
def _of(lexicon: FableLexicon, kinds: tuple[NounKind, ...]) -> tuple[Noun, ...]:
    return tuple(noun for noun in lexicon.nouns if noun.kind in kinds)


@cache
def _suiting(lexicon: FableLexicon, noun: Noun, attributive: bool) -> tuple[Adjective, ...]:
    suiting = [adjective for adjective in lexicon.adjectives if adjective.fits_noun(noun)]
    if attributive:
        return tuple(adjective for adjective in suiting if not adjective.uses_avoir)
    return tuple(adjective for adjective in suiting if adjective.is_gradable)


FULL_LEXICON = FableLexicon(NOUNS, ADJECTIVES, TRANSITIVE_VERBS, INTRANSITIVE_VERBS)


SHORT_NOUN_COUNTS: dict[NounKind, int] = {
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


SHORT_LEXICON = FableLexicon(
    tuple(
        noun
        for kind, count in SHORT_NOUN_COUNTS.items()
        for noun in [each for each in NOUNS if each.kind == kind][:count]
    ),
    ADJECTIVES[:24] + tuple(a for a in ADJECTIVES if a.en in {"small", "big", "old", "brave"}),
    TRANSITIVE_VERBS[:12],
    INTRANSITIVE_VERBS[:8],
)


FAMILY_NOUNS = frozenset({"sister", "brother", "aunt", "uncle", "grandmother"})


INVOLUNTARY_VERBS = frozenset({"perdre", "tomber", "entendre", "reconnaître", "revenir"})
"""What one does, but not on purpose."""


AGE_AND_SIZE_ADJECTIVES = frozenset({"small", "big", "old", "young", "new"})


def _natural(noun: Noun, determiner: Determiner) -> Determiner:
    """Return "my aunt" rather than "an aunt", but "the king" rather than "my king"."""
    if noun.en in FAMILY_NOUNS:
        return MY if determiner in (A, THIS) else determiner
    if noun.kind == "provision" or (noun.kind == "person" and determiner is MY):
        return THE
    return determiner


class WordChooser:
    """Chooses words from a lexicon; all randomness of the corpus passes through here."""

    def __init__(self, rng: Random, lexicon: FableLexicon = FULL_LEXICON) -> None:
        self.rng = rng
        self.lexicon = lexicon

    def chance(self, probability: float) -> bool:
        """Throw a biased coin."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Choose one, all alike."""
        return choices[int(self.rng.random() * len(choices))]

    def noun(self, kinds: Sequence[NounKind], *but: Noun | None) -> Noun:
        """Choose a noun of these kinds that is none of the others."""
        return self.pick([noun for noun in self.lexicon.nouns_of_kinds(kinds) if noun not in but])

    def adjective(self, noun: Noun, attributive: bool = True) -> Adjective:
        """Choose an adjective that suits a noun."""
        return self.pick(_suiting(self.lexicon, noun, attributive))

    def noun_phrase(
        self,
        noun: Noun,
        determiner: Determiner | None = None,
        plural: bool | None = None,
        adjective_rate: float = 0.3,
        role: PronounRole = "",
    ) -> NounPhrase:
        """Return a noun with a determiner and, with probability `rich`, adjectives."""
        determiner = determiner or self.pick((THE, THE, THE, THE, A, THIS, MY))
        determiner = _natural(noun, determiner)
        if noun.kind == "provision":
            plural = False
        if plural is None:
            plural = self.chance(0.25)
        return build_noun_phrase(
            determiner, noun, self._adjectives(noun, adjective_rate), plural, role
        )

    def _adjectives(self, noun: Noun, rich: float) -> tuple[Adjective, ...]:
        if not self.chance(rich):
            return ()
        first = self.adjective(noun)
        second = self.adjective(noun)
        if (
            self.chance(rich / 2)
            and first.en in AGE_AND_SIZE_ADJECTIVES
            and not second.precedes_noun
        ):
            return first, second
        return (first,)

    def random_noun_phrase(
        self,
        kinds: Sequence[NounKind],
        *but: Noun | None,
        plural: bool | None = None,
        adjective_rate: float = 0.3,
    ) -> NounPhrase:
        """Return a noun phrase of these kinds."""
        return self.noun_phrase(
            self.noun(kinds, *but), plural=plural, adjective_rate=adjective_rate
        )

    def transitive_action(self) -> tuple[NounPhrase, Verb, NounPhrase]:
        """Return who does what to whom."""
        verb = self.transitive_verb()
        subject = self.random_noun_phrase(self.available_kinds(verb.subject_kinds))
        noun = self.noun(self.available_kinds(verb.object_kinds), subject.noun)
        determiner = self.pick((THE, THE, THIS, MY)) if verb.is_stative else None
        return subject, verb, self.noun_phrase(noun, determiner)

    def intended_action(self) -> tuple[NounPhrase, Verb, NounPhrase]:
        """Return what someone can want to do to something known."""
        verbs = [verb for verb in self.lexicon.transitive_verbs if not verb.is_stative]
        verb = self.pick([verb for verb in verbs if verb.fr.infinitive not in INVOLUNTARY_VERBS])
        subject = self.random_noun_phrase(self.available_kinds(verb.subject_kinds))
        noun = self.noun(self.available_kinds(verb.object_kinds), subject.noun)
        return subject, verb, self.noun_phrase(noun, self.pick((THE, THE, THIS, MY)))

    def available_kinds(self, kinds: Sequence[NounKind]) -> list[NounKind]:
        """Return those of the kinds that the lexicon has two nouns of."""
        return [kind for kind in kinds if len(self.lexicon.nouns_of_kinds((kind,))) > 1]

    def transitive_verb(self) -> Verb:
        """Choose a transitive verb."""
        return self.pick(self.lexicon.transitive_verbs)

    def intransitive_verb(self) -> Verb:
        """Choose an intransitive verb."""
        return self.pick(self.lexicon.intransitive_verbs)

    def giving_verb(self) -> Verb:
        """Choose a verb of giving."""
        return self.pick(GIVING_VERBS)

    def infinitive_verb(self) -> Verb:
        """Choose a verb that takes an infinitive."""
        return self.pick(INFINITIVE_VERBS)

    def reporting_verb(self) -> Verb:
        """Choose a verb that takes a clause."""
        return self.pick(REPORTING_VERBS)

    def choose_tense(self, verb: Verb) -> Tense:
        """Choose a tense that the verb has."""
        if verb.is_stative:
            return self.pick_tense("present", "imperfect")
        return self.pick(TENSES[:4] if verb.is_momentary else TENSES)

    def pick_tense(self, *tenses: Tense) -> Tense:
        """Choose one of these tenses."""
        return self.pick(tenses)

    def time_adverbial(self, tense: Tense) -> BilingualPhrase:
        """Choose a time that goes with a tense."""
        return make_aligned_pair(*self.pick(TIME_ADVERBIALS[tense]))

    def frequency_adverb(self, tense: Tense) -> BilingualPhrase:
        """Choose an adverb that stands beside the verb, or none."""
        choices = FREQUENCY_ADVERBS.get(tense)
        return make_aligned_pair(*self.pick(choices)) if choices else EMPTY_PHRASE

    def location(self, *but: Noun | None) -> BilingualPhrase:
        """Choose a place."""
        en, fr, kinds = self.pick(LOCATION_PREPOSITIONS)
        there = self.noun_phrase(
            self.noun(self.available_kinds(kinds), *but), THE, plural=False, adjective_rate=0.2
        )
        return make_aligned_pair(en, fr) + there.phrase
