"""Bilingual phrases: aligned words, noun phrases and clauses, built in both languages at once.

Words that translate each other share an `AlignmentKey`; the gold alignment of a sentence is
computed from these keys, whatever the order of the words.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from seq2see.data.fables.lexicon import (
    BE_AS_AVOIR,
    BE_VERB,
    DETERMINERS,
    Adjective,
    Gender,
    Noun,
    Person,
    Tense,
    Verb,
)

PronounRole = Literal["", "subject", "object", "pronoun", "predicate"]
"""Role of a word in a sentence with an ambiguous "it"."""

SENTENCE_END_MARKS = frozenset(".?!")
ELIDED_PATTERN = r"(?:[ldnsjcmt]|(?:lors|puis|jus)?qu)'(?=\w)"
WORD_PATTERN = re.compile(rf"{ELIDED_PATTERN}|\w+(?:['-]\w+)*|[^\w\s]", re.IGNORECASE)


def split_words(text: str) -> list[str]:
    """Split text into words and punctuation marks, the units of the gold alignment.

    An elided French word is a word of its own ("l'", "animal"). An English contraction ("didn't")
    and a hyphenated word are one word.
    """
    return WORD_PATTERN.findall(text)


class AlignmentKey:
    """A key shared by words that translate each other; a key is equal only to itself."""

    __slots__ = ()


class AlignedWord(NamedTuple):
    """A word with its alignment keys."""

    text: str
    keys: tuple[AlignmentKey, ...] = ()
    role: PronounRole = ""


Words = tuple[AlignedWord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BilingualPhrase:
    """A phrase in both languages."""

    en: Words = ()
    fr: Words = ()

    def __add__(self, other: BilingualPhrase) -> BilingualPhrase:
        """Concatenate two phrases in both languages."""
        return BilingualPhrase(self.en + other.en, self.fr + other.fr)


EMPTY_PHRASE = BilingualPhrase()
_cached_split = cache(split_words)  # the lexicon is small, so that texts are repeated


def build_words(text: str, *keys: AlignmentKey, role: PronounRole = "") -> Words:
    """Return the words of a text, all with the given keys."""
    return tuple([AlignedWord(word, keys, role) for word in _cached_split(text)]) if text else ()


def build_phrase(en: str, fr: str, role: PronounRole = "") -> BilingualPhrase:
    """Return a phrase in which each English word is aligned with each French word."""
    key = AlignmentKey()
    return BilingualPhrase(build_words(en, key, role=role), build_words(fr, key, role=role))


def compute_alignment(en: Words, fr: Words) -> tuple[tuple[int, int], ...]:
    """Return the pairs (source index, target index) of the words that share a key."""
    indices: dict[AlignmentKey, list[int]] = {}
    for i, word in enumerate(en):
        for key in word.keys:
            indices.setdefault(key, []).append(i)
    links = {(i, j) for j, word in enumerate(fr) for key in word.keys for i in indices.get(key, ())}
    return tuple(sorted(links))


def capitalize_sentences(sentence: Words) -> Words:
    """Capitalize the first word of each sentence."""
    words = list(sentence)
    ends = [i for i, word in enumerate(sentence[:-1]) if word.text in SENTENCE_END_MARKS]
    for start in (0, *(end + 1 for end in ends)):
        text = words[start].text
        words[start] = words[start]._replace(text=text[0].upper() + text[1:])
    return tuple(words)


def join_words(sentence: Words, spaced_marks: str = "") -> str:
    """Return the text of words; only the marks in `spaced_marks` are preceded by a space."""
    text = " ".join([word.text for word in sentence]).replace("' ", "'")
    for mark in ".,?!":
        text = text if mark in spaced_marks else text.replace(f" {mark}", mark)
    return text


def adjust_english_articles(sentence: Words) -> Words:
    """Replace "a" by "an" before a vowel."""
    words = list(sentence)
    for i, word in enumerate(words):
        if word.text == "a" and words[i + 1].text[0] in "aeio":
            words[i] = word._replace(text="an")
    return tuple(words)


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
def triggers_elision(word: str) -> bool:
    """Return whether a word begins with a vowel or a silent h, so that the word before elides."""
    return bool(INITIAL_VOWEL.match(word)) and not ASPIRATED_H_WORDS.match(word.lower())


def use_prevocalic_forms(phrase: Words) -> Words:
    """Use "cet", "mon", "bel" before a vowel, in a singular noun phrase."""
    words = list(phrase)
    for i, following in enumerate(phrase[1:]):
        if words[i].text in PREVOCALIC_FORMS and triggers_elision(following.text):
            words[i] = words[i]._replace(text=PREVOCALIC_FORMS[words[i].text])
    return tuple(words)


def contract_and_elide(sentence: Words) -> Words:
    """Apply French contraction ("de le" to "du") and elision ("le animal" to "l'animal")."""
    words: list[AlignedWord] = []  # from the last to the first
    for word in reversed(_contract(sentence)):
        next_text = words[-1].text if words else ""
        if word.text in ELIDED_WORDS and triggers_elision(next_text):
            word = word._replace(text=word.text[:-1] + "'")  # noqa: PLW2901
        elif word.text == "si" and next_text in {"il", "ils"}:
            word = word._replace(text="s'")  # noqa: PLW2901
        words.append(word)
    return tuple(reversed(words))


def _contract(sentence: Words) -> list[AlignedWord]:
    """Replace "de le" by "du"; a contraction has the keys of both words."""
    words: list[AlignedWord] = []
    for i, word in enumerate(sentence):
        contracted = CONTRACTIONS.get((words[-1].text, word.text)) if i else None
        elides = word.text == "le" and triggers_elision(sentence[i + 1].text)
        if contracted and not elides:
            words[-1] = AlignedWord(contracted, words[-1].keys + word.keys)
        else:
            words.append(word)
    return words


@dataclass(frozen=True, slots=True)
class AgreementFeatures:
    """Features of a noun phrase that other words agree with."""

    gender: Gender
    plural: bool = False
    person: Person = "it"


NO_NOUN = Noun("", "", "", "", "", "m", in_short=False)
"""The noun of pronouns and other phrases without a single noun."""


@dataclass(frozen=True, slots=True, eq=False)
class NounPhrase(BilingualPhrase):
    """A noun phrase or pronoun, used as subject or object."""

    agreement: AgreementFeatures = AgreementFeatures("m")
    noun: Noun = NO_NOUN


NO_SUBJECT = NounPhrase()
"""The subject of a question with "who", which is not expressed."""


def build_noun_phrase(
    determiner: str,
    noun: Noun,
    adjectives: tuple[Adjective, ...] = (),
    plural: bool = False,
    role: PronounRole = "",
) -> NounPhrase:
    """Return determiner, adjectives and noun; in French, adjectives precede or follow the noun.

    The French "des" becomes "de" before an adjective.
    """
    agreement = AgreementFeatures(noun.gender, plural, "they" if plural else "it")
    described = [(each.precedes_noun, build_adjective(each, agreement)) for each in adjectives]
    head = build_phrase(
        noun.en_plural if plural else noun.en, noun.fr_plural if plural else noun.fr, role
    )
    forms = DETERMINERS[determiner]
    fr_article = forms.inflect(noun.gender, plural)
    if fr_article == "des" and any(precedes for precedes, _ in described):
        fr_article = "de"
    article = build_phrase(forms.en_plural if plural else forms.en, fr_article)
    en = article.en + sum((each.en for _, each in described), ()) + head.en
    front = article.fr + sum((each.fr for precedes, each in described if precedes), ()) + head.fr
    back = sum((each.fr for precedes, each in described if not precedes), ())
    fr = (front if plural else use_prevocalic_forms(front)) + back
    return NounPhrase(en, fr, agreement, noun)


def build_adjective(adjective: Adjective, agreement: AgreementFeatures) -> BilingualPhrase:
    """Return an adjective that agrees with a noun in French."""
    return build_phrase(adjective.en, adjective.inflect(agreement.gender, agreement.plural))


def coordinate_noun_phrases(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Return "the fox and the goat"; it is feminine only if both are."""
    feminine = first.agreement.gender == second.agreement.gender == "f"
    phrase = first + build_phrase("and", "et") + second
    agreement = AgreementFeatures("f" if feminine else "m", True, "they")
    return NounPhrase(phrase.en, phrase.fr, agreement)


