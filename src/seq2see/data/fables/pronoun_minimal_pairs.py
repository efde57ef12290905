"""Minimal pairs of sentences with an ambiguous "it".

An event has a subject and an object, and either could be the antecedent of "it". A frame expresses
the event and leaves a slot for what is said of "it", which is filled twice: with a predicate that
fits the subject, and with one that fits the object. The two sentences differ in nothing else.
Some pairs of noun and predicate are reserved: no sentence of the ordinary splits has both words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from seq2see.data.fables.morphology import Gender, Tense
from seq2see.data.fables.nouns_adjectives_and_determiners import (
    ADJECTIVES,
    MY,
    NOUN_KIND_GROUPS,
    NOUN_TABLES,
    NOUNS,
    THE,
    THIS,
    Adjective,
    Noun,
    NounKind,
)
from seq2see.data.fables.phrases_and_clauses import (
    EMPTY_PHRASE,
    NEVER,
    NOT,
    AgreementFeatures,
    AlignedWord,
    BilingualPhrase,
    NounPhrase,
    PronounRole,
    attach_alignment_keys,
    build_copula_predicate,
    build_could_not_auxiliary,
    build_it_or_them_object,
    build_it_or_they_subject,
    build_noun_phrase,
    build_phrase,
    clause,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.questions_and_complex_sentences import question_clause
from seq2see.data.fables.statements import TOO, VERY
from seq2see.data.fables.verbs import INFINITIVE_VERBS, TRANSITIVE_VERBS, Verb, parse_verb
from seq2see.data.fables.word_choice import FableLexicon, WordChooser

SO_MUCH = ("so", "tellement")
MASKED = "…"
"""Replaces the predicate in masked sentences."""


@dataclass(frozen=True, slots=True)
class PronounWithAdjectiveOrVerb:
    """The pronoun "it" with its gender in French, and its predicate.

    The predicate is an adjective, or a verb of which "it" is the object; None masks it.
    """

    gender: Gender
    predicate: Adjective | Verb | None

    def to_subject_clause(
        self, tense: Tense, degree: tuple[str, str] | None = None
    ) -> BilingualPhrase:
        """Return "it was too tired"; if masked, "it was too …" and "il …"."""
        it = build_it_or_they_subject(AgreementFeatures(self.gender))
        adverb = build_phrase(*degree) if degree else EMPTY_PHRASE
        if isinstance(self.predicate, Adjective):
            phrase = build_copula_predicate(self.predicate, it.agreement, tense, degree=adverb)
            en = (*phrase.en[:-1], _mark_predicate(phrase.en[-1]))
            return it.phrase + BilingualPhrase(en, phrase.fr)
        be = {"present": "is", "imperfect": "was"}[tense]
        english_only = BilingualPhrase(attach_alignment_keys(be) + adverb.en, ())
        return it.phrase + english_only + build_phrase(MASKED, MASKED)

    def to_object_clause(self, subject: NounPhrase) -> BilingualPhrase:
        """Return "the girl was feeding it"; if masked, "the girl was … it" and "la fille le …"."""
        it = build_it_or_them_object(AgreementFeatures(self.gender))
        if isinstance(self.predicate, Verb):
            group = verb_group(self.predicate, "imperfect", subject.agreement, clitic=it)
            auxiliary, verb, pronoun = group.en
            marked = (auxiliary, _mark_predicate(verb), pronoun)
            return subject.phrase + BilingualPhrase(marked, group.fr)
        masked = build_phrase(MASKED, MASKED)
        en = attach_alignment_keys("was") + masked.en + it.phrase.en
        return subject.phrase + BilingualPhrase(en, it.phrase.fr + masked.fr)


def _mark_predicate(word: AlignedWord) -> AlignedWord:
    return word._replace(role="predicate")


@dataclass(frozen=True, slots=True)
class TransitiveEvent:
    """An event with a subject, a transitive verb and a direct object."""

    chooser: WordChooser
    subject: NounPhrase
    verb: Verb
    direct_object: NounPhrase

    def to_clause(self, tense: Tense, negated: bool = True) -> BilingualPhrase:
        """Return the event as a clause."""
        if not negated:
            return clause(self.subject, self.verb, tense, self.direct_object)
        return clause(self.subject, self.verb, tense, self.direct_object, NOT)


SlotFiller = Callable[[PronounWithAdjectiveOrVerb], BilingualPhrase]
"""Returns a complete sentence, given what is said of "it"."""
FrameBuilder = Callable[[TransitiveEvent], SlotFiller]
"""Returns the sentence for an event with a slot for the predicate of "it"."""


@dataclass(frozen=True, slots=True)
class PronounFrame:
    """A construction with a slot for the predicate of "it"."""

    name: str
    build: FrameBuilder
    verbs: tuple[Verb, ...]
    in_short_corpus: bool
    it_is_object: bool = False
    """Whether "it" is the object of another verb."""


def _transitive_verbs(*infinitives: str) -> tuple[Verb, ...]:
    return tuple(verb for verb in TRANSITIVE_VERBS if verb.fr.infinitive in infinitives)


PRONOUN_FRAMES: list[PronounFrame] = []
"""All frames, in the order of their definition, which is part of the corpus."""
HINDERED_VERBS = _transitive_verbs(
    *("traverser", "gravir", "entrer", "explorer", "porter", "soulever", "pousser", "tirer"),
    *("manger", "goûter", "voler"),
)
"""Actions that may fail because of a property of the subject or the object."""
AVOIDING_VERBS = _transitive_verbs("éviter", "quitter", "contourner")
"""Actions that have such a property as their reason."""
STAYING_VERBS = tuple(
    parse_verb(line)
    for line in (
        "wait in_front_of | attendre devant | animal | building hollow",
        "stay in | rester dans | animal | building hollow",
        "stay near | rester près_de | animal | building",
        "play behind | jouer derrière | animal | building",
    )
)
OBSTRUCTING_VERBS = tuple(
    parse_verb(line)
    for line in (
        "frighten | effrayer",
        "stop | arrêter",
        "slow down | ralentir",
        "delay | retarder",
    )
)
CARE_VERBS = _transitive_verbs("nourrir", "caresser", "brosser", "gronder")
MAINTENANCE_VERBS = _transitive_verbs("peindre", "réparer", "balayer", "construire", "décorer")


def register_frame(
    verbs: tuple[Verb, ...] = HINDERED_VERBS,
    in_short_corpus: bool = False,
    it_is_object: bool = False,
) -> Callable[[FrameBuilder], FrameBuilder]:
    """Return a decorator that adds a function to `PRONOUN_FRAMES`."""

    def register(build: FrameBuilder) -> FrameBuilder:
        name = build.__name__.removeprefix("_")
        frame = PronounFrame(name, build, verbs, in_short_corpus, it_is_object)
        PRONOUN_FRAMES.append(frame)
        return build

    return register


def build_full_stop() -> BilingualPhrase:
    """Return a full stop with a key of its own, because a text may have two sentences."""
    return build_phrase(".", ".")


def build_word_because() -> BilingualPhrase:
    """Return "because"."""
    return build_phrase("because", "parce que")


@register_frame(in_short_corpus=True)
def _because_it_was(event: TransitiveEvent) -> SlotFiller:
    """The animal didn't cross the street because it was too tired."""
    main = event.to_clause("past")
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame(in_short_corpus=True)
def _because_it_is(event: TransitiveEvent) -> SlotFiller:
    """The animal doesn't cross the street because it is too tired."""
    main = event.to_clause("present")
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("present", TOO) + build_full_stop()
    )


