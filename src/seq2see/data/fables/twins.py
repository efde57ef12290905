"""Pronoun cases in pairs: one scene told twice, with a predicate of the doer and one of the thing.

Twins are equal up to the predicate, so that nothing but the predicate tells what "it" is. Some
pairs of noun and predicate are reserved: no sentence of the ordinary splits has both words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from seq2see.data.fables.actions import TRANSITIVES
from seq2see.data.fables.adjectives import ADJECTIVES, GROUPS, Adjective
from seq2see.data.fables.determiners import MY, THE, THIS
from seq2see.data.fables.frames import CARE, FRAMES, UPKEEP, Frame, It, Scene, Telling
from seq2see.data.fables.french import Gender
from seq2see.data.fables.nominals import Nominal, nominal
from seq2see.data.fables.nouns import NOUNS, TABLES, Kind, Noun
from seq2see.data.fables.phrases import Mark, Phrase
from seq2see.data.fables.verbs import Verb
from seq2see.data.fables.writer import Lexicon, Writer

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
