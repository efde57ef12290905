"""Inflection of English nouns, verbs and adjectives, and of French nouns, adjectives and verbs."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from importlib import resources
from typing import Literal

SHORT_VOWEL_SYLLABLE = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
"""One syllable with a short vowel: the last letter is doubled before an ending."""
MORE_ADJECTIVES = frozenset({"cowardly", "slippery", "sour", "vast"})
"""Adjectives that take "more", although their form would allow "-er"."""


def read_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a TSV table of this package."""
    text = resources.files(__package__).joinpath(f"{name}.tsv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def inflect_english_plural(noun: str) -> str:
    """Return the regular plural: foxes, berries."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")


def inflect_third_person(verb: str) -> str:
    """Return the third person singular: crosses, carries, goes."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else inflect_english_plural(verb)


def inflect_regular_past(verb: str) -> str:
    """Return the regular past: crossed, carried, stopped, liked."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _double_last_letter(verb).removesuffix("e") + "ed"


def inflect_ing_form(verb: str) -> str:
    """Return the -ing form: crossing, stopping, liking, seeing, lying."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return re.sub(r"(?<=[^aeiouy])e$|(?<=u)e$", "", _double_last_letter(verb)) + "ing"


def inflect_comparative(adjective: str) -> str:
    """Return the comparative: wider, bigger, heavier, more careful."""
    if adjective in MORE_ADJECTIVES:
        return f"more {adjective}"
    if adjective.endswith("y") and len(adjective) > 3:
        return adjective[:-1] + "ier"
    syllables = re.findall(r"[aeiouy]+", adjective.removesuffix("e"))
    if len(syllables) > 1:
        return f"more {adjective}"
    return _double_last_letter(adjective).removesuffix("e") + "er"


def inflect_superlative(adjective: str) -> str:
    """Return the superlative: widest, most careful."""
    more = inflect_comparative(adjective)
    return more.replace("more ", "most ") if more.startswith("more ") else more[:-2] + "est"


def _double_last_letter(word: str) -> str:
    return word + word[-1] if SHORT_VOWEL_SYLLABLE.fullmatch(word) else word


Gender = Literal["m", "f"]


def inflect_french_plural(word: str) -> str:
    """Return the plural of a noun or masculine adjective: renards, animaux, oiseaux, gris."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "eu")) and word != "bleu" else "s")


FEMININE_ENDINGS = [
    (r"e$", "e"),
    (r"er$", "ère"),
    (r"eux$", "euse"),
    (r"eau$", "elle"),
    (r"if$", "ive"),
    (r"on$", "onne"),
    (r"ien$", "ienne"),
    (r"el$", "elle"),
    (r"$", "e"),
]


def inflect_feminine(adjective: str) -> str:
    """Return the feminine of a regular adjective: grande, fière, heureuse, belle, craintive."""
    ending, new = next(rule for rule in FEMININE_ENDINGS if re.search(rule[0], adjective))
    return re.sub(ending, new, adjective, count=1)


def inflect_participle(participle: str, gender: Gender, plural: bool) -> str:
    """Return a participle that agrees in gender and number: mangé, mangée, mangés, mangées."""
    word = participle + ("e" if gender == "f" else "")
    return word + ("s" if plural and not word.endswith("s") else "")


Person = Literal["I", "we", "you", "it", "they"]
Tense = Literal["present", "progressive", "past", "perfect", "imperfect", "future"]


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
IRREGULAR_VERBS = {row["infinitive"]: Conjugation(**row) for row in read_table("irregular_verbs")}


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