@register_frame(in_short_corpus=True)
def _two_sentences(event: TransitiveEvent) -> SlotFiller:
    """The animal didn't cross the street. It was too tired."""
    main = event.to_clause("past")
    return lambda it: (
        main + build_full_stop() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame(in_short_corpus=True)
def _tried(event: TransitiveEvent) -> SlotFiller:
    """The animal tried to cross the street, but it was too tired."""
    trying = next(verb for verb in INFINITIVE_VERBS if verb.en == "try")
    main = (
        clause(event.subject, trying, "past")
        + infinitive_phrase(event.verb)
        + event.direct_object.phrase
    )
    return lambda it: (
        main
        + build_phrase(", but", ", mais")
        + it.to_subject_clause("imperfect", TOO)
        + build_full_stop()
    )


@register_frame()
def _could_not_because(event: TransitiveEvent) -> SlotFiller:
    """The animal couldn't cross the street because it was so tired."""
    able = build_could_not_auxiliary(plural=False)
    main = (
        event.subject.phrase + able + infinitive_phrase(event.verb, "") + event.direct_object.phrase
    )
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", SO_MUCH) + build_full_stop()
    )


@register_frame()
def _if_it_is(event: TransitiveEvent) -> SlotFiller:
    """The animal won't cross the street if it is too tired."""
    main = event.to_clause("future")
    return lambda it: (
        main + build_phrase("if", "si") + it.to_subject_clause("present", TOO) + build_full_stop()
    )


