"""Minimal pairs of sentences with an ambiguous "it".

An event has a subject and an object, and either could be the antecedent of "it". A frame expresses
the event and leaves a slot for what is said of "it", which is filled twice: with a predicate that
fits the subject, and with one that fits the object. Nothing but the predicate tells them apart.
Some pairs of noun and predicate are reserved: no sentence of the ordinary splits has both words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from seq2see.data.fables.complex_sentences import question_clause
from seq2see.data.fables.lexicon import (
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
from seq2see.data.fables.morphology import Gender, Tense
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    NEVER,
    NOT,
    AgreementFeatures,
    AlignedWord,
    BilingualPhrase,
    NounPhrase,
    PronounRole,
    build_noun_phrase,
    clause,
    copula_phrase,
    infinitive_phrase,
    make_aligned_pair,
    make_aligned_words,
    object_clitic,
    subject_pronoun,
    verb_group,
)
from seq2see.data.fables.simple_sentences import TOO, VERY, could_not_phrase
from seq2see.data.fables.verbs import INFINITIVE_VERBS, TRANSITIVE_VERBS, Verb, parse_verb
from seq2see.data.fables.word_choice import FableLexicon, WordChooser

SO_MUCH = ("so", "tellement")


MASKED = "…"
"""Stands where a control hides the predicate."""


@dataclass(frozen=True, slots=True)
class PronounPredicate:
    """The pronoun, and what is said of it: an adjective, or what someone does to it, or hidden."""

    gender: Gender
    predicate: Adjective | Verb | None

    def to_subject_clause(
        self, tense: Tense, degree: tuple[str, str] | None = None
    ) -> BilingualPhrase:
        """Return "it was too tired"; hidden, "it was too …" and "il …"."""
        it = subject_pronoun(AgreementFeatures(self.gender))
        much = make_aligned_pair(*degree) if degree else EMPTY_PHRASE
        if isinstance(self.predicate, Adjective):
            said = copula_phrase(self.predicate, it.agreement, tense, degree=much)
            return it.phrase + BilingualPhrase((*said.en[:-1], _predicate(said.en[-1])), said.fr)
        be = {"present": "is", "imperfect": "was"}[tense]
        return (
            it.phrase
            + BilingualPhrase(make_aligned_words(be) + much.en, ())
            + make_aligned_pair(MASKED, MASKED)
        )

    def to_object_clause(self, subject: NounPhrase) -> BilingualPhrase:
        """Return "the girl was feeding it"; hidden, "the girl was … it" and "la fille le …"."""
        it = object_clitic(AgreementFeatures(self.gender))
        if isinstance(self.predicate, Verb):
            said = verb_group(self.predicate, "imperfect", subject.agreement, clitic=it)
            was, doing, what = said.en
            return subject.phrase + BilingualPhrase((was, _predicate(doing), what), said.fr)
        hidden = make_aligned_pair(MASKED, MASKED)
        return subject.phrase + BilingualPhrase(
            make_aligned_words("was") + hidden.en + it.phrase.en, it.phrase.fr + hidden.fr
        )


def _predicate(word: AlignedWord) -> AlignedWord:
    return word._replace(role="predicate")


@dataclass(frozen=True, slots=True)
class TransitiveEvent:
    """Who does what to what."""

    chooser: WordChooser
    subject: NounPhrase
    verb: Verb
    direct_object: NounPhrase

    def to_clause(self, tense: Tense, negated: bool = True) -> BilingualPhrase:
        """Return it as a clause."""
        if not negated:
            return clause(self.subject, self.verb, tense, self.direct_object)
        return clause(self.subject, self.verb, tense, self.direct_object, NOT)


SlotFiller = Callable[[PronounPredicate], BilingualPhrase]


FrameBuilder = Callable[[TransitiveEvent], SlotFiller]


@dataclass(frozen=True, slots=True)
class PronounFrame:
    """A construction with an open place for what is said of "it"."""

    name: str
    build: FrameBuilder
    verbs: tuple[Verb, ...]
    in_short_corpus: bool
    it_is_object: bool = False
    """Whether "it" is the object of another verb."""


def _transitives(*infinitives: str) -> tuple[Verb, ...]:
    return tuple(each for each in TRANSITIVE_VERBS if each.fr.infinitive in infinitives)


PRONOUN_FRAMES: list[PronounFrame] = []


HINDERED_VERBS = _transitives(
    *("traverser", "gravir", "entrer", "explorer", "porter", "soulever", "pousser", "tirer"),
    *("manger", "goûter", "voler"),
)
"""What one may fail to do because "it" is too much or too little."""


AVOIDING_VERBS = _transitives("éviter", "quitter", "contourner")
"""What one does because of that."""


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


CARE_VERBS = _transitives("nourrir", "caresser", "brosser", "gronder")


MAINTENANCE_VERBS = _transitives("peindre", "réparer", "balayer", "construire", "décorer")


def register_frame(
    verbs: tuple[Verb, ...] = HINDERED_VERBS,
    in_short_corpus: bool = False,
    it_is_object: bool = False,
) -> Callable[[FrameBuilder], FrameBuilder]:
    """Add a function to the list of frames under its name."""

    def add(tell: FrameBuilder) -> FrameBuilder:
        PRONOUN_FRAMES.append(
            PronounFrame(tell.__name__, tell, verbs, in_short_corpus, it_is_object)
        )
        return tell

    return add


def full_stop_phrase() -> BilingualPhrase:
    """End a sentence, of which there may be two."""
    return make_aligned_pair(".", ".")


def because_phrase() -> BilingualPhrase:
    """Join a reason."""
    return make_aligned_pair("because", "parce que")


@register_frame(in_short_corpus=True)
def because_it_was(scene: TransitiveEvent) -> SlotFiller:
    """The animal didn't cross the street because it was too tired."""
    told = scene.to_clause("past")
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame(in_short_corpus=True)
def because_it_is(scene: TransitiveEvent) -> SlotFiller:
    """The animal doesn't cross the street because it is too tired."""
    told = scene.to_clause("present")
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("present", TOO) + full_stop_phrase()
    )


