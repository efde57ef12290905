"""Random choice of words that fit together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from seq2see.data.fables.lexicon import (
    ADVERBIALS,
    FULL_LEXICON,
    SHORT_LEXICON,
    Adjective,
    FableLexicon,
    Noun,
    NounKinds,
    Tense,
    Verb,
    expand_noun_kinds,
    nouns_of_kinds,
)
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    NO_DEGREE,
    BilingualPhrase,
    Negation,
    NounPhrase,
    build_noun_phrase,
    build_phrase,
)

T = TypeVar("T")
ANIMATE = expand_noun_kinds("animate")
TENSES: tuple[Tense, ...] = ("present", "past", "past", "future", "progressive", "imperfect")
ANY_DETERMINER = ("the", "the", "the", "the", "a", "this", "my")
DEFINITE = ("the", "the", "this", "my")
FAMILY_NOUNS = frozenset({"sister", "brother", "aunt", "uncle", "grandmother"})
AGE_AND_SIZE_ADJECTIVES = frozenset({"small", "big", "old", "young", "new"})
ADJECTIVE_USES: dict[str, Callable[[Adjective], bool]] = {
    "attributive": lambda adjective: not adjective.uses_avoir,
    "predicative": lambda adjective: adjective.is_gradable,
    "comparable": lambda adjective: adjective.is_gradable and not adjective.uses_avoir,
    "hindrance": lambda adjective: adjective.is_hindrance,
}


@cache
def _fitting_adjectives(lexicon: FableLexicon, noun: Noun, use: str) -> tuple[Adjective, ...]:
    is_usable = ADJECTIVE_USES[use]
    return tuple(each for each in lexicon.adjectives if each.fits_noun(noun) and is_usable(each))


def _natural_determiner(noun: Noun, determiner: str) -> str:
    """Replace unusual determiners: "an aunt" by "my aunt", "my king" by "the king"."""
    if noun.en in FAMILY_NOUNS:
        return "my" if determiner in {"a", "this"} else determiner
    if noun.kind == "provision" or (noun.kind == "person" and determiner == "my"):
        return "the"
    return determiner


class WordChooser:
    """Chooses words from a lexicon at random; the only source of randomness of the corpus."""

    def __init__(self, seed: int, short: bool) -> None:
        self.rng = Random(seed)  # noqa: S311
        self.short = short
        self.lexicon = SHORT_LEXICON if short else FULL_LEXICON

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Choose an element uniformly."""
        return choices[int(self.rng.random() * len(choices))]

    def noun(self, kinds: NounKinds, *exclude: Noun) -> Noun:
        """Choose a noun of the given kinds that is not excluded."""
        nouns = nouns_of_kinds(self.lexicon, kinds)
        return self.pick([noun for noun in nouns if noun not in exclude])

    def adjective(self, noun: Noun, use: str = "attributive") -> Adjective:
        """Choose an adjective that fits a noun, for one of the `ADJECTIVE_USES`."""
        return self.pick(_fitting_adjectives(self.lexicon, noun, use))

    def noun_phrase(
        self,
        noun: Noun | NounKinds,
        determiner: str | tuple[str, ...] = ANY_DETERMINER,
        plural: bool | None = None,
        adjective_rate: float = 0.3,
        exclude: Sequence[Noun] = (),
    ) -> NounPhrase:
        """Return a noun with a determiner and, with probability `adjective_rate`, adjectives.

        `noun` is a noun, or the kinds to choose from, without the nouns in `exclude`. Several
        determiners are choices too, as is the number if it is None.
        """
        if isinstance(noun, tuple):
            noun = self.noun(noun, *exclude)
        if isinstance(determiner, tuple):
            determiner = self.pick(determiner)
        determiner = _natural_determiner(noun, determiner)
        if noun.kind == "provision":
            plural = False
        if plural is None:
            plural = self.chance(0.25)
        adjectives = self._choose_adjectives(noun, adjective_rate)
        return build_noun_phrase(determiner, noun, adjectives, plural)

    def _choose_adjectives(self, noun: Noun, rate: float) -> tuple[Adjective, ...]:
        if not self.chance(rate):
            return ()
        first, second = self.adjective(noun), self.adjective(noun)
        has_two = self.chance(rate / 2) and first.en in AGE_AND_SIZE_ADJECTIVES
        return (first, second) if has_two and not second.precedes_noun else (first,)

    def predicate(
        self,
        subject: NounPhrase,
        tense: Tense | None = None,
        use: str = "predicative",
        degree: tuple[str, str] = NO_DEGREE,
    ) -> BilingualPhrase:
        """Return "is tired", with an adjective that fits; without a tense, choose one."""
        adjective = self.adjective(subject.noun, use)
        tense = tense or self.pick_tense("present", "imperfect")
        return subject.predicate(adjective, tense, degree=degree)

    def action(self, intended: bool = False) -> tuple[NounPhrase, Verb, NounPhrase]:
        """Return a subject, a transitive verb and an object that fit together.

        With `intended`, the verb is for something done on purpose, and the object is definite.
        """
        verb = self.verb("intended" if intended else "transitive")
        subject = self.noun_phrase(verb.subject_kinds)
        determiner = DEFINITE if intended or verb.is_stative else ANY_DETERMINER
        obj = self.noun_phrase(verb.object_kinds, determiner, exclude=[subject.noun])
        return subject, verb, obj

    def definite_object(self, verb: Verb, *exclude: Noun) -> NounPhrase:
        """Return a definite object of a verb, as negated clauses require."""
        return self.noun_phrase(verb.object_kinds, DEFINITE, exclude=exclude)

    def verb(self, group: str) -> Verb:
        """Choose a verb of a group in verbs.tsv."""
        return self.pick(self.lexicon.verbs[group])

    def tense(self, verb: Verb) -> Tense:
        """Choose a tense that the verb can have."""
        if verb.is_stative:
            return self.pick_tense("present", "imperfect")
        return self.pick(TENSES[:4] if verb.is_momentary else TENSES)

    def pick_tense(self, *tenses: Tense) -> Tense:
        """Choose one of the given tenses."""
        return self.pick(tenses)

    def present_or(self, verb: Verb, *tenses: Tense) -> Tense:
        """Return the present for a stative verb, otherwise one of the given tenses."""
        return "present" if verb.is_stative else self.pick(tenses)

    def negation(self, probability: float) -> Negation:
        """Return "not" with the given probability."""
        return "not" if self.chance(probability) else ""

    def adverbial(self, group: str, tense: Tense | str = "") -> BilingualPhrase:
        """Choose an adverbial of a group that fits a tense; empty if there is none."""
        if not (choices := ADVERBIALS.get((group, tense))):
            return EMPTY_PHRASE
        _, _, en, fr, _ = self.pick(choices)
        return build_phrase(en, fr)

    def location(self, *exclude: Noun) -> BilingualPhrase:
        """Choose a preposition with a noun phrase, for example "near the bridge"."""
        _, _, en, fr, kinds = self.pick(ADVERBIALS["location", ""])
        return build_phrase(en, fr) + self.noun_phrase(kinds, "the", False, 0.2, exclude=exclude)

    def optional_location(self, verb: Verb, probability: float) -> BilingualPhrase:
        """Return a location with the given probability; verbs such as "leave" take none."""
        takes_none = bool(verb.en_particle) or verb.fr.infinitive == "partir"
        return EMPTY_PHRASE if takes_none or not self.chance(probability) else self.location()