@register_frame()
def _never_when(event: TransitiveEvent) -> SlotFiller:
    """The animal never crosses the street when it is tired."""
    main = clause(event.subject, event.verb, "present", event.direct_object, NEVER)
    return lambda it: (
        main + build_phrase("when", "quand") + it.to_subject_clause("present") + build_full_stop()
    )


@register_frame()
def _even_though(event: TransitiveEvent) -> SlotFiller:
    """The animal crossed the street even though it was very tired."""
    main = event.to_clause("past", negated=False)
    return lambda it: (
        main
        + build_phrase("even though", "même si")
        + it.to_subject_clause("imperfect", VERY)
        + build_full_stop()
    )


@register_frame(in_short_corpus=True)
def _question(event: TransitiveEvent) -> SlotFiller:
    """Why didn't the animal cross the street? Because it was too tired."""
    asks = question_clause(event.subject, event.verb, "past", NOT) + event.direct_object.phrase
    main = build_phrase("why", "pourquoi est-ce que") + asks + build_phrase("?", "?")
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame()
def _hearsay(event: TransitiveEvent) -> SlotFiller:
    """The farmer says that the animal didn't cross the street because it was too tired."""
    says = event.chooser.reporting_verb()
    chooser = event.chooser
    who = chooser.noun_phrase(chooser.noun(("person",)), chooser.pick((THE, MY)), adjective_rate=0)
    main = clause(who, says, "present") + build_phrase("that", "que") + event.to_clause("past")
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame(AVOIDING_VERBS)
def _avoided(event: TransitiveEvent) -> SlotFiller:
    """The animal avoided the street because it was too tired."""
    main = event.to_clause("past", negated=False)
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame()
def _dated_reason(event: TransitiveEvent) -> SlotFiller:
    """Yesterday, the animal didn't cross the street because it was very tired."""
    main = event.chooser.time_adverbial("past") + build_phrase(",", ",") + event.to_clause("past")
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", VERY) + build_full_stop()
    )


@register_frame(_transitive_verbs("traverser", "gravir"))
def _turned_round(event: TransitiveEvent) -> SlotFiller:
    """The street frightened the animal because it was too wide."""
    stops = event.chooser.pick(OBSTRUCTING_VERBS)
    main = clause(event.direct_object, stops, "past", event.subject)
    return lambda it: (
        main + build_word_because() + it.to_subject_clause("imperfect", TOO) + build_full_stop()
    )


@register_frame(STAYING_VERBS, it_is_object=True)
def _while_someone(event: TransitiveEvent) -> SlotFiller:
    """The dog was waiting in front of the house because the girl was feeding it."""
    chooser = event.chooser
    who = chooser.noun_phrase(chooser.noun(("person",)), THE, plural=False, adjective_rate=0.2)
    main = event.to_clause("imperfect", negated=False)
    return lambda it: main + build_word_because() + it.to_object_clause(who) + build_full_stop()


