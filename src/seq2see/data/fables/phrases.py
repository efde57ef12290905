"""Bilingual phrases: aligned words, noun phrases and clauses, built in both languages at once.

Words that translate each other share an `AlignmentKey`; the gold alignment of a sentence is
computed from these keys, whatever the order of the words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from seq2see.data.fables.lexicon import (
    BE_AS_AVOIR,
    BE_VERB,
    DETERMINERS,
    Adjective,
    AgreementFeatures,
    Noun,
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
    starts = (True, *(word.text in SENTENCE_END_MARKS for word in sentence))
    return tuple(
        word._replace(text=word.text[0].upper() + word.text[1:]) if is_start else word
        for word, is_start in zip(sentence, starts, strict=False)
    )


def join_words(sentence: Words, spaced_marks: str = "") -> str:
    """Return the text of words; only the marks in `spaced_marks` are preceded by a space."""
    text = " ".join([word.text for word in sentence]).replace("' ", "'")
    for mark in ".,?!":
        text = text if mark in spaced_marks else text.replace(f" {mark}", mark)
    return text


def adjust_to_next_words(sentence: Words, adjust: Callable[[str, str], str]) -> Words:
    """Replace each word by `adjust(word, next word)`; the next word of the last one is empty."""
    following = (*(word.text for word in sentence[1:]), "")
    pairs = zip(sentence, following, strict=True)
    texts = ((word, adjust(word.text, next_text)) for word, next_text in pairs)
    return tuple(
        word if word.text == text else word._replace(text=text)  # a copy takes time
        for word, text in texts
    )


def adjust_english_article(word: str, following: str) -> str:
    """Return "an" for "a" before a vowel, and other words unchanged."""
    return "an" if word == "a" and following[:1] in set("aeio") else word


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


def use_prevocalic_form(word: str, following: str) -> str:
    """Return "cet", "mon" or "bel" before a vowel, in a singular noun phrase."""
    return PREVOCALIC_FORMS.get(word, word) if triggers_elision(following) else word


def elide(word: str, following: str) -> str:
    """Return the elided form of a French word: "l'" before "animal", "s'" before "il"."""
    if word == "si":
        return "s'" if following in {"il", "ils"} else word
    return f"{word[:-1]}'" if word in ELIDED_WORDS and triggers_elision(following) else word


def contract_and_elide(sentence: Words) -> Words:
    """Apply French contraction ("de le" to "du") and elision ("le animal" to "l'animal").

    A contraction has the keys of both words.
    """
    words: list[AlignedWord] = []
    for i, word in enumerate(sentence):
        contracted = CONTRACTIONS.get((words[-1].text, word.text)) if i else None
        elides = word.text == "le" and triggers_elision(sentence[i + 1].text)
        if contracted and not elides:
            words[-1] = AlignedWord(contracted, words[-1].keys + word.keys)
        else:
            words.append(word)
    return adjust_to_next_words(tuple(words), elide)


NO_DEGREE, VERY, TOO, SO = ("", ""), ("very", "très"), ("too", "trop"), ("so", "si")
DEFAULT_AGREEMENT = AgreementFeatures()
NO_NOUN = Noun("", "", "", "", "", "m", in_short=False)
"""The noun of pronouns and other phrases without a single noun."""


@dataclass(frozen=True, slots=True, eq=False)
class NounPhrase(BilingualPhrase):
    """A noun phrase or pronoun, used as subject or object."""

    agreement: AgreementFeatures = DEFAULT_AGREEMENT
    noun: Noun = NO_NOUN

    def clause(
        self, verb: Verb, tense: Tense, obj: BilingualPhrase = EMPTY_PHRASE, negation: Negation = ""
    ) -> BilingualPhrase:
        """Return a clause of this subject, a verb group and an object."""
        return self + verb_group(verb, tense, self.agreement, negation) + obj

    def predicate(
        self,
        adjective: Adjective,
        tense: Tense,
        negation: Negation = "",
        degree: tuple[str, str] = NO_DEGREE,
    ) -> BilingualPhrase:
        """Return "is very tired" (in French with "avoir" for some adjectives)."""
        verb = BE_AS_AVOIR if adjective.uses_avoir else BE_VERB
        group = verb_group(verb, tense, self.agreement, negation)
        return group + build_phrase(*degree) + build_adjective(adjective, self.agreement)

    def question(self, group: BilingualPhrase) -> BilingualPhrase:
        """Return a clause in which the English subject follows the first word of the verb group."""
        en = group.en[:1] + self.en + group.en[1:]
        return BilingualPhrase(en, self.fr + group.fr)


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
    agreement = AgreementFeatures(noun.gender, "they" if plural else "it")
    forms = DETERMINERS[determiner]
    fr_article = forms.inflect(agreement)
    if fr_article == "des" and any(each.precedes_noun for each in adjectives):
        fr_article = "de"
    article = build_phrase(forms.en_plural if plural else forms.en, fr_article)
    texts = (noun.en_plural, noun.fr_plural) if plural else (noun.en, noun.fr)
    head = build_phrase(*texts, role)
    back: Words = ()
    en, front = article.en, article.fr
    for adjective in adjectives:
        phrase = build_adjective(adjective, agreement)
        en += phrase.en
        if adjective.precedes_noun:
            front += phrase.fr
        else:
            back += phrase.fr
    front += head.fr
    if not plural:
        front = adjust_to_next_words(front, use_prevocalic_form)
    return NounPhrase(en + head.en, front + back, agreement, noun)


def build_adjective(adjective: Adjective, agreement: AgreementFeatures) -> BilingualPhrase:
    """Return an adjective that agrees with a noun in French."""
    return build_phrase(adjective.en, adjective.inflect(agreement))


def coordinate_noun_phrases(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Return "the fox and the goat"; it is feminine only if both are."""
    feminine = first.agreement.gender == second.agreement.gender == "f"
    phrase = first + build_phrase("and", "et") + second
    return NounPhrase(phrase.en, phrase.fr, AgreementFeatures("f" if feminine else "m", "they"))


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
        form = verb.fr.inflect_participle(agreement or DEFAULT_AGREEMENT)
        verbs = build_words(finite, tense_key), build_words(form, action)
    else:
        verbs = build_words(finite, action, tense_key), ()
    particle = build_words(verb.fr_particle, action)
    fr = ne + pronoun.fr + se + verbs[0] + pas + adverb.fr + verbs[1] + particle
    return BilingualPhrase(en + pronoun.en, fr)


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
    adverb, _, form = {
        "plus": adjective.comparative,
        "moins": f"less {adjective.en}",
        "aussi": f"as {adjective.en}",
    }[french_adverb].partition(" ")
    english = build_words(adverb, degree) + build_words(form, own)
    if not form:  # "wider" is one word
        english = build_words(adverb, degree, own)
    fr_adjective = build_words(adjective.inflect(agreement), own)
    french = build_words(french_adverb, degree) + fr_adjective + build_words("que", than)
    second = "as" if french_adverb == "aussi" else "than"
    return BilingualPhrase(english + build_words(second, than), french)