@register_frame(in_short_corpus=True)
def two_sentences(scene: TransitiveEvent) -> SlotFiller:
    """The animal didn't cross the street. It was too tired."""
    told = scene.to_clause("past")
    return lambda it: (
        told + full_stop_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame(in_short_corpus=True)
def tried(scene: TransitiveEvent) -> SlotFiller:
    """The animal tried to cross the street, but it was too tired."""
    trying = next(verb for verb in INFINITIVE_VERBS if verb.en == "try")
    told = (
        clause(scene.subject, trying, "past")
        + infinitive_phrase(scene.verb)
        + scene.direct_object.phrase
    )
    return lambda it: (
        told
        + make_aligned_pair(", but", ", mais")
        + it.to_subject_clause("imperfect", TOO)
        + full_stop_phrase()
    )


@register_frame()
def could_not_because(scene: TransitiveEvent) -> SlotFiller:
    """The animal couldn't cross the street because it was so tired."""
    able = could_not_phrase(plural=False)
    told = (
        scene.subject.phrase + able + infinitive_phrase(scene.verb, "") + scene.direct_object.phrase
    )
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", SO_MUCH) + full_stop_phrase()
    )


@register_frame()
def if_it_is(scene: TransitiveEvent) -> SlotFiller:
    """The animal won't cross the street if it is too tired."""
    told = scene.to_clause("future")
    return lambda it: (
        told
        + make_aligned_pair("if", "si")
        + it.to_subject_clause("present", TOO)
        + full_stop_phrase()
    )


@register_frame()
def never_when(scene: TransitiveEvent) -> SlotFiller:
    """The animal never crosses the street when it is tired."""
    told = clause(scene.subject, scene.verb, "present", scene.direct_object, NEVER)
    return lambda it: (
        told
        + make_aligned_pair("when", "quand")
        + it.to_subject_clause("present")
        + full_stop_phrase()
    )


@register_frame()
def even_though(scene: TransitiveEvent) -> SlotFiller:
    """The animal crossed the street even though it was very tired."""
    told = scene.to_clause("past", negated=False)
    return lambda it: (
        told
        + make_aligned_pair("even though", "même si")
        + it.to_subject_clause("imperfect", VERY)
        + full_stop_phrase()
    )