@register_frame()
def _meanwhile_tried(event: TransitiveEvent) -> SlotFiller:
    """While the girl was singing, the animal tried to cross the street, but it was too tired."""
    chooser = event.chooser
    action = chooser.pick(
        [each for each in chooser.lexicon.intransitive_verbs if not each.is_momentary]
    )
    who = chooser.noun_phrase(chooser.noun(("person",)), THE, adjective_rate=0.4)
    start = (
        build_phrase("while", "pendant que")
        + clause(who, action, "imperfect")
        + build_phrase(",", ",")
    )
    main = _tried(event)
    return lambda it: start + main(it)


TEXTBOOK_PAIRS = (("animal", "tired"), ("street", "wide"))
"""Nouns and predicates of the textbook sentences; they are never reserved."""
INANIMATE_KINDS = frozenset(kind for kind in NOUN_TABLES if kind not in NOUN_KIND_GROUPS["animate"])
CONTRADICTING_ADJECTIVES = frozenset(
    {"sweet", "fresh", "ripe", "juicy", "sunny", "strong", "brave", "quiet", "solid", "good"}
)
"""Adjectives that would contradict a hindrance: a brave dove is not too afraid."""
DECISIVE_RATE = 0.85
"""Probability that the candidates are chosen to differ in gender."""
Predicate = Adjective | Verb


@dataclass(frozen=True, slots=True)
class MinimalPairSentence:
    """One sentence of a minimal pair, which can be built again with another pronoun."""

    name: str
    phrase: BilingualPhrase
    build: SlotFiller
    pronoun: PronounWithAdjectiveOrVerb
    antecedent: PronounRole
    """The role of the noun that "it" refers to."""
    is_decisive: bool
    """Whether the French pronoun would differ for the other candidate."""

    def rebuild(self, correct: bool, masked: bool = False) -> BilingualPhrase:
        """Return the sentence with the correct or the wrong pronoun, optionally masked."""
        other: Gender = "f" if self.pronoun.gender == "m" else "m"
        gender = self.pronoun.gender if correct else other
        return self.build(
            PronounWithAdjectiveOrVerb(gender, None if masked else self.pronoun.predicate)
        )


