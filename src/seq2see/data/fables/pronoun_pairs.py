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

from seq2see.data.fables.complex_sentences import asked
from seq2see.data.fables.lexicon import (
    ADJECTIVES,
    GROUPS,
    MY,
    NOUNS,
    TABLES,
    THE,
    THIS,
    Adjective,
    Kind,
    Noun,
)
from seq2see.data.fables.morphology import Gender, Tense
from seq2see.data.fables.phrases import (
    EMPTY,
    NEVER,
    NOT,
    Agreement,
    Mark,
    Nominal,
    Phrase,
    Word,
    anaphor,
    clause,
    clitic,
    infinitive,
    nominal,
    pair,
    quality,
    spell,
    verb_group,
)
from seq2see.data.fables.simple_sentences import TOO, VERY, could_not
from seq2see.data.fables.verbs import TRANSITIVES, WANTERS, Verb, verb
from seq2see.data.fables.word_choice import Lexicon, Writer

SO_MUCH = ("so", "tellement")


HIDDEN = "…"
"""Stands where a control hides the predicate."""


@dataclass(frozen=True, slots=True)
class It:
    """The pronoun, and what is said of it: an adjective, or what someone does to it, or hidden."""

    gender: Gender
    predicate: Adjective | Verb | None

    def being(self, tense: Tense, degree: tuple[str, str] | None = None) -> Phrase:
        """Return "it was too tired"; hidden, "it was too …" and "il …"."""
        it = anaphor(Agreement(self.gender))
        much = pair(*degree) if degree else EMPTY
        if isinstance(self.predicate, Adjective):
            said = quality(self.predicate, it.agreement, tense, degree=much)
            return it.phrase + Phrase((*said.en[:-1], _predicate(said.en[-1])), said.fr)
        be = {"present": "is", "imperfect": "was"}[tense]
        return it.phrase + Phrase(spell(be) + much.en, ()) + pair(HIDDEN, HIDDEN)

    def having_done(self, who: Nominal) -> Phrase:
        """Return "the girl was feeding it"; hidden, "the girl was … it" and "la fille le …"."""
        it = clitic(Agreement(self.gender))
        if isinstance(self.predicate, Verb):
            said = verb_group(self.predicate, "imperfect", who.agreement, clitic=it)
            was, doing, what = said.en
            return who.phrase + Phrase((was, _predicate(doing), what), said.fr)
        hidden = pair(HIDDEN, HIDDEN)
        return who.phrase + Phrase(
            spell("was") + hidden.en + it.phrase.en, it.phrase.fr + hidden.fr
        )


def _predicate(word: Word) -> Word:
    return word._replace(mark="predicate")


@dataclass(frozen=True, slots=True)
class Scene:
    """Who does what to what."""

    writer: Writer
    doer: Nominal
    verb: Verb
    thing: Nominal

    def told(self, tense: Tense, negated: bool = True) -> Phrase:
        """Return it as a clause."""
        if not negated:
            return clause(self.doer, self.verb, tense, self.thing)
        return clause(self.doer, self.verb, tense, self.thing, NOT)


Telling = Callable[[It], Phrase]


Tell = Callable[[Scene], Telling]


@dataclass(frozen=True, slots=True)
class Frame:
    """A construction with an open place for what is said of "it"."""

    name: str
    tell: Tell
    verbs: tuple[Verb, ...]
    short: bool
    done_to: bool = False
    """Whether "it" is the object of another verb."""


def _transitives(*infinitives: str) -> tuple[Verb, ...]:
    return tuple(each for each in TRANSITIVES if each.fr.infinitive in infinitives)


FRAMES: list[Frame] = []


HARD = _transitives(
    *("traverser", "gravir", "entrer", "explorer", "porter", "soulever", "pousser", "tirer"),
    *("manger", "goûter", "voler"),
)
"""What one may fail to do because "it" is too much or too little."""


