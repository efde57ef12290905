"""Nouns, adjectives, determiners, verbs and adverbials in English and French, from TSV tables.

A table has a column per field of its class. It has all forms of a word, except those of French
verbs, which are conjugated. Nouns have a kind, and adjectives and verbs apply to nouns of certain
kinds. An adjective that fits only one noun of a sentence decides which noun "it" refers to. The
order of the tables is part of the corpus: the most common words come first, with mixed genders.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

T = TypeVar("T")
Gender = Literal["m", "f"]
Person = Literal["I", "we", "you", "it", "they"]
Tense = Literal["present", "progressive", "past", "perfect", "imperfect", "future"]
NounKinds = tuple[str, ...]
NOUN_KIND_GROUPS: dict[str, NounKinds] = {
    "animate": ("animal", "person"),
    "place": ("road", "water", "height", "building", "hollow", "land"),
    "food": ("fruit", "dish", "provision"),
    "item": ("load", "belonging"),
}


def expand_noun_kinds(names: str) -> NounKinds:
    """Return the noun kinds of names that are separated by spaces; a name may be a group."""
    return tuple(kind for name in names.split() for kind in NOUN_KIND_GROUPS.get(name, (name,)))


@dataclass(frozen=True, slots=True)
class AgreementFeatures:
    """Features of a noun phrase that other words agree with."""

    gender: Gender = "m"
    person: Person = "it"

    @property
    def plural(self) -> bool:
        """Whether the noun phrase is plural."""
        return self.person in {"we", "you", "they"}


@dataclass(frozen=True, slots=True)
class Conjugation:
    """The principal parts of a French verb."""

    infinitive: str
    je: str
    il: str
    ils: str
    stem: str
    """Stem of the "nous" form and of the imparfait."""
    future_stem: str
    participle: str

    def present(self, person: Person) -> str:
        """Return the form of the présent."""
        irregular = {"être": ("sommes", "êtes"), "dire": ("disons", "dites")}.get(self.infinitive)
        nous, vous = irregular or (_join_ending(self.stem, "ons"), self.stem + "ez")
        return {"I": self.je, "we": nous, "you": vous, "it": self.il, "they": self.ils}[person]

    def imperfect(self, person: Person) -> str:
        """Return the form of the imparfait."""
        endings = {"I": "ais", "we": "ions", "you": "iez", "it": "ait", "they": "aient"}
        return _join_ending("ét" if self.infinitive == "être" else self.stem, endings[person])

    def simple_future(self, person: Person) -> str:
        """Return the form of the futur simple."""
        endings = {"I": "ai", "we": "ons", "you": "ez", "it": "a", "they": "ont"}
        return self.future_stem + endings[person]

    def inflect_participle(self, agreement: AgreementFeatures) -> str:
        """Return the participle for a gender and number: mangé, mangée, mangés, mangées."""
        word = self.participle + ("e" if agreement.gender == "f" else "")
        return word + ("s" if agreement.plural and not word.endswith("s") else "")


def _join_ending(stem: str, ending: str) -> str:
    """Add an ending; the spelling of g and c changes before a and o: mangeait, commençait."""
    if ending[0] in "ao" and stem[-1] in "gc":
        stem = stem + "e" if stem[-1] == "g" else stem[:-1] + "ç"
    return stem + ending


REGULAR_ENDINGS = {
    "er": ("e", "e", "", "é"),
    "ir": ("is", "it", "iss", "i"),
    "re": ("s", "", "", "u"),
}
"""Endings of je, il, the stem and the participle."""


def build_conjugation(infinitive: str) -> Conjugation:
    """Return the principal parts of a French verb.

    Verbs that are not in the table are regular and end in -er, -ir (like finir) or -dre.
    """
    if infinitive in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[infinitive]
    root, ending = infinitive[:-2], infinitive[-2:]
    je, il, stem, participle = REGULAR_ENDINGS[ending]
    parts = (root + je, root + il, root + stem + "ent", root + stem)
    return Conjugation(infinitive, *parts, infinitive.removesuffix("e"), root + participle)


CONVERTERS: dict[Any, Callable[[str], object]] = {
    bool: bool,
    NounKinds: expand_noun_kinds,
    Conjugation: build_conjugation,
}
"""By the type of a field; all other fields are text."""


def read_table(name: str, row_class: Callable[..., T]) -> tuple[T, ...]:
    """Return the rows of a TSV table of this package as instances of a class.

    The columns are its fields; a flag is true if its cell is not empty.
    """
    text = resources.files(__package__).joinpath(f"{name}.tsv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    types = get_type_hints(row_class)
    return tuple(
        row_class(**{field: CONVERTERS.get(types[field], str)(row[field]) for field in row})
        for row in rows
    )


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages."""

    kind: str
    en: str
    en_plural: str
    fr: str
    fr_plural: str
    gender: Gender
    in_short: bool


@dataclass(frozen=True, slots=True, eq=False)
class FrenchForms:
    """The French forms of an adjective or determiner; forms that do not exist are empty."""

    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str

    def inflect(self, agreement: AgreementFeatures) -> str:
        """Return the form for a gender and number, before elision."""
        if agreement.gender == "m":
            return self.masculine_plural if agreement.plural else self.masculine
        return self.feminine_plural if agreement.plural else self.feminine


