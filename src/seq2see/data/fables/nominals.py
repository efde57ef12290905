"""Noun phrases: a determiner, adjectives and a noun, in agreement."""

from __future__ import annotations

from dataclasses import dataclass

from seq2see.data.fables import french
from seq2see.data.fables.adjectives import Adjective
from seq2see.data.fables.determiners import Determiner
from seq2see.data.fables.french import Gender
from seq2see.data.fables.nouns import Noun
from seq2see.data.fables.phrases import EMPTY, Mark, Phrase, pair
from seq2see.data.fables.verbs import Person


@dataclass(frozen=True, slots=True)
class Agreement:
    """What other words agree with."""

    gender: Gender
    plural: bool = False
    person: Person = "it"


@dataclass(frozen=True, slots=True)
class Nominal:
    """A noun phrase or a pronoun, as a subject or an object."""

    phrase: Phrase
    agreement: Agreement
    noun: Noun | None = None

    def __add__(self, more: Phrase) -> Nominal:
        """Add a relative clause or the like."""
        return Nominal(self.phrase + more, self.agreement, self.noun)


def nominal(
    determiner: Determiner,
    noun: Noun,
    adjectives: tuple[Adjective, ...] = (),
    plural: bool = False,
    mark: Mark = "",
) -> Nominal:
    """Return determiner, adjectives and noun; French sorts the adjectives around the noun."""
    described = [(each, _quality(each, noun, plural)) for each in adjectives]
    head = _head(noun, plural, mark)
    article = _article(determiner, noun, plural, any(each.before for each in adjectives))
    front = article.fr + sum((p.fr for a, p in described if a.before), ()) + head.fr
    back = sum((p.fr for a, p in described if not a.before), ())
    en = article.en + sum((p.en for _, p in described), ()) + head.en
    fr = (front if plural else french.euphonic(front)) + back
    return Nominal(Phrase(en, fr), Agreement(noun.gender, plural, "they" if plural else "it"), noun)


def _head(noun: Noun, plural: bool, mark: Mark) -> Phrase:
    if plural:
        return pair(noun.en_plural, noun.fr_plural, mark)
    return pair(noun.en, noun.fr, mark)


def _quality(adjective: Adjective, noun: Noun, plural: bool) -> Phrase:
    return pair(adjective.en, adjective.agreed(noun.gender, plural))


def _article(determiner: Determiner, noun: Noun, plural: bool, adjective: bool) -> Phrase:
    """Return the determiner; "des" is "de" before an adjective."""
    fr = determiner.french(noun.gender, plural)
    if fr == "des" and adjective:
        fr = "de"
    return pair(determiner.plural if plural else determiner.singular, fr)


def both(first: Nominal, second: Nominal) -> Nominal:
    """Return "the fox and the goat"; one masculine makes both masculine."""
    feminine = first.agreement.gender == second.agreement.gender == "f"
    phrase = first.phrase + pair("and", "et") + second.phrase
    return Nominal(phrase, Agreement("f" if feminine else "m", True, "they"))


def pronoun(person: Person) -> Nominal:
    """Return "I", "we" or "you" (several, or one politely)."""
    french_word = {"I": "je", "we": "nous", "you": "vous"}[person]
    return Nominal(pair(person, french_word), Agreement("m", person != "I", person))


def anaphor(of: Agreement) -> Nominal:
    """Return the subject pronoun "it" or "they" for a thing or an animal."""
    fr = ("il" if of.gender == "m" else "elle") + ("s" if of.plural else "")
    return Nominal(pair("they" if of.plural else "it", fr, mark="it"), of)


def clitic(of: Agreement) -> Nominal:
    """Return the object pronoun "it" or "them"."""
    fr = "les" if of.plural else "le" if of.gender == "m" else "la"
    return Nominal(pair("them" if of.plural else "it", fr, mark="it"), of)


NOBODY = Nominal(EMPTY, Agreement("m"))
"""The subject of an imperative or of a question with "who"."""