SUBJECT_PRONOUNS = {"I": "je", "we": "nous", "you": "vous"}


def build_subject_pronoun(agreement: AgreementFeatures) -> NounPhrase:
    """Return a pronoun of the agreement's person: "I", "we", "you" (plural or polite) or "it"."""
    it = "il" if agreement.gender == "m" else "elle"
    fr = SUBJECT_PRONOUNS.get(agreement.person, it)
    phrase = build_phrase(agreement.person, fr, role="pronoun")
    return NounPhrase(phrase.en, phrase.fr, agreement)


def build_object_pronoun(agreement: AgreementFeatures) -> NounPhrase:
    """Return the object pronoun "it" or "them"."""
    fr = "les" if agreement.plural else "le" if agreement.gender == "m" else "la"
    phrase = build_phrase("them" if agreement.plural else "it", fr, role="pronoun")
    return NounPhrase(phrase.en, phrase.fr, agreement)


REFLEXIVE_PRONOUNS = {"I": "me", "we": "nous", "you": "vous", "it": "se", "they": "se"}
Negation = Literal["", "not", "never", "no longer", "nothing"]
FRENCH_NEGATIONS = {"not": "pas", "never": "jamais", "no longer": "plus", "nothing": "rien"}


def verb_group(
    verb: Verb,
    tense: Tense,
    subject: AgreementFeatures,
    negation: Negation = "",
    adverb: BilingualPhrase = EMPTY_PHRASE,
    clitic: NounPhrase | None = None,
    participle: AgreementFeatures | None = None,
    needs_auxiliary: bool = False,
) -> BilingualPhrase:
    """Return the verb with auxiliaries, negation, adverb and object clitic.

    The French participle agrees with the subject after être, otherwise with the clitic or with
    `participle`, the antecedent of a relative "que". English questions need an auxiliary.
    """
    action, tense_key, negation_key = AlignmentKey(), AlignmentKey(), AlignmentKey()
    is_not = negation == "not"
    auxiliary, main = verb.english_form(tense, subject.person)
    if not auxiliary and (needs_auxiliary or is_not):
        do = "does" if subject.person == "it" else "do"
        auxiliary, main = "did" if tense in {"past", "imperfect"} else do, verb.en
    auxiliary_keys: tuple[AlignmentKey, ...] = (tense_key,)
    if is_not:
        has_no_tense = auxiliary in {"does", "do"}
        auxiliary_keys = (negation_key,) if has_no_tense else (negation_key, tense_key)
        auxiliary = {"will": "won't", "am": "am not"}.get(auxiliary, f"{auxiliary}n't")
    main_keys = (action,) if auxiliary and main else (action, tense_key)
    if not main:
        auxiliary_keys += (action,)
    never = build_words(negation if negation in {"never", "no longer"} else "", negation_key)
    nothing = build_words(negation if negation == "nothing" else "", negation_key)
    en = build_words(auxiliary, *auxiliary_keys) + never + adverb.en
    en += build_words(main, *main_keys) + build_words(verb.en_particle, action) + nothing
    pronoun = clitic or EMPTY_PHRASE
    ne = build_words("ne" if negation else "", negation_key)
    se = build_words(REFLEXIVE_PRONOUNS[subject.person] if verb.is_reflexive else "", action)
    finite = verb.french_form(tense, subject.person)
    pas = build_words(FRENCH_NEGATIONS.get(negation, ""), negation_key)
    if tense in {"past", "perfect"}:
        agreement = subject if verb.uses_etre else clitic.agreement if clitic else participle
        agreement = agreement or AgreementFeatures("m")
        form = verb.fr.inflect_participle(agreement.gender, agreement.plural)
        verbs = build_words(finite, tense_key), build_words(form, action)
    else:
        verbs = build_words(finite, action, tense_key), ()
    particle = build_words(verb.fr_particle, action)
    fr = ne + pronoun.fr + se + verbs[0] + pas + adverb.fr + verbs[1] + particle
    return BilingualPhrase(en + pronoun.en, fr)