SHUNNING = _transitives("éviter", "quitter", "contourner")
"""What one does because of that."""


LINGERING = tuple(
    verb(line)
    for line in (
        "wait in_front_of | attendre devant | animal | building hollow",
        "stay in | rester dans | animal | building hollow",
        "stay near | rester près_de | animal | building",
        "play behind | jouer derrière | animal | building",
    )
)


OBSTRUCTING = tuple(
    verb(line)
    for line in (
        "frighten | effrayer",
        "stop | arrêter",
        "slow down | ralentir",
        "delay | retarder",
    )
)


CARE = _transitives("nourrir", "caresser", "brosser", "gronder")


UPKEEP = _transitives("peindre", "réparer", "balayer", "construire", "décorer")


def frame(
    verbs: tuple[Verb, ...] = HARD, short: bool = False, done_to: bool = False
) -> Callable[[Tell], Tell]:
    """Add a function to the list of frames under its name."""

    def add(tell: Tell) -> Tell:
        FRAMES.append(Frame(tell.__name__, tell, verbs, short, done_to))
        return tell

    return add


def stop() -> Phrase:
    """End a sentence, of which there may be two."""
    return pair(".", ".")


def because() -> Phrase:
    """Join a reason."""
    return pair("because", "parce que")


@frame(short=True)
def because_it_was(scene: Scene) -> Telling:
    """The animal didn't cross the street because it was too tired."""
    told = scene.told("past")
    return lambda it: told + because() + it.being("imperfect", TOO) + stop()


@frame(short=True)
def because_it_is(scene: Scene) -> Telling:
    """The animal doesn't cross the street because it is too tired."""
    told = scene.told("present")
    return lambda it: told + because() + it.being("present", TOO) + stop()


@frame(short=True)
def two_sentences(scene: Scene) -> Telling:
    """The animal didn't cross the street. It was too tired."""
    told = scene.told("past")
    return lambda it: told + stop() + it.being("imperfect", TOO) + stop()


@frame(short=True)
def tried(scene: Scene) -> Telling:
    """The animal tried to cross the street, but it was too tired."""
    trying = next(verb for verb in WANTERS if verb.en == "try")
    told = clause(scene.doer, trying, "past") + infinitive(scene.verb) + scene.thing.phrase
    return lambda it: told + pair(", but", ", mais") + it.being("imperfect", TOO) + stop()


@frame()
def could_not_because(scene: Scene) -> Telling:
    """The animal couldn't cross the street because it was so tired."""
    able = could_not(plural=False)
    told = scene.doer.phrase + able + infinitive(scene.verb, "") + scene.thing.phrase
    return lambda it: told + because() + it.being("imperfect", SO_MUCH) + stop()


@frame()
def if_it_is(scene: Scene) -> Telling:
    """The animal won't cross the street if it is too tired."""
    told = scene.told("future")
    return lambda it: told + pair("if", "si") + it.being("present", TOO) + stop()


@frame()
def never_when(scene: Scene) -> Telling:
    """The animal never crosses the street when it is tired."""
    told = clause(scene.doer, scene.verb, "present", scene.thing, NEVER)
    return lambda it: told + pair("when", "quand") + it.being("present") + stop()


@frame()
def even_though(scene: Scene) -> Telling:
    """The animal crossed the street even though it was very tired."""
    told = scene.told("past", negated=False)
    return lambda it: told + pair("even though", "même si") + it.being("imperfect", VERY) + stop()


@frame(short=True)
def question(scene: Scene) -> Telling:
    """Why didn't the animal cross the street? Because it was too tired."""
    asks = asked(scene.doer, scene.verb, "past", NOT) + scene.thing.phrase
    told = pair("why", "pourquoi est-ce que") + asks + pair("?", "?")
    return lambda it: told + because() + it.being("imperfect", TOO) + stop()