@register_frame(in_short_corpus=True)
def question(scene: TransitiveEvent) -> SlotFiller:
    """Why didn't the animal cross the street? Because it was too tired."""
    asks = question_clause(scene.subject, scene.verb, "past", NOT) + scene.direct_object.phrase
    told = make_aligned_pair("why", "pourquoi est-ce que") + asks + make_aligned_pair("?", "?")
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame()
def hearsay(scene: TransitiveEvent) -> SlotFiller:
    """The farmer says that the animal didn't cross the street because it was too tired."""
    says = scene.chooser.reporting_verb()
    w = scene.chooser
    who = w.noun_phrase(w.noun(("person",)), w.pick((THE, MY)), adjective_rate=0)
    told = clause(who, says, "present") + make_aligned_pair("that", "que") + scene.to_clause("past")
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame(AVOIDING_VERBS)
def avoided(scene: TransitiveEvent) -> SlotFiller:
    """The animal avoided the street because it was too tired."""
    told = scene.to_clause("past", negated=False)
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame()
def dated_reason(scene: TransitiveEvent) -> SlotFiller:
    """Yesterday, the animal didn't cross the street because it was very tired."""
    told = (
        scene.chooser.time_adverbial("past") + make_aligned_pair(",", ",") + scene.to_clause("past")
    )
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", VERY) + full_stop_phrase()
    )


@register_frame(_transitives("traverser", "gravir"))
def turned_round(scene: TransitiveEvent) -> SlotFiller:
    """The street frightened the animal because it was too wide."""
    stops = scene.chooser.pick(OBSTRUCTING_VERBS)
    told = clause(scene.direct_object, stops, "past", scene.subject)
    return lambda it: (
        told + because_phrase() + it.to_subject_clause("imperfect", TOO) + full_stop_phrase()
    )


@register_frame(STAYING_VERBS, it_is_object=True)
def while_someone(scene: TransitiveEvent) -> SlotFiller:
    """The dog was waiting in front of the house because the girl was feeding it."""
    w = scene.chooser
    who = w.noun_phrase(w.noun(("person",)), THE, plural=False, adjective_rate=0.2)
    told = scene.to_clause("imperfect", negated=False)
    return lambda it: told + because_phrase() + it.to_object_clause(who) + full_stop_phrase()


@register_frame()
def meanwhile_tried(scene: TransitiveEvent) -> SlotFiller:
    """While the girl was singing, the animal tried to cross the street, but it was too tired."""
    w = scene.chooser
    action = w.pick([each for each in w.lexicon.intransitive_verbs if not each.is_momentary])
    who = w.noun_phrase(w.noun(("person",)), THE, adjective_rate=0.4)
    start = (
        make_aligned_pair("while", "pendant que")
        + clause(who, action, "imperfect")
        + make_aligned_pair(",", ",")
    )
    told = tried(scene)
    return lambda it: start + told(it)


TEXTBOOK_PAIRS = (("animal", "tired"), ("street", "wide"))
"""Never reserved."""


INANIMATE_KINDS = frozenset(kind for kind in NOUN_TABLES if kind not in NOUN_KIND_GROUPS["animate"])


CONTRADICTING_ADJECTIVES = frozenset(
    {"sweet", "fresh", "ripe", "juicy", "sunny", "strong", "brave", "quiet", "solid", "good"}
)
"""What would contradict a hindrance: a brave dove is not too afraid."""


DECISIVE_RATE = 0.85
"""How often the two candidates are made to differ in gender."""


Predicate = Adjective | Verb


@dataclass(frozen=True, slots=True)
class MinimalPairItem:
    """A sentence with "it", and how to tell it otherwise."""

    name: str
    phrase: BilingualPhrase
    build: SlotFiller
    pronoun: PronounPredicate
    antecedent: PronounRole
    """Which of the two candidates "it" is."""
    is_decisive: bool
    """Whether the pronoun would differ for the other candidate."""

    def rebuild(self, correct: bool, masked: bool = False) -> BilingualPhrase:
        """Tell it with the right pronoun or with the other one; the predicate may be hidden."""
        other: Gender = "f" if self.pronoun.gender == "m" else "m"
        gender = self.pronoun.gender if correct else other
        return self.build(PronounPredicate(gender, None if masked else self.pronoun.predicate))


