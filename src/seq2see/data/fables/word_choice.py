"""Random choice of words that fit together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.nouns_adjectives_and_determiners import (
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
from seq2see.data.fables.phrases_and_clauses import (
    EMPTY_PHRASE,
    BilingualPhrase,
    NounPhrase,
    PronounRole,
    build_noun_phrase,
    build_phrase,
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
    """The nouns, adjectives and verbs that sentences are built from."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    transitive_verbs: tuple[Verb, ...]
    intransitive_verbs: tuple[Verb, ...]

    def nouns_of_kinds(self, kinds: Sequence[NounKind]) -> tuple[Noun, ...]:
        """Return the nouns of the given kinds."""
        return _nouns_of_kinds(self, tuple(kinds))


@cache
def _nouns_of_kinds(lexicon: FableLexicon, kinds: tuple[NounKind, ...]) -> tuple[Noun, ...]:
    return tuple(noun for noun in lexicon.nouns if noun.kind in kinds)


@cache
def _fitting_adjectives(
    lexicon: FableLexicon, noun: Noun, attributive: bool
) -> tuple[Adjective, ...]:
    fitting = [adjective for adjective in lexicon.adjectives if adjective.fits_noun(noun)]
    if attributive:
        return tuple(adjective for adjective in fitting if not adjective.uses_avoir)
    return tuple(adjective for adjective in fitting if adjective.is_gradable)


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
"""French infinitives of verbs that one does not do on purpose."""
AGE_AND_SIZE_ADJECTIVES = frozenset({"small", "big", "old", "young", "new"})


def _natural_determiner(noun: Noun, determiner: Determiner) -> Determiner:
    """Replace unusual determiners: "an aunt" by "my aunt", "my king" by "the king"."""
    if noun.en in FAMILY_NOUNS:
        return MY if determiner in (A, THIS) else determiner
    if noun.kind == "provision" or (noun.kind == "person" and determiner is MY):
        return THE
    return determiner


