"""Bilingual phrases: aligned words, noun phrases and clauses, built in both languages at once.

Words that translate each other share an `AlignmentKey`; the gold alignment of a sentence is
computed from these keys, whatever the order of the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple

from seq2see.data.fables import morphology
from seq2see.data.fables.morphology import Gender, Person, Tense
from seq2see.data.fables.nouns_adjectives_and_determiners import Adjective, Determiner, Noun
from seq2see.data.fables.verbs import BE_AS_AVOIR, BE_VERB, Verb

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


@dataclass(frozen=True, slots=True, eq=False)
class BilingualPhrase:
    """A phrase in both languages."""

    en: tuple[AlignedWord, ...] = ()
    fr: tuple[AlignedWord, ...] = ()

    def __add__(self, other: BilingualPhrase) -> BilingualPhrase:
        """Concatenate two phrases in both languages."""
        return BilingualPhrase(self.en + other.en, self.fr + other.fr)


EMPTY_PHRASE = BilingualPhrase()
_cached_split = cache(split_words)  # the lexicon is small, so that texts are repeated


def attach_alignment_keys(
    text: str, *keys: AlignmentKey, role: PronounRole = ""
) -> tuple[AlignedWord, ...]:
    """Return the words of a text, all with the given keys."""
    return tuple([AlignedWord(word, keys, role) for word in _cached_split(text)]) if text else ()


def build_phrase(en: str, fr: str, role: PronounRole = "") -> BilingualPhrase:
    """Return a phrase in which each English word is aligned with each French word."""
    key = AlignmentKey()
    return BilingualPhrase(
        attach_alignment_keys(en, key, role=role), attach_alignment_keys(fr, key, role=role)
    )


def compute_alignment(
    en: Iterable[AlignedWord], fr: Iterable[AlignedWord]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs (source index, target index) of the words that share a key."""
    indices: dict[AlignmentKey, list[int]] = {}
    for i, word in enumerate(en):
        for key in word.keys:
            indices.setdefault(key, []).append(i)
    links = {(i, j) for j, word in enumerate(fr) for key in word.keys for i in indices.get(key, ())}
    return tuple(sorted(links))


def capitalize_sentences(sentence: tuple[AlignedWord, ...]) -> tuple[AlignedWord, ...]:
    """Capitalize the first word of each sentence."""
    words = list(sentence)
    ends = [i for i, word in enumerate(sentence[:-1]) if word.text in SENTENCE_END_MARKS]
    for start in (0, *(end + 1 for end in ends)):
        text = words[start].text
        words[start] = words[start]._replace(text=text[0].upper() + text[1:])
    return tuple(words)


def join_words(sentence: Iterable[AlignedWord], spaced_marks: str = "") -> str:
    """Return the text of words; only the marks in `spaced_marks` are preceded by a space."""
    text = " ".join([word.text for word in sentence]).replace("' ", "'")
    for mark in ".,?!":
        text = text if mark in spaced_marks else text.replace(f" {mark}", mark)
    return text


