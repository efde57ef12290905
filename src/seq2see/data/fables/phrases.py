"""Bilingual phrases: aligned words, noun phrases and clauses, built in both languages at once.

Words that translate each other share an `AlignmentKey`; the gold alignment of a sentence is read
off these keys, whatever the order of the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from seq2see.data.fables import morphology
from seq2see.data.fables.lexicon import Adjective, Determiner, Noun
from seq2see.data.fables.morphology import Gender, Person, Tense
from seq2see.data.fables.verbs import BE, FEEL, Verb

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


def adjust_english_articles(sentence: Sequence[Word]) -> tuple[Word, ...]:
    """Turn "a" into "an" before a vowel."""
    done = list(sentence)
    for i, word in enumerate(done):
        if word.text == "a" and done[i + 1].text[0] in "aeio":
            done[i] = word._replace(text="an")
    return tuple(done)


ASPIRATED = re.compile(r"(hibou|hérisson|héron|hamster|haut|hache|hutte|hangar|huit|onze)")


VOWEL = re.compile(r"[aeiouyhàâéèêëîïôûœ]", re.IGNORECASE)


ELISION = frozenset(
    ["le", "la", "je", "me", "te", "se", "ne", "de", "ce", "que", "lorsque", "puisque", "jusque"]
)


CONTRACTION = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("de", "des"): "de",
    ("de", "de"): "de",  # il rêve de pommes, de vieilles maisons
}


EUPHONY = {
    "ce": "cet",
    "ma": "mon",
    "ta": "ton",
    "sa": "son",
    "beau": "bel",
    "vieux": "vieil",
    "nouveau": "nouvel",
}


@cache
def opens(word: str) -> bool:
    """Say whether a word begins with a vowel or a silent h, so that the one before it elides."""
    return bool(VOWEL.match(word)) and not ASPIRATED.match(word.lower())


def euphonic(phrase: Sequence[Word]) -> tuple[Word, ...]:
    """Give "cet", "mon", "bel" before a vowel; for a singular noun with what stands before it."""
    following = [*phrase[1:], Word("")]
    return tuple(
        word._replace(text=EUPHONY.get(word.text, word.text)) if opens(after.text) else word
        for word, after in zip(phrase, following, strict=True)
    )


def finished(sentence: Sequence[Word]) -> tuple[Word, ...]:
    """Contract and elide."""
    done: list[Word] = []
    for word in reversed(_contracted(sentence)):
        after = done[-1].text if done else ""
        if word.text in ELISION and opens(after):
            word = word._replace(text=word.text[:-1] + "'")  # noqa: PLW2901
        elif word.text == "si" and after in {"il", "ils"}:
            word = word._replace(text="s'")  # noqa: PLW2901
        done.append(word)
    return tuple(reversed(done))


def _contracted(sentence: Sequence[Word]) -> list[Word]:
    """Join "de le" to "du"; a contraction has the links of both its words."""
    done: list[Word] = []
    for i, word in enumerate(sentence):
        joined = CONTRACTION.get((done[-1].text, word.text)) if i else None
        if joined and not (word.text == "le" and opens(sentence[i + 1].text)):
            done[-1] = Word(joined, done[-1].links + word.links)
        else:
            done.append(word)
    return done


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
    fr = (front if plural else euphonic(front)) + back
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
        form = morphology.agreed(form, agreement.gender, agreement.plural)
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
    main = morphology.gerund(verb.en) if en == "-ing" else f"{en if en == 'to' else ''} {verb.en}"
    se = "se" if verb.reflexive else ""
    object_ = clitic.phrase if clitic else EMPTY
    return Phrase(
        spell(f"{main} {verb.en_rest}", link) + object_.en,
        object_.fr + spell(f"{se} {verb.fr.infinitive} {verb.fr_rest}", link),
    )