@frame()
def hearsay(scene: Scene) -> Telling:
    """The farmer says that the animal didn't cross the street because it was too tired."""
    says = scene.writer.sayer()
    w = scene.writer
    who = w.described(w.noun(("person",)), w.pick((THE, MY)), rich=0)
    told = clause(who, says, "present") + pair("that", "que") + scene.told("past")
    return lambda it: told + because() + it.being("imperfect", TOO) + stop()


@frame(SHUNNING)
def avoided(scene: Scene) -> Telling:
    """The animal avoided the street because it was too tired."""
    told = scene.told("past", negated=False)
    return lambda it: told + because() + it.being("imperfect", TOO) + stop()


@frame()
def dated_reason(scene: Scene) -> Telling:
    """Yesterday, the animal didn't cross the street because it was very tired."""
    told = scene.writer.when("past") + pair(",", ",") + scene.told("past")
    return lambda it: told + because() + it.being("imperfect", VERY) + stop()


@frame(_transitives("traverser", "gravir"))
def turned_round(scene: Scene) -> Telling:
    """The street frightened the animal because it was too wide."""
    stops = scene.writer.pick(OBSTRUCTING)
    told = clause(scene.thing, stops, "past", scene.doer)
    return lambda it: told + because() + it.being("imperfect", TOO) + stop()


@frame(LINGERING, done_to=True)
def while_someone(scene: Scene) -> Telling:
    """The dog was waiting in front of the house because the girl was feeding it."""
    w = scene.writer
    who = w.described(w.noun(("person",)), THE, plural=False, rich=0.2)
    told = scene.told("imperfect", negated=False)
    return lambda it: told + because() + it.having_done(who) + stop()


@frame()
def meanwhile_tried(scene: Scene) -> Telling:
    """While the girl was singing, the animal tried to cross the street, but it was too tired."""
    w = scene.writer
    action = w.pick([each for each in w.lexicon.intransitives if not each.momentary])
    who = w.described(w.noun(("person",)), THE, rich=0.4)
    start = pair("while", "pendant que") + clause(who, action, "imperfect") + pair(",", ",")
    told = tried(scene)
    return lambda it: start + told(it)


FAMOUS = (("animal", "tired"), ("street", "wide"))
"""Never reserved."""


THINGS = frozenset(kind for kind in TABLES if kind not in GROUPS["animate"])


CONTRARY = frozenset(
    {"sweet", "fresh", "ripe", "juicy", "sunny", "strong", "brave", "quiet", "solid", "good"}
)
"""What would contradict a hindrance: a brave dove is not too afraid."""


DECISIVE = 0.85
"""How often the two candidates are made to differ in gender."""


Predicate = Adjective | Verb


@dataclass(frozen=True, slots=True)
class Twin:
    """A sentence with "it", and how to tell it otherwise."""

    name: str
    phrase: Phrase
    tell: Telling
    it: It
    meant: Mark
    """Which of the two candidates "it" is."""
    decisive: bool
    """Whether the pronoun would differ for the other candidate."""

    def told(self, right: bool, hidden: bool = False) -> Phrase:
        """Tell it with the right pronoun or with the other one; the predicate may be hidden."""
        other: Gender = "f" if self.it.gender == "m" else "m"
        gender = self.it.gender if right else other
        return self.tell(It(gender, None if hidden else self.it.predicate))