class WordChooser:
    """Chooses words from a lexicon at random; the only source of randomness of the corpus."""

    def __init__(self, rng: Random, lexicon: FableLexicon = FULL_LEXICON) -> None:
        self.rng = rng
        self.lexicon = lexicon

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Choose an element uniformly."""
        return choices[int(self.rng.random() * len(choices))]

    def noun(self, kinds: Sequence[NounKind], *exclude: Noun | None) -> Noun:
        """Choose a noun of the given kinds that is not excluded."""
        nouns = self.lexicon.nouns_of_kinds(kinds)
        return self.pick([noun for noun in nouns if noun not in exclude])

    def adjective(self, noun: Noun, attributive: bool = True) -> Adjective:
        """Choose an adjective that fits a noun, for attributive or predicative use."""
        return self.pick(_fitting_adjectives(self.lexicon, noun, attributive))

    def noun_phrase(
        self,
        noun: Noun,
        determiner: Determiner | None = None,
        plural: bool | None = None,
        adjective_rate: float = 0.3,
        role: PronounRole = "",
    ) -> NounPhrase:
        """Return a noun with a determiner and, with probability `adjective_rate`, adjectives.

        A determiner or number that is not given is chosen at random.
        """
        determiner = determiner or self.pick((THE, THE, THE, THE, A, THIS, MY))
        determiner = _natural_determiner(noun, determiner)
        if noun.kind == "provision":
            plural = False
        if plural is None:
            plural = self.chance(0.25)
        adjectives = self._choose_adjectives(noun, adjective_rate)
        return build_noun_phrase(determiner, noun, adjectives, plural, role)

    def _choose_adjectives(self, noun: Noun, rate: float) -> tuple[Adjective, ...]:
        if not self.chance(rate):
            return ()
        first = self.adjective(noun)
        second = self.adjective(noun)
        has_two = self.chance(rate / 2) and first.en in AGE_AND_SIZE_ADJECTIVES
        return (first, second) if has_two and not second.precedes_noun else (first,)

    def random_noun_phrase(
        self,
        kinds: Sequence[NounKind],
        *exclude: Noun | None,
        plural: bool | None = None,
        adjective_rate: float = 0.3,
    ) -> NounPhrase:
        """Return a noun phrase with a noun of the given kinds."""
        noun = self.noun(kinds, *exclude)
        return self.noun_phrase(noun, plural=plural, adjective_rate=adjective_rate)

    def transitive_action(self) -> tuple[NounPhrase, Verb, NounPhrase]:
        """Return a subject, a transitive verb and an object that fit together."""
        verb = self.transitive_verb()
        subject = self.random_noun_phrase(self.available_kinds(verb.subject_kinds))
        noun = self.noun(self.available_kinds(verb.object_kinds), subject.noun)
        determiner = self.pick((THE, THE, THIS, MY)) if verb.is_stative else None
        return subject, verb, self.noun_phrase(noun, determiner)

    def intended_action(self) -> tuple[NounPhrase, Verb, NounPhrase]:
        """Return a subject, a verb for an intended action, and a definite object."""
        verbs = [verb for verb in self.lexicon.transitive_verbs if not verb.is_stative]
        verb = self.pick([verb for verb in verbs if verb.fr.infinitive not in INVOLUNTARY_VERBS])
        subject = self.random_noun_phrase(self.available_kinds(verb.subject_kinds))
        noun = self.noun(self.available_kinds(verb.object_kinds), subject.noun)
        return subject, verb, self.noun_phrase(noun, self.pick((THE, THE, THIS, MY)))

    def available_kinds(self, kinds: Sequence[NounKind]) -> list[NounKind]:
        """Return the kinds of which the lexicon has at least two nouns."""
        return [kind for kind in kinds if len(self.lexicon.nouns_of_kinds((kind,))) > 1]

    def definite_noun_phrase(
        self, kinds: Sequence[NounKind], *exclude: Noun | None, adjective_rate: float = 0.3
    ) -> NounPhrase:
        """Return a noun phrase with a definite determiner."""
        noun = self.noun(self.available_kinds(kinds), *exclude)
        determiner = self.pick((THE, THE, THIS, MY))
        return self.noun_phrase(noun, determiner, adjective_rate=adjective_rate)

    def definite_object(self, verb: Verb, *exclude: Noun | None) -> NounPhrase:
        """Return a definite object of a verb, as negated clauses require."""
        return self.definite_noun_phrase(verb.object_kinds, *exclude)

    def comparable_adjective(self, noun: Noun) -> Adjective:
        """Choose an adjective that fits a noun and has a comparative."""
        fitting = [each for each in self.lexicon.adjectives if each.fits_noun(noun)]
        return self.pick([each for each in fitting if each.is_gradable and not each.uses_avoir])

    def transitive_verb(self, *infinitives: str) -> Verb:
        """Choose a transitive verb, optionally one with the given French infinitives."""
        return self._choose_verb(self.lexicon.transitive_verbs, infinitives)

    def intransitive_verb(self, *infinitives: str) -> Verb:
        """Choose an intransitive verb, optionally one with the given French infinitives."""
        return self._choose_verb(self.lexicon.intransitive_verbs, infinitives)

    def _choose_verb(self, verbs: Sequence[Verb], infinitives: Sequence[str]) -> Verb:
        if not infinitives:
            return self.pick(verbs)
        return self.pick([verb for verb in verbs if verb.fr.infinitive in infinitives])

    def giving_verb(self) -> Verb:
        """Choose a verb of giving."""
        return self.pick(GIVING_VERBS)

    def infinitive_verb(self) -> Verb:
        """Choose a verb that takes an infinitive."""
        return self.pick(INFINITIVE_VERBS)

    def reporting_verb(self) -> Verb:
        """Choose a verb that takes a clause with "that"."""
        return self.pick(REPORTING_VERBS)

    def choose_tense(self, verb: Verb) -> Tense:
        """Choose a tense that the verb can have."""
        if verb.is_stative:
            return self.pick_tense("present", "imperfect")
        return self.pick(TENSES[:4] if verb.is_momentary else TENSES)

    def pick_tense(self, *tenses: Tense) -> Tense:
        """Choose one of the given tenses."""
        return self.pick(tenses)

    def question_tense(self, verb: Verb) -> Tense:
        """Choose a tense for a question."""
        return (
            "present" if verb.is_stative else self.pick_tense("present", "past", "past", "future")
        )

    def time_adverbial(self, tense: Tense) -> BilingualPhrase:
        """Choose an adverbial of time that fits a tense."""
        return build_phrase(*self.pick(TIME_ADVERBIALS[tense]))

    def frequency_adverb(self, tense: Tense) -> BilingualPhrase:
        """Choose an adverb of frequency that fits a tense; empty if there is none."""
        choices = FREQUENCY_ADVERBS.get(tense)
        return build_phrase(*self.pick(choices)) if choices else EMPTY_PHRASE

    def location(self, *exclude: Noun | None) -> BilingualPhrase:
        """Choose a preposition with a noun phrase, for example "near the bridge"."""
        en, fr, kinds = self.pick(LOCATION_PREPOSITIONS)
        noun = self.noun(self.available_kinds(kinds), *exclude)
        place = self.noun_phrase(noun, THE, plural=False, adjective_rate=0.2)
        return build_phrase(en, fr) + place.phrase

    def optional_location(self, verb: Verb, probability: float) -> BilingualPhrase:
        """Return a location with the given probability; verbs such as "leave" take none."""
        takes_none = bool(verb.en_particle) or verb.fr.infinitive == "partir"
        return EMPTY_PHRASE if takes_none or not self.chance(probability) else self.location()