def adjust_english_articles(sentence: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
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


def use_prevocalic_forms(phrase: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
    """Use "cet", "mon", "bel" before a vowel, in a singular noun phrase."""
    following = [*phrase[1:], AlignedWord("")]
    return tuple(
        word._replace(text=PREVOCALIC_FORMS.get(word.text, word.text))
        if triggers_elision(next_word.text)
        else word
        for word, next_word in zip(phrase, following, strict=True)
    )


def contract_and_elide(sentence: Sequence[AlignedWord]) -> tuple[AlignedWord, ...]:
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


def _contract(sentence: Sequence[AlignedWord]) -> list[AlignedWord]:
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


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A noun phrase or pronoun, used as subject or object."""

    phrase: BilingualPhrase
    agreement: AgreementFeatures
    noun: Noun | None = None

    def __add__(self, more: BilingualPhrase) -> NounPhrase:
        """Append a phrase, for example a relative clause."""
        return NounPhrase(self.phrase + more, self.agreement, self.noun)


def build_noun_phrase(
    determiner: Determiner,
    noun: Noun,
    adjectives: tuple[Adjective, ...] = (),
    plural: bool = False,
    role: PronounRole = "",
) -> NounPhrase:
    """Return determiner, adjectives and noun; in French, adjectives precede or follow the noun."""
    phrases = [(each, _adjective_phrase(each, noun, plural)) for each in adjectives]
    head = _head(noun, plural, role)
    article = _article(determiner, noun, plural, any(each.precedes_noun for each in adjectives))
    front = article.fr + sum((p.fr for a, p in phrases if a.precedes_noun), ()) + head.fr
    back = sum((p.fr for a, p in phrases if not a.precedes_noun), ())
    en = article.en + sum((p.en for _, p in phrases), ()) + head.en
    fr = (front if plural else use_prevocalic_forms(front)) + back
    return NounPhrase(
        BilingualPhrase(en, fr),
        AgreementFeatures(noun.gender, plural, "they" if plural else "it"),
        noun,
    )


def _head(noun: Noun, plural: bool, role: PronounRole) -> BilingualPhrase:
    if plural:
        return build_phrase(noun.en_plural, noun.fr_plural, role)
    return build_phrase(noun.en, noun.fr, role)


def _adjective_phrase(adjective: Adjective, noun: Noun, plural: bool) -> BilingualPhrase:
    return build_phrase(adjective.en, adjective.inflect(noun.gender, plural))


def _article(
    determiner: Determiner, noun: Noun, plural: bool, precedes_adjective: bool
) -> BilingualPhrase:
    """Return the determiner; "des" becomes "de" before an adjective."""
    fr = determiner.french_form(noun.gender, plural)
    if fr == "des" and precedes_adjective:
        fr = "de"
    return build_phrase(determiner.plural if plural else determiner.singular, fr)


def coordinate_noun_phrases(first: NounPhrase, second: NounPhrase) -> NounPhrase:
    """Return "the fox and the goat"; it is feminine only if both are."""
    feminine = first.agreement.gender == second.agreement.gender == "f"
    phrase = first.phrase + build_phrase("and", "et") + second.phrase
    return NounPhrase(phrase, AgreementFeatures("f" if feminine else "m", True, "they"))


def build_first_or_second_person_pronoun(person: Person) -> NounPhrase:
    """Return "I", "we" or "you" (plural or polite)."""
    fr = {"I": "je", "we": "nous", "you": "vous"}[person]
    return NounPhrase(build_phrase(person, fr), AgreementFeatures("m", person != "I", person))


def build_it_or_they_subject(agreement: AgreementFeatures) -> NounPhrase:
    """Return the subject pronoun "it" or "they" for a thing or an animal."""
    fr = ("il" if agreement.gender == "m" else "elle") + ("s" if agreement.plural else "")
    phrase = build_phrase("they" if agreement.plural else "it", fr, role="pronoun")
    return NounPhrase(phrase, agreement)


def build_it_or_them_object(agreement: AgreementFeatures) -> NounPhrase:
    """Return the object pronoun "it" or "them"."""
    fr = "les" if agreement.plural else "le" if agreement.gender == "m" else "la"
    phrase = build_phrase("them" if agreement.plural else "it", fr, role="pronoun")
    return NounPhrase(phrase, agreement)


NO_SUBJECT = NounPhrase(EMPTY_PHRASE, AgreementFeatures("m"))
"""The subject of a question with "who", which is not expressed."""

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
    """An English negation, and the French word that accompanies "ne"."""

    en: str
    fr: str


AFFIRMATIVE = Negation("", "")
NOT = Negation("n't", "pas")
NEVER = Negation("never", "jamais")
NO_LONGER = Negation("no longer", "plus")
NOTHING = Negation("nothing", "rien")


@dataclass(frozen=True, slots=True)
class VerbAlignmentKeys:
    """Alignment keys of a verb group: the action, its tense and its negation."""

    action: AlignmentKey
    tense: AlignmentKey
    negation: AlignmentKey

    @classmethod
    def create(cls) -> VerbAlignmentKeys:
        """Return new keys."""
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
    """Return the verb with auxiliaries, negation, adverb and object clitic.

    The French participle agrees with the subject after être, otherwise with the clitic or with
    `participle`, the antecedent of a relative "que".
    """
    keys = VerbAlignmentKeys.create()
    pronoun = clitic.phrase if clitic else EMPTY_PHRASE
    agreement = clitic.agreement if clitic else participle
    if verb.uses_etre:
        agreement = subject
    en = _english_group(verb, tense, subject.person, negation, adverb, keys)
    fr = _french_group(verb, tense, subject.person, negation, adverb, keys, pronoun, agreement)
    return BilingualPhrase(en + pronoun.en, fr)


def _english_group(
    verb: Verb,
    tense: Tense,
    person: Person,
    negation: Negation,
    adverb: BilingualPhrase,
    keys: VerbAlignmentKeys,
) -> tuple[AlignedWord, ...]:
    forms = _negated_form if negation is NOT else Verb.english_form
    auxiliary, main = forms(verb, tense, person)
    auxiliary_keys: tuple[AlignmentKey, ...] = (keys.negation,) if negation is NOT else ()
    auxiliary_keys += () if auxiliary in {"doesn't", "don't"} else (keys.tense,)
    main_keys = (keys.action,) if auxiliary and main else (keys.action, keys.tense)
    if not main:
        auxiliary_keys += (keys.action,)
    negation_words = attach_alignment_keys(negation.en, keys.negation)
    never = negation_words if negation in (NEVER, NO_LONGER) else ()
    nothing = negation_words if negation is NOTHING else ()
    return (
        attach_alignment_keys(auxiliary, *auxiliary_keys)
        + never
        + adverb.en
        + attach_alignment_keys(main, *main_keys)
        + attach_alignment_keys(verb.en_particle, keys.action)
        + nothing
    )


def _negated_form(verb: Verb, tense: Tense, person: Person) -> tuple[str, str]:
    """Return the negated auxiliary and the main verb, for example "didn't" and "cross"."""
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
    negation: Negation,
    adverb: BilingualPhrase,
    keys: VerbAlignmentKeys,
    clitic: BilingualPhrase,
    agreement: AgreementFeatures | None,
) -> tuple[AlignedWord, ...]:
    ne = attach_alignment_keys("ne" if negation.fr else "", keys.negation)
    pas = attach_alignment_keys(negation.fr, keys.negation)
    se = attach_alignment_keys(REFLEXIVE_PRONOUNS[person] if verb.is_reflexive else "", keys.action)
    finite = verb.french_form(tense, person)
    particle = attach_alignment_keys(verb.fr_particle, keys.action)
    if tense not in COMPOUND_TENSES:
        main = attach_alignment_keys(finite, keys.action, keys.tense)
        return ne + clitic.fr + se + main + pas + adverb.fr + particle
    form = verb.fr.participle
    if agreement:
        form = morphology.inflect_participle(form, agreement.gender, agreement.plural)
    auxiliary = attach_alignment_keys(finite, keys.tense)
    participle = attach_alignment_keys(form, keys.action)
    return ne + clitic.fr + se + auxiliary + pas + adverb.fr + participle + particle


def clause(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    obj: NounPhrase | None = None,
    negation: Negation = AFFIRMATIVE,
    adverb: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return a clause of subject, verb group and object."""
    group = verb_group(verb, tense, subject.agreement, negation, adverb)
    return subject.phrase + group + (obj.phrase if obj else EMPTY_PHRASE)


def choose_past_tense(verb: Verb) -> Tense:
    """Return the French tense of an English simple past: "loved" is "aimait"."""
    return "imperfect" if verb.is_stative else "past"


def copula_clause(
    subject: NounPhrase,
    adjective: Adjective,
    tense: Tense,
    negation: Negation = AFFIRMATIVE,
    degree: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return "the fox is very tired" (in French with "avoir" for some adjectives)."""
    return subject.phrase + build_copula_predicate(
        adjective, subject.agreement, tense, negation, degree
    )


def build_copula_predicate(
    adjective: Adjective,
    agreement: AgreementFeatures,
    tense: Tense,
    negation: Negation = AFFIRMATIVE,
    degree: BilingualPhrase = EMPTY_PHRASE,
) -> BilingualPhrase:
    """Return "is very tired", a clause without its subject."""
    verb = BE_AS_AVOIR if adjective.uses_avoir else BE_VERB
    group = verb_group(verb, tense, agreement, negation)
    fr = adjective.inflect(agreement.gender, agreement.plural)
    return group + degree + build_phrase(adjective.en, fr)


def infinitive_phrase(
    verb: Verb, english_form: str = "to", clitic: NounPhrase | None = None
) -> BilingualPhrase:
    """Return an infinitive; `english_form` is "to" for "to cross", "-ing" or "" for "cross"."""
    key = AlignmentKey()
    en = (
        morphology.inflect_ing_form(verb.en)
        if english_form == "-ing"
        else f"{english_form} {verb.en}"
    )
    se = "se" if verb.is_reflexive else ""
    pronoun = clitic.phrase if clitic else EMPTY_PHRASE
    return BilingualPhrase(
        attach_alignment_keys(f"{en} {verb.en_particle}", key) + pronoun.en,
        pronoun.fr + attach_alignment_keys(f"{se} {verb.fr.infinitive} {verb.fr_particle}", key),
    )


def build_can_auxiliary(plural: bool, able: bool) -> BilingualPhrase:
    """Return "can" or "can't" in the present."""
    fr = "peuvent" if plural else "peut"
    return build_phrase("can", fr) if able else build_phrase("can't", f"ne {fr} pas")


def build_could_not_auxiliary(plural: bool) -> BilingualPhrase:
    """Return "couldn't", in French in the passé composé."""
    return build_phrase("couldn't", "ne ont pas pu" if plural else "ne a pas pu")


def build_comparative_with_than(
    french_adverb: str, adjective: Adjective, agreement: AgreementFeatures
) -> BilingualPhrase:
    """Return "wider than" (plus), "less wide than" (moins) or "as wide as" (aussi)."""
    degree, own, than = AlignmentKey(), AlignmentKey(), AlignmentKey()
    if french_adverb == "plus":
        first, _, rest = morphology.inflect_comparative(adjective.en).partition(" ")
        adverb, adjective_form, second = first, rest, "than"
    else:
        adverb, second = ("less", "than") if french_adverb == "moins" else ("as", "as")
        adjective_form = adjective.en
    if adjective_form:
        english = attach_alignment_keys(adverb, degree)
        english += attach_alignment_keys(adjective_form, own)
    else:  # "wider" is one word
        english = attach_alignment_keys(adverb, degree, own)
    french = (
        attach_alignment_keys(french_adverb, degree)
        + attach_alignment_keys(adjective.inflect(agreement.gender, agreement.plural), own)
        + attach_alignment_keys("que", than)
    )
    return BilingualPhrase(english + attach_alignment_keys(second, than), french)