def is_reserved(noun: Noun, adjective: Adjective) -> bool:
    """Say whether noun and predicate are kept apart but in `novel_pairs`."""
    if (
        not (adjective.is_hindrance and adjective.fits_noun(noun))
        or (noun.en, adjective.en) in TEXTBOOK_PAIRS
    ):
        return False
    # Neighbours in the tables differ in gender or in kind: both of a pair share their fate.
    return (NOUNS.index(noun) // 2 + 3 * (ADJECTIVES.index(adjective) // 2)) % 7 == 4


@cache
def find_candidates(
    lexicon: FableLexicon, kinds: tuple[NounKind, ...], reserved: bool
) -> tuple[tuple[Noun, Adjective], ...]:
    """Return the nouns of these kinds with the hindrances that they can have."""
    return tuple(
        (noun, adjective)
        for noun in lexicon.nouns_of_kinds(kinds)
        for adjective in lexicon.adjectives
        if adjective.is_hindrance
        and adjective.fits_noun(noun)
        and is_reserved(noun, adjective) == reserved
    )


def generate_minimal_pair(
    w: WordChooser, short: bool = False, unseen: bool = False
) -> tuple[MinimalPairItem, MinimalPairItem]:
    """Tell a scene twice."""
    frames = [each for each in PRONOUN_FRAMES if each.in_short_corpus or not short]
    frame = w.pick([each for each in frames if not (unseen and each.it_is_object)])
    verb = w.pick(_verbs(w, frame, unseen))
    doer, thing = _cast(w, verb, unseen)
    scene = TransitiveEvent(w, _neutral(w, doer[0], "doer"), verb, _neutral(w, thing[0], "thing"))
    if frame.it_is_object:
        upkeep = [each for each in MAINTENANCE_VERBS if thing[0].kind in each.object_kinds]
        return fill_frame_twice(frame, scene, w.pick(CARE_VERBS), w.pick(upkeep))
    return fill_frame_twice(frame, scene, doer[1], thing[1])


def fill_frame_twice(
    frame: PronounFrame,
    event: TransitiveEvent,
    subject_predicate: Predicate,
    object_predicate: Predicate,
) -> tuple[MinimalPairItem, MinimalPairItem]:
    """Close a frame with a predicate of the doer, and with one of the thing."""
    tell = cache(frame.build(event))  # the twins share what they hide
    genders = event.subject.agreement.gender, event.direct_object.agreement.gender

    def twin(meant: PronounRole, it: PronounPredicate) -> MinimalPairItem:
        return MinimalPairItem(frame.name, tell(it), tell, it, meant, genders[0] != genders[1])

    return twin("doer", PronounPredicate(genders[0], subject_predicate)), twin(
        "thing", PronounPredicate(genders[1], object_predicate)
    )


def textbook_pair(w: WordChooser) -> tuple[MinimalPairItem, MinimalPairItem]:
    """Return the two sentences that everybody knows."""
    animal, street = (next(n for n in NOUNS if n.en == name) for name, _ in TEXTBOOK_PAIRS)
    tired, wide = (next(a for a in ADJECTIVES if a.en == name) for _, name in TEXTBOOK_PAIRS)
    cross = next(verb for verb in TRANSITIVE_VERBS if verb.en == "cross")
    scene = TransitiveEvent(
        w,
        build_noun_phrase(THE, animal, role="doer"),
        cross,
        build_noun_phrase(THE, street, role="thing"),
    )
    return fill_frame_twice(PRONOUN_FRAMES[0], scene, tired, wide)


def _verbs(w: WordChooser, frame: PronounFrame, novel: bool) -> list[Verb]:
    """Return the verbs of a frame that the lexicon has words for."""
    known = [v for v in frame.verbs if v in w.lexicon.transitive_verbs or v not in TRANSITIVE_VERBS]
    return [verb for verb in known if find_candidates(w.lexicon, verb.object_kinds, novel)]


def _cast(
    w: WordChooser, verb: Verb, novel: bool
) -> tuple[tuple[Noun, Adjective], tuple[Noun, Adjective]]:
    """Choose the doer and the thing, each with what could be said of it."""
    things = [
        each
        for each in find_candidates(w.lexicon, verb.object_kinds, novel)
        if each[0].kind in INANIMATE_KINDS
    ]
    thing = w.pick(things)
    doers = find_candidates(w.lexicon, ("animal",), novel)
    if w.chance(DECISIVE_RATE) or novel:
        doers = tuple(each for each in doers if each[0].gender != thing[0].gender)
    if thing[0].kind in NOUN_KIND_GROUPS["food"]:  # being hungry is no reason not to eat
        doers = tuple(each for each in doers if each[1].en != "hungry")
    return w.pick(doers), thing


def _neutral(w: WordChooser, noun: Noun, mark: PronounRole) -> NounPhrase:
    """Return a noun phrase that does not help to decide."""
    fitting = [a for a in w.lexicon.adjectives if a.fits_noun(noun) and not a.is_hindrance]
    fitting = [adjective for adjective in fitting if adjective.en not in CONTRADICTING_ADJECTIVES]
    some = (w.pick(fitting),) if fitting and w.chance(0.25) else ()
    determiner = w.pick((THE, THE, THE, THE, THIS, MY))
    return build_noun_phrase(determiner, noun, some, role=mark)
