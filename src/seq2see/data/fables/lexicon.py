"""Nouns, adjectives, determiners and verbs in English and French, read from TSV tables.

Nouns have a kind; adjectives and verbs apply to nouns of certain kinds. An adjective that fits only
one noun of a sentence decides which noun "it" refers to. The order of the tables is part of the
corpus: the most common words come first, with mixed genders. Regular forms are left empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from seq2see.data.fables.morphology import (
    Conjugation,
    Gender,
    Person,
    Tense,
    build_conjugation,
    inflect_english_plural,
    inflect_feminine,
    inflect_french_plural,
    inflect_ing_form,
    inflect_regular_past,
    inflect_third_person,
    read_table,
)

NounKinds = tuple[str, ...]
NOUN_KIND_GROUPS: dict[str, NounKinds] = {
    "animate": ("animal", "person"),
    "place": ("road", "water", "height", "building", "hollow", "land"),
    "food": ("fruit", "dish", "provision"),
    "item": ("load", "belonging"),
}


def expand_kinds(names: str) -> NounKinds:
    """Return the noun kinds of names that are separated by spaces; a name may be a group."""
    return tuple(kind for name in names.split() for kind in NOUN_KIND_GROUPS.get(name, (name,)))


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

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Noun:
        """Return the noun of a row of nouns.tsv."""
        return cls(
            row["kind"],
            row["en"],
            row["en_plural"] or inflect_english_plural(row["en"]),
            row["fr"],
            row["fr_plural"] or inflect_french_plural(row["fr"]),
            "m" if row["gender"] == "m" else "f",
            bool(row["in_short"]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    en: str
    fr: str
    feminine: str
    noun_kinds: NounKinds
    is_hindrance: bool
    """Whether it can be a reason not to do something."""
    precedes_noun: bool
    """Whether it comes before its noun in French."""
    is_gradable: bool
    uses_avoir: bool
    """Whether it is "avoir" with a noun in French, as in "avoir faim" for "be hungry"."""
    in_short: bool

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Adjective:
        """Return the adjective of a row of adjectives.tsv."""
        fr = row["fr"].removeprefix("avoir ")
        return cls(
            row["en"],
            fr,
            row["feminine"] or inflect_feminine(fr),
            expand_kinds(row["noun_kinds"]),
            is_hindrance=bool(row["hindrance"]),
            precedes_noun=bool(row["precedes_noun"]),
            is_gradable=not row["not_gradable"],
            uses_avoir=row["fr"].startswith("avoir "),
            in_short=bool(row["in_short"]),
        )

    def inflect(self, gender: Gender, plural: bool) -> str:
        """Return the French form for a gender and number."""
        if self.uses_avoir:
            return self.fr
        word = self.fr if gender == "m" else self.feminine
        return inflect_french_plural(word) if plural else word

    def fits_noun(self, noun: Noun) -> bool:
        """Return whether the adjective can describe a noun."""
        return noun.kind in self.noun_kinds


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article, possessive, demonstrative or number; forms that do not exist are empty."""

    name: str
    en: str
    en_plural: str
    masculine: str
    feminine: str
    masculine_plural: str
    feminine_plural: str
    kind: str

    def french_form(self, gender: Gender, plural: bool) -> str:
        """Return the French form for a gender and number, before elision."""
        if gender == "m":
            return self.masculine_plural if plural else self.masculine
        return self.feminine_plural if plural else self.feminine


BE_PAST: dict[Person, str] = {"I": "was", "we": "were", "you": "were", "it": "was", "they": "were"}
BE_PRESENT: dict[Person, str] = {"I": "am", "we": "are", "you": "are", "it": "is", "they": "are"}
ETRE, AVOIR = build_conjugation("être"), build_conjugation("avoir")
ETRE_VERBS = frozenset(
    ["aller", "venir", "revenir", "entrer", "arriver", "partir", "tomber", "rester", "passer"]
)
"""Verbs whose compound tenses are formed with être."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, with its particle or preposition in each."""

    en: str
    en_past: str
    en_participle: str
    en_particle: str
    fr: Conjugation
    fr_particle: str
    is_reflexive: bool
    subject_kinds: NounKinds
    object_kinds: NounKinds
    is_stative: bool
    """Whether it describes a state: the past is the imparfait, and there is no progressive."""
    is_momentary: bool
    """Whether it describes a moment: there is no imparfait and no progressive."""
    in_short: bool

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Verb:
        """Return the verb of a row of verbs.tsv."""
        past = row["past"] or inflect_regular_past(row["en"])
        return cls(
            row["en"],
            past,
            row["participle"] or past,
            row["en_particle"],
            build_conjugation(row["fr"].removeprefix("se ")),
            row["fr_particle"],
            row["fr"].startswith("se "),
            expand_kinds(row["subject_kinds"]),
            expand_kinds(row["object_kinds"]),
            is_stative=row["aspect"] == "stative",
            is_momentary=row["aspect"] == "momentary",
            in_short=bool(row["in_short"]),
        )

    @property
    def uses_etre(self) -> bool:
        """Whether compound tenses are formed with être."""
        return self.is_reflexive or self.fr.infinitive in ETRE_VERBS

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
            return "", inflect_third_person(self.en) if person == "it" else self.en
        if tense == "past" or (self.is_stative and tense == "imperfect"):
            return "", self.en_past
        if tense == "perfect":
            return "has" if person == "it" else "have", self.en_participle
        auxiliary = (BE_PRESENT if tense == "progressive" else BE_PAST)[person]
        return auxiliary, inflect_ing_form(self.en)

    def french_form(self, tense: Tense, person: Person) -> str:
        """Return the verb in a simple tense, or the auxiliary of a compound tense."""
        if tense in {"present", "progressive"}:
            return self.fr.present(person)
        if tense in {"past", "perfect"}:
            return (ETRE if self.uses_etre else AVOIR).present(person)
        return self.fr.imperfect(person) if tense == "imperfect" else self.fr.simple_future(person)


NOUNS = tuple(map(Noun.from_row, read_table("nouns")))
ADJECTIVES = tuple(map(Adjective.from_row, read_table("adjectives")))
DETERMINERS = {row["name"]: Determiner(**row) for row in read_table("determiners")}
NUMBERS = tuple(name for name, each in DETERMINERS.items() if each.kind == "number")
VERBS: dict[str, tuple[Verb, ...]] = {}
for _row in read_table("verbs"):
    VERBS[_row["group"]] = (*VERBS.get(_row["group"], ()), Verb.from_row(_row))
BE_VERB, BE_AS_AVOIR = VERBS["being"]  # the second is "avoir", as in "be hungry", "avoir faim"


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