@dataclass(frozen=True, slots=True, eq=False)
class Adjective(FrenchForms):
    """An adjective in both languages."""

    en: str
    comparative: str
    superlative: str
    noun_kinds: NounKinds
    is_hindrance: bool
    """Whether it can be a reason not to do something."""
    precedes_noun: bool
    """Whether it comes before its noun in French."""
    is_gradable: bool
    uses_avoir: bool
    """Whether it is "avoir" with a noun in French, as in "avoir faim" for "be hungry"."""
    in_short: bool

    def fits_noun(self, noun: Noun) -> bool:
        """Return whether the adjective can describe a noun."""
        return noun.kind in self.noun_kinds


@dataclass(frozen=True, slots=True, eq=False)
class Determiner(FrenchForms):
    """An article, possessive, demonstrative or number."""

    name: str
    en: str
    en_plural: str
    kind: str


BE_PAST: dict[Person, str] = {"I": "was", "we": "were", "you": "were", "it": "was", "they": "were"}
BE_PRESENT: dict[Person, str] = {"I": "am", "we": "are", "you": "are", "it": "is", "they": "are"}


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, with its particle or preposition in each."""

    groups: tuple[str, ...]
    """Its kind, the constructions that use it, and other groups that they choose verbs from."""
    en: str
    en_third_person: str
    en_ing: str
    en_past: str
    en_participle: str
    en_particle: str
    fr: Conjugation
    fr_particle: str
    is_reflexive: bool
    uses_etre: bool
    """Whether French compound tenses are formed with être."""
    subject_kinds: NounKinds
    object_kinds: NounKinds
    is_stative: bool
    """Whether it describes a state: the past is the imparfait, and there is no progressive."""
    is_momentary: bool
    """Whether it describes a moment: there is no imparfait and no progressive."""
    in_short: bool

    @property
    def past_tense(self) -> Tense:
        """The French tense of an English simple past: "loved" is "aimait"."""
        return "imperfect" if self.is_stative else "past"

    def english_form(self, tense: Tense, person: Person) -> tuple[str, str]:
        """Return the auxiliary, or "", and the main verb."""
        if tense == "future":
            return "will", self.en
        if self.en == "be":
            return (BE_PRESENT if tense == "present" else BE_PAST)[person], ""
        if tense == "present" or (self.is_stative and tense == "progressive"):
            return "", self.en_third_person if person == "it" else self.en
        if tense == "past" or (self.is_stative and tense == "imperfect"):
            return "", self.en_past
        if tense == "perfect":
            return "has" if person == "it" else "have", self.en_participle
        auxiliary = (BE_PRESENT if tense == "progressive" else BE_PAST)[person]
        return auxiliary, self.en_ing

    def french_form(self, tense: Tense, person: Person) -> str:
        """Return the verb in a simple tense, or the auxiliary of a compound tense."""
        if tense in {"present", "progressive"}:
            return self.fr.present(person)
        if tense in {"past", "perfect"}:
            return (ETRE if self.uses_etre else AVOIR).present(person)
        return self.fr.imperfect(person) if tense == "imperfect" else self.fr.simple_future(person)


class Adverbial(NamedTuple):
    """An adverbial or preposition in both languages."""

    group: str
    tense: str
    en: str
    fr: str
    noun_kinds: NounKinds
    """Kinds of nouns after a preposition."""


IRREGULAR_VERBS = {verb.infinitive: verb for verb in read_table("irregular_verbs", Conjugation)}
ETRE, AVOIR = build_conjugation("être"), build_conjugation("avoir")
NOUNS = read_table("nouns", Noun)
ADJECTIVES = read_table("adjectives", Adjective)
DETERMINERS = {each.name: each for each in read_table("determiners", Determiner)}
NUMBERS = tuple(name for name, each in DETERMINERS.items() if each.kind == "number")
VERBS: dict[str, tuple[Verb, ...]] = {}
for _verb in read_table("verbs", Verb):
    for _group in _verb.groups:
        VERBS[_group] = (*VERBS.get(_group, ()), _verb)
BE_VERB, BE_AS_AVOIR = VERBS["being"]  # the second is "avoir", as in "be hungry", "avoir faim"
ADVERBIALS: dict[tuple[str, str], list[Adverbial]] = {}
"""By group and tense."""
for _adverbial in read_table("adverbials", Adverbial):
    ADVERBIALS.setdefault((_adverbial.group, _adverbial.tense), []).append(_adverbial)


@dataclass(frozen=True, slots=True, eq=False)
class FableLexicon:
    """The nouns, adjectives and verbs that sentences are built from."""

    nouns: tuple[Noun, ...]
    adjectives: tuple[Adjective, ...]
    verbs: dict[str, tuple[Verb, ...]]
    """By the group of verbs.tsv."""


@cache
def nouns_of_kinds(lexicon: FableLexicon, kinds: NounKinds) -> tuple[Noun, ...]:
    """Return the nouns of the given kinds."""
    return tuple(noun for noun in lexicon.nouns if noun.kind in kinds)


FULL_LEXICON = FableLexicon(NOUNS, ADJECTIVES, VERBS)
SHORT_LEXICON = FableLexicon(
    tuple(noun for noun in NOUNS if noun.in_short),
    tuple(adjective for adjective in ADJECTIVES if adjective.in_short),
    {group: tuple(v for v in verbs if v.in_short) or verbs for group, verbs in VERBS.items()},
)
"""Its words are marked in the tables; groups of verbs without a mark are complete."""
