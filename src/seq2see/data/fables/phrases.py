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
from seq2see.data.fables.verbs import BE_AS_AVOIR, BE_VERB, Verb

PronounRole = Literal["", "doer", "thing", "it", "predicate"]


SENTENCE_END_MARKS = frozenset(".?!")


ELIDED_PATTERN = r"(?:[ldnsjcmt]|(?:lors|puis|jus)?qu)'(?=\w)"


WORD_PATTERN = re.compile(rf"{ELIDED_PATTERN}|\w+(?:['-]\w+)*|[^\w\s]", re.IGNORECASE)


def split_words(text: str) -> list[str]:
    """Split into words and punctuation marks, which are the units of the gold alignment.

    An elided French word stands alone ("l'", "animal"); an English contraction is one word
    ("didn't"), and so is what a hyphen joins.
    """
    return WORD_PATTERN.findall(text)


class AlignmentKey:
    """What words share that translate each other; every link is equal to itself alone."""

    __slots__ = ()


class AlignedWord(NamedTuple):
    """A word of a sentence."""

    text: str
    keys: tuple[AlignmentKey, ...] = ()
    role: PronounRole = ""
    """The part it plays in a pronoun case."""


@dataclass(frozen=True, slots=True, eq=False)
class BilingualPhrase:
    """The same thing in both languages."""

    en: tuple[AlignedWord, ...] = ()
    fr: tuple[AlignedWord, ...] = ()

    def __add__(self, other: BilingualPhrase) -> BilingualPhrase:
        """Put the other behind, in both languages."""
        return BilingualPhrase(self.en + other.en, self.fr + other.fr)


EMPTY_PHRASE = BilingualPhrase()


_split = cache(split_words)  # the lexicon is small, and its words come again and again


def make_aligned_words(
    text: str, *links: AlignmentKey, role: PronounRole = ""
) -> tuple[AlignedWord, ...]:
    """Return the words of a text, all with these links."""
    return tuple([AlignedWord(word, links, role) for word in _split(text)]) if text else ()


def make_aligned_pair(en: str, fr: str, role: PronounRole = "") -> BilingualPhrase:
    """Return two texts of which every word translates every word."""
    link = AlignmentKey()
    return BilingualPhrase(
        make_aligned_words(en, link, role=role), make_aligned_words(fr, link, role=role)
    )


def compute_alignment(
    en: Iterable[AlignedWord], fr: Iterable[AlignedWord]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (source index, target index) of the words that share a link."""
    places: dict[AlignmentKey, list[int]] = {}
    for i, word in enumerate(en):
        for link in word.keys:
            places.setdefault(link, []).append(i)
    found = {
        (i, j) for j, word in enumerate(fr) for link in word.keys for i in places.get(link, ())
    }
    return tuple(sorted(found))


def capitalize_sentences(sentence: tuple[AlignedWord, ...]) -> tuple[AlignedWord, ...]:
    """Begin each sentence with a capital letter."""
    done = list(sentence)
    ends = [i for i, word in enumerate(sentence[:-1]) if word.text in SENTENCE_END_MARKS]
    for start in (0, *(end + 1 for end in ends)):
        text = done[start].text
        done[start] = done[start]._replace(text=text[0].upper() + text[1:])
    return tuple(done)


def render_text(sentence: Iterable[AlignedWord], spaced_marks: str = "") -> str:
    """Return the text; only the marks in `spaced` have a space before them."""
    text = " ".join([word.text for word in sentence]).replace("' ", "'")
    for mark in ".,?!":
        text = text if mark in spaced_marks else text.replace(f" {mark}", mark)
    return text


def adjust_english_articles(sentence: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Turn "a" into "an" before a vowel."""
    done = list(sentence)
    for i, word in enumerate(done):
        if word.text == "a" and done[i + 1].text[0] in "aeio":
            done[i] = word._replace(text="an")
    return tuple(done)


ASPIRATED_H_WORDS = re.compile(r"(hibou|hérisson|héron|hamster|haut|hache|hutte|hangar|huit|onze)")


INITIAL_VOWEL = re.compile(r"[aeiouyhàâéèêëîïôûœ]", re.IGNORECASE)


ELIDED_WORDS = frozenset(
    ["le", "la", "je", "me", "te", "se", "ne", "de", "ce", "que", "lorsque", "puisque", "jusque"]
)


CONTRACTIONS = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("de", "des"): "de",
    ("de", "de"): "de",  # il rêve de pommes, de vieilles maisons
}


