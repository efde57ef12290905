"""Clauses: a subject, a verb in its tense with negation and pronouns around it, an object."""

from __future__ import annotations

from dataclasses import dataclass

from seq2see.data.fables import english, french
from seq2see.data.fables.actions import BE, FEEL
from seq2see.data.fables.adjectives import Adjective
from seq2see.data.fables.nominals import Agreement, Nominal
from seq2see.data.fables.phrases import EMPTY, Link, Phrase, Word, pair, spell
from seq2see.data.fables.verbs import Person, Tense, Verb

COMPOUND = ("past", "perfect")
REFLEXIVE: dict[Person, str] = {"I": "me", "we": "nous", "you": "vous", "it": "se", "they": "se"}


@dataclass(frozen=True, slots=True)
class Polarity:
    """A negation: where English has one word, French has "ne" and this one."""

    en: str
    fr: str


YES = Polarity("", "")
NOT = Polarity("n't", "pas")
NEVER = Polarity("never", "jamais")
NO_LONGER = Polarity("no longer", "plus")
NOTHING = Polarity("nothing", "rien")


@dataclass(frozen=True, slots=True)
class Links:
    """What the words of a verb group translate: the action, its time, its negation."""

    act: Link
    time: Link
    polarity: Link

    @classmethod
    def fresh(cls) -> Links:
        """Return new links."""
        return cls(Link(), Link(), Link())


def verb_group(
    verb: Verb,
    tense: Tense,
    subject: Agreement,
    polarity: Polarity = YES,
    adverb: Phrase = EMPTY,
    clitic: Nominal | None = None,
    participle: Agreement | None = None,
) -> Phrase:
    """Return the verb with all that French puts around it.

    The participle agrees with the subject after être, and otherwise with a pronoun before it or
    with `participle`, the antecedent of a relative "que".
    """
    links = Links.fresh()
    before = clitic.phrase if clitic else EMPTY
    agreement = clitic.agreement if clitic else participle
    if verb.with_etre:
        agreement = subject
    en = _english_group(verb, tense, subject.person, polarity, adverb, links)
    fr = _french_group(verb, tense, subject.person, polarity, adverb, links, before, agreement)
    return Phrase(en + before.en, fr)


def _english_group(
    verb: Verb, tense: Tense, person: Person, polarity: Polarity, adverb: Phrase, links: Links
) -> tuple[Word, ...]:
    forms = _negated if polarity is NOT else Verb.english
    auxiliary, main = forms(verb, tense, person)
    helper: tuple[Link, ...] = (links.polarity,) if polarity is NOT else ()
    helper += () if auxiliary in {"doesn't", "don't"} else (links.time,)
    own = (links.act,) if auxiliary and main else (links.act, links.time)
    if not main:
        helper += (links.act,)
    negation = spell(polarity.en, links.polarity) if polarity in (NEVER, NO_LONGER) else ()
    nothing = spell(polarity.en, links.polarity) if polarity is NOTHING else ()
    rest = spell(verb.en_rest, links.act)
    return spell(auxiliary, *helper) + negation + adverb.en + spell(main, *own) + rest + nothing


def _negated(verb: Verb, tense: Tense, person: Person) -> tuple[str, str]:
    """Return "didn't", "cross" and the like."""
    auxiliary, main = verb.english(tense, person)
    if auxiliary:
        return {"will": "won't", "am": "am not"}.get(auxiliary, auxiliary + "n't"), main
    if tense in {"past", "imperfect"}:
        return "didn't", verb.en
    return "doesn't" if person == "it" else "don't", verb.en


def _french_group(
    verb: Verb,
    tense: Tense,
    person: Person,
    polarity: Polarity,
    adverb: Phrase,
    links: Links,
    clitic: Phrase,
    agreement: Agreement | None,
) -> tuple[Word, ...]:
    ne = spell("ne" if polarity.fr else "", links.polarity)
    pas = spell(polarity.fr, links.polarity)
    se = spell(REFLEXIVE[person] if verb.reflexive else "", links.act)
    finite = verb.french(tense, person)
    rest = spell(verb.fr_rest, links.act)
    if tense not in COMPOUND:
        both = spell(finite, links.act, links.time)
        return ne + clitic.fr + se + both + pas + adverb.fr + rest
    form = verb.fr.participle
    if agreement:
        form = french.agreed(form, agreement.gender, agreement.plural)
    auxiliary = spell(finite, links.time)
    return ne + clitic.fr + se + auxiliary + pas + adverb.fr + spell(form, links.act) + rest


def clause(
    subject: Nominal,
    verb: Verb,
    tense: Tense,
    obj: Nominal | None = None,
    polarity: Polarity = YES,
    adverb: Phrase = EMPTY,
) -> Phrase:
    """Return subject, verb and object."""
    group = verb_group(verb, tense, subject.agreement, polarity, adverb)
    return subject.phrase + group + (obj.phrase if obj else EMPTY)


def past(verb: Verb) -> Tense:
    """Return the tense that a simple English past has in French: "loved" is "aimait"."""
    return "imperfect" if verb.state else "past"


def being(
    subject: Nominal,
    adjective: Adjective,
    tense: Tense,
    polarity: Polarity = YES,
    degree: Phrase = EMPTY,
) -> Phrase:
    """Return "the fox is very tired" or, where French has it, "le renard a très faim"."""
    return subject.phrase + quality(adjective, subject.agreement, tense, polarity, degree)


def quality(
    adjective: Adjective,
    of: Agreement,
    tense: Tense,
    polarity: Polarity = YES,
    degree: Phrase = EMPTY,
) -> Phrase:
    """Return "is very tired"."""
    group = verb_group(FEEL if adjective.idiom else BE, tense, of, polarity)
    return group + degree + pair(adjective.en, adjective.agreed(of.gender, of.plural))


def infinitive(verb: Verb, en: str = "to", clitic: Nominal | None = None) -> Phrase:
    """Return "to cross", or "crossing" if `en` is "-ing", or "cross" if it is empty."""
    link = Link()
    main = english.gerund(verb.en) if en == "-ing" else f"{en if en == 'to' else ''} {verb.en}"
    se = "se" if verb.reflexive else ""
    object_ = clitic.phrase if clitic else EMPTY
    return Phrase(
        spell(f"{main} {verb.en_rest}", link) + object_.en,
        object_.fr + spell(f"{se} {verb.fr.infinitive} {verb.fr_rest}", link),
    )