def is_reserved_noun_adjective_pair(noun: Noun, adjective: Adjective) -> bool:
    """Return whether noun and predicate occur together only in `load_unseen_pronoun_cases`."""
    if not (adjective.is_hindrance and adjective.fits_noun(noun)):
        return False
    if (noun.en, adjective.en) in TEXTBOOK_PAIRS:
        return False
    # Neighbors in the tables differ in gender or in kind; both of them are reserved, or neither.
    return (NOUNS.index(noun) // 2 + 3 * (ADJECTIVES.index(adjective) // 2)) % 7 == 4


@cache
def list_noun_hindrance_pairs(
    lexicon: FableLexicon, kinds: tuple[NounKind, ...], reserved: bool
) -> tuple[tuple[Noun, Adjective], ...]:
    """Return the pairs of a noun of the given kinds and a hindrance that fits it."""
    return tuple(
        (noun, adjective)
        for noun in lexicon.nouns_of_kinds(kinds)
        for adjective in lexicon.adjectives
        if adjective.is_hindrance
        and adjective.fits_noun(noun)
        and is_reserved_noun_adjective_pair(noun, adjective) == reserved
    )


def generate_pronoun_minimal_pair(
    chooser: WordChooser, short: bool = False, unseen: bool = False
) -> tuple[MinimalPairSentence, MinimalPairSentence]:
    """Return two sentences that differ only in the predicate of "it".

    With `unseen`, noun and predicate are reserved pairs.
    """
    frames = [each for each in PRONOUN_FRAMES if each.in_short_corpus or not short]
    frame = chooser.pick([each for each in frames if not (unseen and each.it_is_object)])
    verb = chooser.pick(_available_verbs(chooser, frame, unseen))
    subject, obj = _choose_candidates(chooser, verb, unseen)
    event = TransitiveEvent(
        chooser,
        _neutral_noun_phrase(chooser, subject[0], "subject"),
        verb,
        _neutral_noun_phrase(chooser, obj[0], "object"),
    )
    if frame.it_is_object:
        maintenance = [each for each in MAINTENANCE_VERBS if obj[0].kind in each.object_kinds]
        return build_antecedent_minimal_pair(
            frame, event, chooser.pick(CARE_VERBS), chooser.pick(maintenance)
        )
    return build_antecedent_minimal_pair(frame, event, subject[1], obj[1])


def build_antecedent_minimal_pair(
    frame: PronounFrame,
    event: TransitiveEvent,
    subject_predicate: Predicate,
    object_predicate: Predicate,
) -> tuple[MinimalPairSentence, MinimalPairSentence]:
    """Fill a frame with a predicate of the subject, and with one of the object."""
    build = cache(frame.build(event))  # both sentences share their masked forms
    genders = event.subject.agreement.gender, event.direct_object.agreement.gender
    is_decisive = genders[0] != genders[1]

    def build_item(
        antecedent: PronounRole, pronoun: PronounWithAdjectiveOrVerb
    ) -> MinimalPairSentence:
        phrase = build(pronoun)
        return MinimalPairSentence(frame.name, phrase, build, pronoun, antecedent, is_decisive)

    return (
        build_item("subject", PronounWithAdjectiveOrVerb(genders[0], subject_predicate)),
        build_item("object", PronounWithAdjectiveOrVerb(genders[1], object_predicate)),
    )


def build_textbook_minimal_pair(
    chooser: WordChooser,
) -> tuple[MinimalPairSentence, MinimalPairSentence]:
    """Return the textbook sentences: "The animal didn't cross the street because it was too …"."""
    animal, street = (next(n for n in NOUNS if n.en == name) for name, _ in TEXTBOOK_PAIRS)
    tired, wide = (next(a for a in ADJECTIVES if a.en == name) for _, name in TEXTBOOK_PAIRS)
    cross = next(verb for verb in TRANSITIVE_VERBS if verb.en == "cross")
    event = TransitiveEvent(
        chooser,
        build_noun_phrase(THE, animal, role="subject"),
        cross,
        build_noun_phrase(THE, street, role="object"),
    )
    return build_antecedent_minimal_pair(PRONOUN_FRAMES[0], event, tired, wide)


def _available_verbs(chooser: WordChooser, frame: PronounFrame, unseen: bool) -> list[Verb]:
    """Return the verbs of a frame that are in the lexicon and have candidate objects."""
    lexicon = chooser.lexicon
    verbs = [v for v in frame.verbs if v in lexicon.transitive_verbs or v not in TRANSITIVE_VERBS]
    return [verb for verb in verbs if list_noun_hindrance_pairs(lexicon, verb.object_kinds, unseen)]


def _choose_candidates(
    chooser: WordChooser, verb: Verb, unseen: bool
) -> tuple[tuple[Noun, Adjective], tuple[Noun, Adjective]]:
    """Choose a subject and an object, each with a predicate that fits it."""
    objects = [
        each
        for each in list_noun_hindrance_pairs(chooser.lexicon, verb.object_kinds, unseen)
        if each[0].kind in INANIMATE_KINDS
    ]
    obj = chooser.pick(objects)
    subjects = list_noun_hindrance_pairs(chooser.lexicon, ("animal",), unseen)
    if chooser.chance(DECISIVE_RATE) or unseen:
        subjects = tuple(each for each in subjects if each[0].gender != obj[0].gender)
    if obj[0].kind in NOUN_KIND_GROUPS["food"]:  # being hungry is no reason not to eat
        subjects = tuple(each for each in subjects if each[1].en != "hungry")
    return chooser.pick(subjects), obj


def _neutral_noun_phrase(chooser: WordChooser, noun: Noun, role: PronounRole) -> NounPhrase:
    """Return a noun phrase whose adjective does not hint at the antecedent."""
    fitting = [a for a in chooser.lexicon.adjectives if a.fits_noun(noun) and not a.is_hindrance]
    fitting = [adjective for adjective in fitting if adjective.en not in CONTRADICTING_ADJECTIVES]
    adjectives = (chooser.pick(fitting),) if fitting and chooser.chance(0.25) else ()
    determiner = chooser.pick((THE, THE, THE, THE, THIS, MY))
    return build_noun_phrase(determiner, noun, adjectives, role=role)
