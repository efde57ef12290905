"""Minimal pairs of sentences with an ambiguous "it".

An event has a subject and an object, and either could be the antecedent of "it". A frame expresses
the event and adds what is said of "it", once with a predicate that fits the subject, and once with
one that fits the object. The two sentences differ in nothing else. Some pairs of noun and predicate
are reserved: no sentence of the ordinary splits has both words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from seq2see.data.fables.complex_sentences import question_clause
from seq2see.data.fables.lexicon import (
    ADJECTIVES,
    NOUN_KIND_GROUPS,
    NOUNS,
    VERBS,
    Adjective,
    AgreementFeatures,
    FableLexicon,
    Gender,
    Noun,
    NounKinds,
    Tense,
    Verb,
    nouns_of_kinds,
)
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    NO_DEGREE,
    NO_SUBJECT,
    TOO,
    VERY,
    AlignedWord,
    BilingualPhrase,
    Negation,
    NounPhrase,
    PronounRole,
    build_modal,
    build_noun_phrase,
    build_object_pronoun,
    build_phrase,
    build_subject_pronoun,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.word_choice import WordChooser

SO_MUCH = ("so", "tellement")
BECAUSE = ("because", "parce que")
MASKED = "…"
"""Replaces the predicate in masked sentences."""
Predicate = Adjective | Verb
"""An adjective, or a verb of which "it" is the object."""


@dataclass(frozen=True, slots=True)
class TransitiveEvent:
    """An event with a subject, a transitive verb and a direct object."""

    choose: WordChooser
    subject: NounPhrase
    verb: Verb
    direct_object: NounPhrase

    def to_clause(self, tense: Tense, negation: Negation = "") -> BilingualPhrase:
        """Return the event as a clause."""
        return self.subject.clause(self.verb, tense, self.direct_object, negation)


EventClauseBuilder = Callable[[TransitiveEvent], BilingualPhrase]


@dataclass(frozen=True, slots=True)
class PronounFrame:
    """A construction: a clause that expresses the event, a conjunction, and a clause with "it"."""

    name: str
    build_event_clause: EventClauseBuilder
    conjunction: tuple[str, str] = BECAUSE
    tense: Tense = "imperfect"
    degree: tuple[str, str] = TOO
    verbs: str = "hindered"
    """Group of the verbs of the event."""
    in_short_corpus: bool = False
    it_is_object: bool = False
    """Whether "it" is the object of another verb."""

    def build_it_clause(self, gender: Gender, predicate: Predicate) -> BilingualPhrase:
        """Return "it was too tired", or "was feeding it" if it is the object."""
        agreement = AgreementFeatures(gender)
        if isinstance(predicate, Verb):
            it = build_object_pronoun(agreement)
            phrase = verb_group(predicate, "imperfect", NO_SUBJECT.agreement, clitic=it)
            index = -2
        else:
            it = build_subject_pronoun(agreement)
            phrase = it + it.predicate(predicate, self.tense, degree=self.degree)
            index = -1
        words = list(phrase.en)
        words[index] = words[index]._replace(role="predicate")
        return BilingualPhrase(tuple(words), phrase.fr)


def _try(event: TransitiveEvent) -> BilingualPhrase:
    trying = next(verb for verb in VERBS["infinitive"] if verb.en == "try")
    action = infinitive_phrase(event.verb) + event.direct_object
    return event.subject.clause(trying, "past", action)


def _fail(event: TransitiveEvent) -> BilingualPhrase:
    action = infinitive_phrase(event.verb, "") + event.direct_object
    return event.subject + build_modal("couldn't") + action


def _ask_why(event: TransitiveEvent) -> BilingualPhrase:
    question = question_clause(event.subject, event.verb, "past", "not") + event.direct_object
    return build_phrase("why", "pourquoi est-ce que") + question + build_phrase("?", "?")


def _report(event: TransitiveEvent) -> BilingualPhrase:
    says = event.choose.verb("reporting")
    who = event.choose.noun_phrase(("person",), ("the", "my"), adjective_rate=0)
    that = build_phrase("that", "que")
    return who.clause(says, "present", that) + event.to_clause("past", "not")


def _date(event: TransitiveEvent) -> BilingualPhrase:
    when = event.choose.adverbial("time", "past")
    return when + build_phrase(",", ",") + event.to_clause("past", "not")


def _obstruct(event: TransitiveEvent) -> BilingualPhrase:
    return event.direct_object.clause(event.choose.verb("obstructing"), "past", event.subject)


def _try_meanwhile(event: TransitiveEvent) -> BilingualPhrase:
    choose = event.choose
    action = choose.verb("background")
    who = choose.noun_phrase(("person",), "the", adjective_rate=0.4)
    start = build_phrase("while", "pendant que") + who.clause(action, "imperfect")
    return start + build_phrase(",", ",") + _try(event)


def _express(tense: Tense, negation: Negation = "") -> EventClauseBuilder:
    return lambda event: event.to_clause(tense, negation)


BUT = (", but", ", mais")
PRONOUN_FRAMES = (
    # The animal didn't cross the street because it was too tired.
    PronounFrame("because_it_was", _express("past", "not"), in_short_corpus=True),
    # The animal doesn't cross the street because it is too tired.
    PronounFrame(
        "because_it_is", _express("present", "not"), tense="present", in_short_corpus=True
    ),
    # The animal didn't cross the street. It was too tired.
    PronounFrame("two_sentences", _express("past", "not"), (".", "."), in_short_corpus=True),
    # The animal tried to cross the street, but it was too tired.
    PronounFrame("tried", _try, BUT, in_short_corpus=True),
    # The animal couldn't cross the street because it was so tired.
    PronounFrame("could_not_because", _fail, degree=SO_MUCH),
    # The animal won't cross the street if it is too tired.
    PronounFrame("if_it_is", _express("future", "not"), ("if", "si"), "present"),
    # The animal never crosses the street when it is tired.
    PronounFrame(
        "never_when", _express("present", "never"), ("when", "quand"), "present", NO_DEGREE
    ),
    # The animal crossed the street even though it was very tired.
    PronounFrame("even_though", _express("past"), ("even though", "même si"), degree=VERY),
    # Why didn't the animal cross the street? Because it was too tired.
    PronounFrame("question", _ask_why, in_short_corpus=True),
    # The farmer says that the animal didn't cross the street because it was too tired.
    PronounFrame("hearsay", _report),
    # The animal avoided the street because it was too tired.
    PronounFrame("avoided", _express("past"), verbs="avoiding"),
    # Yesterday, the animal didn't cross the street because it was very tired.
    PronounFrame("dated_reason", _date, degree=VERY),
    # The street frightened the animal because it was too wide.
    PronounFrame("turned_round", _obstruct, verbs="obstacle"),
    # The dog was waiting in front of the house because the girl was feeding it.
    PronounFrame("while_someone", _express("imperfect"), verbs="staying", it_is_object=True),
    # While the girl was singing, the animal tried to cross the street, but it was too tired.
    PronounFrame("meanwhile_tried", _try_meanwhile, BUT),
)
"""Each with an example. Their order is part of the corpus."""
TEXTBOOK_PAIRS = (("animal", "tired"), ("street", "wide"))
"""Nouns and predicates of the textbook sentences; they are never reserved."""
CONTRADICTING_ADJECTIVES = frozenset(
    {"sweet", "fresh", "ripe", "juicy", "sunny", "strong", "brave", "quiet", "solid", "good"}
)
"""Adjectives that would contradict a hindrance: a brave dove is not too afraid."""
DECISIVE_RATE = 0.85
"""Probability that the candidates are chosen to differ in gender."""


@dataclass(frozen=True, slots=True)
class SentenceDraft:
    """A sentence with the name of its construction."""

    name: str
    phrase: BilingualPhrase


@dataclass(frozen=True, slots=True)
class MinimalPairSentence(SentenceDraft):
    """One sentence of a minimal pair."""

    antecedent: PronounRole
    """The role of the noun that "it" refers to."""
    wrong_pronoun: BilingualPhrase | None
    """The sentence with the wrong pronoun; None if both candidates have the same gender."""


def mask_predicate(phrase: BilingualPhrase) -> BilingualPhrase:
    """Return a sentence with "…" for the predicate; in French, for all words after the pronoun."""
    en = tuple(w._replace(text=MASKED) if w.role == "predicate" else w for w in phrase.en)
    end = 1 + next(i for i, word in enumerate(phrase.fr) if word.role == "pronoun")
    return BilingualPhrase(en, (*phrase.fr[:end], AlignedWord(MASKED), phrase.fr[-1]))


def _is_reserved(noun: Noun, adjective: Adjective) -> bool:
    # Neighbors in the tables differ in gender or in kind; both of them are reserved, or neither.
    group = NOUNS.index(noun) // 2 + 3 * (ADJECTIVES.index(adjective) // 2)
    return group % 7 == 4 and (noun.en, adjective.en) not in TEXTBOOK_PAIRS


@cache
def list_noun_hindrance_pairs(
    lexicon: FableLexicon, kinds: NounKinds, reserved: bool
) -> tuple[tuple[Noun, Adjective], ...]:
    """Return the pairs of a noun of the given kinds and a hindrance that fits it.

    Reserved pairs occur together only in `load_unseen_pronoun_cases`.
    """
    return tuple(
        (noun, adjective)
        for noun in nouns_of_kinds(lexicon, kinds)
        for adjective in lexicon.adjectives
        if adjective.is_hindrance
        and adjective.fits_noun(noun)
        and _is_reserved(noun, adjective) == reserved
    )


def generate_pronoun_minimal_pair(
    choose: WordChooser, unseen: bool = False
) -> tuple[MinimalPairSentence, ...]:
    """Return two sentences that differ only in the predicate of "it".

    With `unseen`, noun and predicate are reserved pairs.
    """
    frames = [each for each in PRONOUN_FRAMES if each.in_short_corpus or not choose.short]
    frame = choose.pick([each for each in frames if not (unseen and each.it_is_object)])
    verbs = choose.lexicon.verbs[frame.verbs]
    verb = choose.pick(
        [v for v in verbs if list_noun_hindrance_pairs(choose.lexicon, v.object_kinds, unseen)]
    )
    subject, obj = _choose_candidates(choose, verb, unseen)
    subject_phrase = _neutral_noun_phrase(choose, subject[0], "subject")
    object_phrase = _neutral_noun_phrase(choose, obj[0], "object")
    event = TransitiveEvent(choose, subject_phrase, verb, object_phrase)
    if not frame.it_is_object:
        return _build_minimal_pair(frame, event, subject[1], obj[1])
    maintenance = [v for v in VERBS["maintenance"] if obj[0].kind in v.object_kinds]
    return _build_minimal_pair(frame, event, choose.verb("care"), choose.pick(maintenance))


def _build_minimal_pair(
    frame: PronounFrame, event: TransitiveEvent, *predicates: Predicate
) -> tuple[MinimalPairSentence, ...]:
    """Fill a frame with a predicate of the subject, and with one of the object."""
    who = EMPTY_PHRASE
    if frame.it_is_object:
        who = event.choose.noun_phrase(("person",), "the", plural=False, adjective_rate=0.2)
    main = frame.build_event_clause(event)

    def build(gender: Gender, predicate: Predicate) -> BilingualPhrase:
        # each full stop needs its own alignment key, because a text may have two sentences
        start, full_stop = main + build_phrase(*frame.conjunction), build_phrase(".", ".")
        return start + who + frame.build_it_clause(gender, predicate) + full_stop

    roles: tuple[PronounRole, PronounRole] = ("subject", "object")
    genders = event.subject.agreement.gender, event.direct_object.agreement.gender
    is_decisive = genders[0] != genders[1]
    return tuple(
        MinimalPairSentence(
            frame.name,
            build(gender, predicate),
            role,
            build(other, predicate) if is_decisive else None,
        )
        for role, gender, other, predicate in zip(
            roles, genders, genders[::-1], predicates, strict=True
        )
    )


def build_textbook_minimal_pair(choose: WordChooser) -> tuple[MinimalPairSentence, ...]:
    """Return the textbook sentences: "The animal didn't cross the street because it was too …"."""
    animal, street = (next(n for n in NOUNS if n.en == name) for name, _ in TEXTBOOK_PAIRS)
    tired, wide = (next(a for a in ADJECTIVES if a.en == name) for _, name in TEXTBOOK_PAIRS)
    cross = next(verb for verb in VERBS["transitive"] if verb.en == "cross")
    subject = build_noun_phrase("the", animal, role="subject")
    event = TransitiveEvent(choose, subject, cross, build_noun_phrase("the", street, role="object"))
    return _build_minimal_pair(PRONOUN_FRAMES[0], event, tired, wide)


def _choose_candidates(
    choose: WordChooser, verb: Verb, unseen: bool
) -> tuple[tuple[Noun, Adjective], tuple[Noun, Adjective]]:
    """Choose a subject and an object, each with a predicate that fits it."""
    objects = list_noun_hindrance_pairs(choose.lexicon, verb.object_kinds, unseen)
    animate = NOUN_KIND_GROUPS["animate"]
    obj = choose.pick([each for each in objects if each[0].kind not in animate])
    subjects = list_noun_hindrance_pairs(choose.lexicon, ("animal",), unseen)
    if choose.chance(DECISIVE_RATE) or unseen:
        subjects = tuple(each for each in subjects if each[0].gender != obj[0].gender)
    if obj[0].kind in NOUN_KIND_GROUPS["food"]:  # being hungry is no reason not to eat
        subjects = tuple(each for each in subjects if each[1].en != "hungry")
    return choose.pick(subjects), obj


def _neutral_noun_phrase(choose: WordChooser, noun: Noun, role: PronounRole) -> NounPhrase:
    """Return a noun phrase whose adjective does not hint at the antecedent."""
    fitting = [a for a in choose.lexicon.adjectives if a.fits_noun(noun) and not a.is_hindrance]
    fitting = [adjective for adjective in fitting if adjective.en not in CONTRADICTING_ADJECTIVES]
    adjectives = (choose.pick(fitting),) if fitting and choose.chance(0.25) else ()
    determiner = choose.pick(("the", "the", "the", "the", "this", "my"))
    return build_noun_phrase(determiner, noun, adjectives, role=role)