PREVOCALIC_FORMS = {
    "ce": "cet",
    "ma": "mon",
    "ta": "ton",
    "sa": "son",
    "beau": "bel",
    "vieux": "vieil",
    "nouveau": "nouvel",
}


@cache
def begins_with_vowel_sound(word: str) -> bool:
    """Say whether a word begins with a vowel or a silent h, so that the one before it elides."""
    return bool(INITIAL_VOWEL.match(word)) and not ASPIRATED_H_WORDS.match(word.lower())


def use_prevocalic_forms(phrase: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Give "cet", "mon", "bel" before a vowel; for a singular noun with what stands before it."""
    following = [*phrase[1:], AlignedWord("")]
    return tuple(
        word._replace(text=PREVOCALIC_FORMS.get(word.text, word.text))
        if begins_with_vowel_sound(after.text)
        else word
        for word, after in zip(phrase, following, strict=True)
    )


def contract_and_elide(sentence: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Contract and elide."""
    done: list[AlignedWord] = []
    for word in reversed(_contracted(sentence)):
        after = done[-1].text if done else ""
        if word.text in ELIDED_WORDS and begins_with_vowel_sound(after):
            word = word._replace(text=word.text[:-1] + "'")  # noqa: PLW2901
        elif word.text == "si" and after in {"il", "ils"}:
            word = word._replace(text="s'")  # noqa: PLW2901
        done.append(word)
    return tuple(reversed(done))


def _contracted(sentence: Sequence[AlignedWord]) -> list[AlignedWord]:
    """Join "de le" to "du"; a contraction has the links of both its words."""
    done: list[AlignedWord] = []
    for i, word in enumerate(sentence):
        joined = CONTRACTIONS.get((done[-1].text, word.text)) if i else None
        if joined and not (word.text == "le" and begins_with_vowel_sound(sentence[i + 1].text)):
            done[-1] = AlignedWord(joined, done[-1].keys + word.keys)
        else:
            done.append(word)
    return done


@dataclass(frozen=True, slots=True)
class AgreementFeatures:
    """What other words agree with."""

    gender: Gender
    plural: bool = False
    person: Person = "it"


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase or a pronoun, as a subject or an object."""

    phrase: BilingualPhrase
    agreement: AgreementFeatures
    noun: Noun | None = None

    def __add__(self, more: BilingualPhrase) -> NounPhrase:
        """Add a relative clause or the like."""
        return NounPhrase(self.phrase + more, self.agreement, self.noun)


def build_noun_phrase(
    determiner: Determiner,
    noun: Noun,
    adjectives: tuple[Adjective, ...] = (),
    plural: bool = False,
    role: PronounRole = "",
) -> NounPhrase:
    """Return determiner, adjectives and noun; French sorts the adjectives around the noun."""
    described = [(each, _quality(each, noun, plural)) for each in adjectives]
    head = _head(noun, plural, role)
    article = _article(determiner, noun, plural, any(each.precedes_noun for each in adjectives))
    front = article.fr + sum((p.fr for a, p in described if a.precedes_noun), ()) + head.fr
    back = sum((p.fr for a, p in described if not a.precedes_noun), ())
    en = article.en + sum((p.en for _, p in described), ()) + head.en
    fr = (front if plural else use_prevocalic_forms(front)) + back
    return NounPhrase(
        BilingualPhrase(en, fr),
        AgreementFeatures(noun.gender, plural, "they" if plural else "it"),
        noun,
    )


def _head(noun: Noun, plural: bool, mark: PronounRole) -> BilingualPhrase:
    if plural:
        return make_aligned_pair(noun.en_plural, noun.fr_plural, mark)
    return make_aligned_pair(noun.en, noun.fr, mark)


def _quality(adjective: Adjective, noun: Noun, plural: bool) -> BilingualPhrase:
    return make_aligned_pair(adjective.en, adjective.inflect(noun.gender, plural))


def _article(determiner: Determiner, noun: Noun, plural: bool, adjective: bool) -> BilingualPhrase:
    """Return the determiner; "des" is "de" before an adjective."""
    fr = determiner.french_form(noun.gender, plural)
    if fr == "des" and adjective:
        fr = "de"
    return make_aligned_pair(determiner.plural if plural else determiner.singular, fr)


def coordinate(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Return "the fox and the goat"; one masculine makes both masculine."""
    feminine = first.agreement.gender == second.agreement.gender == "f"
    phrase = first.phrase + make_aligned_pair("and", "et") + second.phrase
    return NounPhrase(phrase, AgreementFeatures("f" if feminine else "m", True, "they"))


def personal_pronoun(person: Person) -> NounPhrase:
    """Return "I", "we" or "you" (several, or one politely)."""
    french_word = {"I": "je", "we": "nous", "you": "vous"}[person]
    return NounPhrase(
        make_aligned_pair(person, french_word), AgreementFeatures("m", person != "I", person)
    )


def subject_pronoun(agreement: AgreementFeatures) -> NounPhrase:
    """Return the subject pronoun "it" or "they" for a thing or an animal."""
    fr = ("il" if agreement.gender == "m" else "elle") + ("s" if agreement.plural else "")
    return NounPhrase(
        make_aligned_pair("they" if agreement.plural else "it", fr, role="it"), agreement
    )


def object_clitic(agreement: AgreementFeatures) -> NounPhrase:
    """Return the object pronoun "it" or "them"."""
    fr = "les" if agreement.plural else "le" if agreement.gender == "m" else "la"
    return NounPhrase(
        make_aligned_pair("them" if agreement.plural else "it", fr, role="it"), agreement
    )


NO_SUBJECT = NounPhrase(EMPTY_PHRASE, AgreementFeatures("m"))
"""The subject of an imperative or of a question with "who"."""


COMPOUND_TENSES = ("past", "perfect")


REFLEXIVE_PRONOUNS: dict[Person, str] = {
    "I": "me",
    "we": "nous",
    "you": "vous",
    "it": "se",
    "they": "se",
}


@dataclass(frozen=True, slots=True)
class Negation:
    """A negation: where English has one word, French has "ne" and this one."""

    en: str
    fr: str


AFFIRMATIVE = Negation("", "")


NOT = Negation("n't", "pas")


NEVER = Negation("never", "jamais")


NO_LONGER = Negation("no longer", "plus")


NOTHING = Negation("nothing", "rien")


@dataclass(frozen=True, slots=True)
class VerbAlignmentKeys:
    """What the words of a verb group translate: the action, its time, its negation."""

    action: AlignmentKey
    tense: AlignmentKey
    negation: AlignmentKey

    @classmethod
    def create(cls) -> VerbAlignmentKeys:
        """Return new links."""
        return cls(AlignmentKey(), AlignmentKey(), AlignmentKey())


def verb_group(
    verb: Verb,
    tense: Tense,
    subject: AgreementFeatures,
    negation: Negation = AFFIRMATIVE,
    adverb: BilingualPhrase = EMPTY_PHRASE,
    clitic: NounPhrase | None = None,
    participle: AgreementFeatures | None = None,
) -> BilingualPhrase:
    """Return the verb with all that French puts around it.

    The participle agrees with the subject after être, and otherwise with a pronoun before it or
    with `participle`, the antecedent of a relative "que".
    """
    links = VerbAlignmentKeys.create()
    before = clitic.phrase if clitic else EMPTY_PHRASE
    agreement = clitic.agreement if clitic else participle
    if verb.uses_etre:
        agreement = subject
    en = _english_group(verb, tense, subject.person, negation, adverb, links)
    fr = _french_group(verb, tense, subject.person, negation, adverb, links, before, agreement)
    return BilingualPhrase(en + before.en, fr)


def _english_group(
    verb: Verb,
    tense: Tense,
    person: Person,
    polarity: Negation,
    adverb: BilingualPhrase,
    links: VerbAlignmentKeys,
) -> tuple[AlignedWord, ...]:
    forms = _negated if polarity is NOT else Verb.english_form
    auxiliary, main = forms(verb, tense, person)
    helper: tuple[AlignmentKey, ...] = (links.negation,) if polarity is NOT else ()
    helper += () if auxiliary in {"doesn't", "don't"} else (links.tense,)
    own = (links.action,) if auxiliary and main else (links.action, links.tense)
    if not main:
        helper += (links.action,)
    negation = (
        make_aligned_words(polarity.en, links.negation) if polarity in (NEVER, NO_LONGER) else ()
    )
    nothing = make_aligned_words(polarity.en, links.negation) if polarity is NOTHING else ()
    rest = make_aligned_words(verb.en_particle, links.action)
    return (
        make_aligned_words(auxiliary, *helper)
        + negation
        + adverb.en
        + make_aligned_words(main, *own)
        + rest
        + nothing
    )


def _negated(verb: Verb, tense: Tense, person: Person) -> tuple[str, str]:
    """Return "didn't", "cross" and the like."""
    auxiliary, main = verb.english_form(tense, person)
    if auxiliary:
        return {"will": "won't", "am": "am not"}.get(auxiliary, auxiliary + "n't"), main
    if tense in {"past", "imperfect"}:
        return "didn't", verb.en
    return "doesn't" if person == "it" else "don't", verb.en


def _french_group(
    verb: Verb,
    tense: Tense,
    person: Person,
    polarity: Negation,
    adverb: BilingualPhrase,
    links: VerbAlignmentKeys,
    clitic: BilingualPhrase,
    agreement: AgreementFeatures | None,
) -> tuple[AlignedWord, ...]:
    ne = make_aligned_words("ne" if polarity.fr else "", links.negation)
    pas = make_aligned_words(polarity.fr, links.negation)
    se = make_aligned_words(REFLEXIVE_PRONOUNS[person] if verb.is_reflexive else "", links.action)
    finite = verb.french_form(tense, person)
    rest = make_aligned_words(verb.fr_particle, links.action)
    if tense not in COMPOUND_TENSES:
        both = make_aligned_words(finite, links.action, links.tense)
        return ne + clitic.fr + se + both + pas + adverb.fr + rest
    form = verb.fr.participle
    if agreement:
        form = morphology.inflect_participle(form, agreement.gender, agreement.plural)
    auxiliary = make_aligned_words(finite, links.tense)
    return (
        ne
        + clitic.fr
        + se
        + auxiliary
        + pas
        + adverb.fr
        + make_aligned_words(form, links.action)
        + rest
    )


def clause(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    obj: NounPhrase | None = None,
    negation: Negation = AFFIRMATIVE,
    adverb: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return subject, verb and object."""
    group = verb_group(verb, tense, subject.agreement, negation, adverb)
    return subject.phrase + group + (obj.phrase if obj else EMPTY_PHRASE)


def choose_past_tense(verb: Verb) -> Tense:
    """Return the tense that a simple English past has in French: "loved" is "aimait"."""
    return "imperfect" if verb.is_stative else "past"


def copula_clause(
    subject: NounPhrase,
    adjective: Adjective,
    tense: Tense,
    negation: Negation = AFFIRMATIVE,
    degree: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return "the fox is very tired" or, where French has it, "le renard a très faim"."""
    return subject.phrase + copula_phrase(adjective, subject.agreement, tense, negation, degree)


def copula_phrase(
    adjective: Adjective,
    agreement: AgreementFeatures,
    tense: Tense,
    negation: Negation = AFFIRMATIVE,
    degree: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return "is very tired"."""
    group = verb_group(BE_AS_AVOIR if adjective.uses_avoir else BE_VERB, tense, agreement, negation)
    return (
        group
        + degree
        + make_aligned_pair(adjective.en, adjective.inflect(agreement.gender, agreement.plural))
    )


def infinitive_phrase(
    verb: Verb, english_form: str = "to", clitic: NounPhrase | None = None
) -> BilingualPhrase:
    """Return "to cross", or "crossing" if `en` is "-ing", or "cross" if it is empty."""
    link = AlignmentKey()
    main = (
        morphology.ing_form(verb.en)
        if english_form == "-ing"
        else f"{english_form if english_form == 'to' else ''} {verb.en}"
    )
    se = "se" if verb.is_reflexive else ""
    object_ = clitic.phrase if clitic else EMPTY_PHRASE
    return BilingualPhrase(
        make_aligned_words(f"{main} {verb.en_particle}", link) + object_.en,
        object_.fr + make_aligned_words(f"{se} {verb.fr.infinitive} {verb.fr_particle}", link),
    )