def reserved(noun: Noun, adjective: Adjective) -> bool:
    """Say whether noun and predicate are kept apart but in `novel_pairs`."""
    if not (adjective.hindrance and adjective.suits(noun)) or (noun.en, adjective.en) in FAMOUS:
        return False
    # Neighbours in the tables differ in gender or in kind: both of a pair share their fate.
    return (NOUNS.index(noun) // 2 + 3 * (ADJECTIVES.index(adjective) // 2)) % 7 == 4


@cache
def candidates(
    lexicon: Lexicon, kinds: tuple[Kind, ...], novel: bool
) -> tuple[tuple[Noun, Adjective], ...]:
    """Return the nouns of these kinds with the hindrances that they can have."""
    return tuple(
        (noun, adjective)
        for noun in lexicon.of(kinds)
        for adjective in lexicon.adjectives
        if adjective.hindrance and adjective.suits(noun) and reserved(noun, adjective) == novel
    )


def twins(w: Writer, short: bool = False, novel: bool = False) -> tuple[Twin, Twin]:
    """Tell a scene twice."""
    frames = [each for each in FRAMES if each.short or not short]
    frame = w.pick([each for each in frames if not (novel and each.done_to)])
    verb = w.pick(_verbs(w, frame, novel))
    doer, thing = _cast(w, verb, novel)
    scene = Scene(w, _neutral(w, doer[0], "doer"), verb, _neutral(w, thing[0], "thing"))
    if frame.done_to:
        upkeep = [each for each in UPKEEP if thing[0].kind in each.objects]
        return told_twice(frame, scene, w.pick(CARE), w.pick(upkeep))
    return told_twice(frame, scene, doer[1], thing[1])


def told_twice(
    frame: Frame, scene: Scene, of_doer: Predicate, of_thing: Predicate
) -> tuple[Twin, Twin]:
    """Close a frame with a predicate of the doer, and with one of the thing."""
    tell = cache(frame.tell(scene))  # the twins share what they hide
    genders = scene.doer.agreement.gender, scene.thing.agreement.gender

    def twin(meant: Mark, it: It) -> Twin:
        return Twin(frame.name, tell(it), tell, it, meant, genders[0] != genders[1])

    return twin("doer", It(genders[0], of_doer)), twin("thing", It(genders[1], of_thing))


def famous(w: Writer) -> tuple[Twin, Twin]:
    """Return the two sentences that everybody knows."""
    animal, street = (next(n for n in NOUNS if n.en == name) for name, _ in FAMOUS)
    tired, wide = (next(a for a in ADJECTIVES if a.en == name) for _, name in FAMOUS)
    cross = next(verb for verb in TRANSITIVES if verb.en == "cross")
    scene = Scene(w, nominal(THE, animal, mark="doer"), cross, nominal(THE, street, mark="thing"))
    return told_twice(FRAMES[0], scene, tired, wide)


def _verbs(w: Writer, frame: Frame, novel: bool) -> list[Verb]:
    """Return the verbs of a frame that the lexicon has words for."""
    known = [v for v in frame.verbs if v in w.lexicon.transitives or v not in TRANSITIVES]
    return [verb for verb in known if candidates(w.lexicon, verb.objects, novel)]


def _cast(
    w: Writer, verb: Verb, novel: bool
) -> tuple[tuple[Noun, Adjective], tuple[Noun, Adjective]]:
    """Choose the doer and the thing, each with what could be said of it."""
    things = [each for each in candidates(w.lexicon, verb.objects, novel) if each[0].kind in THINGS]
    thing = w.pick(things)
    doers = candidates(w.lexicon, ("animal",), novel)
    if w.chance(DECISIVE) or novel:
        doers = tuple(each for each in doers if each[0].gender != thing[0].gender)
    if thing[0].kind in GROUPS["food"]:  # being hungry is no reason not to eat
        doers = tuple(each for each in doers if each[1].en != "hungry")
    return w.pick(doers), thing


def _neutral(w: Writer, noun: Noun, mark: Mark) -> Nominal:
    """Return a noun phrase that does not help to decide."""
    fitting = [a for a in w.lexicon.adjectives if a.suits(noun) and not a.hindrance]
    fitting = [adjective for adjective in fitting if adjective.en not in CONTRARY]
    some = (w.pick(fitting),) if fitting and w.chance(0.25) else ()
    determiner = w.pick((THE, THE, THE, THE, THIS, MY))
    return nominal(determiner, noun, some, mark=mark)