def clause(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    obj: BilingualPhrase = EMPTY_PHRASE,
    negation: Negation = "",
    adverb: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return a clause of subject, verb group and object."""
    return subject + verb_group(verb, tense, subject.agreement, negation, adverb) + obj


def build_predicate(
    adjective: Adjective,
    agreement: AgreementFeatures,
    tense: Tense,
    negation: Negation = "",
    degree: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return "is very tired" (in French with "avoir" for some adjectives)."""
    verb = BE_AS_AVOIR if adjective.uses_avoir else BE_VERB
    group = verb_group(verb, tense, agreement, negation)
    return group + degree + build_adjective(adjective, agreement)


def infinitive_phrase(
    verb: Verb, form: str = "to", clitic: BilingualPhrase = EMPTY_PHRASE
) -> BilingualPhrase:
    """Return an infinitive; `form` is "to" for "to cross", "-ing" or "" for "cross"."""
    key = AlignmentKey()
    en = verb.en_ing if form == "-ing" else f"{form} {verb.en}"
    se = "se" if verb.is_reflexive else ""
    fr = build_words(f"{se} {verb.fr.infinitive} {verb.fr_particle}", key)
    return BilingualPhrase(build_words(f"{en} {verb.en_particle}", key) + clitic.en, clitic.fr + fr)


MODALS = {
    "can": ("peut", "peuvent"),
    "can't": ("ne peut pas", "ne peuvent pas"),
    "couldn't": ("ne a pas pu", "ne ont pas pu"),
}


def build_modal(en: str, plural: bool = False) -> BilingualPhrase:
    """Return "can", "can't" or "couldn't", the latter in French in the passé composé."""
    return build_phrase(en, MODALS[en][plural])


def build_comparative_with_than(
    french_adverb: str, adjective: Adjective, agreement: AgreementFeatures
) -> BilingualPhrase:
    """Return "wider than" (plus), "less wide than" (moins) or "as wide as" (aussi)."""
    degree, own, than = AlignmentKey(), AlignmentKey(), AlignmentKey()
    if french_adverb == "plus":
        adverb, _, form = adjective.comparative.partition(" ")
    else:
        adverb, form = "less" if french_adverb == "moins" else "as", adjective.en
    if form:
        english = build_words(adverb, degree) + build_words(form, own)
    else:  # "wider" is one word
        english = build_words(adverb, degree, own)
    fr_adjective = build_words(adjective.inflect(agreement.gender, agreement.plural), own)
    french = build_words(french_adverb, degree) + fr_adjective + build_words("que", than)
    second = "as" if french_adverb == "aussi" else "than"
    return BilingualPhrase(english + build_words(second, than), french)
