"""What does "it" mean? Sentences with two candidates, of which a predicate fits only one.

A scene is someone who does something to something. A frame tells the scene and leaves open what is
said of "it"; the writer closes it twice, once with a predicate of the subject and once with one of
the object. Such twins are equal up to the predicate, so that nothing else can tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seq2see.data.fables.actions import TRANSITIVES, WANTERS, verb
from seq2see.data.fables.adjectives import Adjective
from seq2see.data.fables.clauses import NEVER, NOT, clause, infinitive, quality, verb_group
from seq2see.data.fables.descriptions import TOO, VERY
from seq2see.data.fables.determiners import MY, THE
from seq2see.data.fables.french import Gender
from seq2see.data.fables.nominals import Agreement, Nominal, anaphor, clitic
from seq2see.data.fables.phrases import EMPTY, Phrase, Word, pair, spell
from seq2see.data.fables.questions import asked
from seq2see.data.fables.statements import could_not
from seq2see.data.fables.verbs import Tense, Verb
from seq2see.data.fables.writer import Writer

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
