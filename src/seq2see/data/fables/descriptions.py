"""Constructions that say how things are, how many there are, and what they are made of."""

from __future__ import annotations

from seq2see.data.fables import english
from seq2see.data.fables.actions import BE, DRINK, HAVE
from seq2see.data.fables.adjectives import Adjective
from seq2see.data.fables.clauses import NOT, YES, being, clause, infinitive, verb_group
from seq2see.data.fables.constructions import construction
from seq2see.data.fables.determiners import ANY, MANY, MY, NUMBERS, SEVERAL, SOME, THE, THIS, A
from seq2see.data.fables.nominals import Nominal, nominal
from seq2see.data.fables.nouns import Kind, Noun
from seq2see.data.fables.phrases import EMPTY, Link, Phrase, pair, spell
from seq2see.data.fables.statements import STOP, named
from seq2see.data.fables.writer import ANIMATE, Writer

VERY, TOO, SO = ("very", "très"), ("too", "trop"), ("so", "si")
COMPARED: tuple[Kind, ...] = ("animal", "person", "road", "water", "height", "building", "load")


@construction(weight=5, short=True)
def property_of(w: Writer) -> Phrase:
    """The river was very deep. La rivière était très profonde."""
    noun = w.pick([noun for noun in w.lexicon.nouns if noun.kind not in {"part", "opening"}])
    subject = w.described(noun, w.pick((THE, THE, THIS, MY)), rich=0)
    adjective = w.adjective(noun, attributive=False)
    polarity = NOT if w.chance(0.25) else YES
    degree = pair(*w.pick((VERY, TOO) if adjective.hindrance else (VERY,)))
    if polarity is NOT or w.chance(0.4):
        degree = EMPTY
    tense = w.among("present", "imperfect", "future")
    return being(subject, adjective, tense, polarity, degree) + STOP


def comparable(w: Writer, noun: Noun) -> Adjective:
    """Choose an adjective that can be compared."""
    fitting = [each for each in w.lexicon.adjectives if each.suits(noun)]
    return w.pick([each for each in fitting if each.gradable and not each.idiom])


@construction(weight=4, short=True)
def comparison(w: Writer) -> Phrase:
    """The street is wider than the path. La rue est plus large que le chemin."""
    noun = w.noun(w.known(COMPARED))
    subject = w.described(noun, w.pick((THE, THIS, MY)), rich=0)
    other = w.described(w.noun((noun.kind,), noun), w.pick((THE, THIS, MY)), rich=0.1)
    verb = verb_group(BE, w.among("present", "imperfect"), subject.agreement)
    return subject.phrase + verb + compared(w, comparable(w, noun), subject) + other.phrase + STOP


def compared(w: Writer, adjective: Adjective, subject: Nominal) -> Phrase:
    """Return "wider than", "less wide than" or "as wide as"."""
    degree, own, than = Link(), Link(), Link()
    fr = adjective.agreed(subject.agreement.gender, subject.agreement.plural)
    more, _, long = english.comparative(adjective.en).partition(" ")
    choices = {
        "plus": (spell(more, degree) + spell(long, own), "than"),
        "moins": (spell("less", degree) + spell(adjective.en, own), "than"),
        "aussi": (spell("as", degree) + spell(adjective.en, own), "as"),
    }
    adverb = w.pick(("plus", "plus", "moins", "aussi"))
    en, second = choices[adverb]
    if not long and adverb == "plus":
        en = spell(more, degree, own)
    french = spell(adverb, degree) + spell(fr, own) + spell("que", than)
    return Phrase(en + spell(second, than), french)


@construction()
def superlative(w: Writer) -> Phrase:
    """The lion is the strongest animal in the forest. … l'animal le plus fort de la forêt."""
    animal, *others = w.lexicon.of(("animal",))
    adjective = comparable(w, animal)
    if adjective.before:
        return superlative(w)
    quality = pair(english.superlative(adjective.en), f"le plus {adjective.fr}")
    kind = nominal(THE, animal).phrase
    subject = w.described(w.pick(others), THE, plural=False, rich=0)
    named_ = Phrase(kind.en[:1] + quality.en + kind.en[1:], kind.fr + quality.fr)
    verb = verb_group(BE, "present", subject.agreement)
    there = w.described(w.noun(("land",)), THE, plural=False).phrase
    return subject.phrase + verb + named_ + pair("in", "de") + there + STOP


@construction(weight=4)
def partitive(w: Writer) -> Phrase:
    """The girl is eating some bread. La fille mange du pain."""
    verb = named(w, "manger", "acheter", "vendre")
    food = nominal(SOME, w.noun(("provision",)))
    tense = w.tense(verb)
    where = w.where() if w.chance(0.4) else EMPTY
    when = w.when(tense) if w.chance(0.4) else EMPTY
    return clause(w.some(verb.subjects), verb, tense, food) + where + when + STOP


@construction()
def none(w: Writer) -> Phrase:
    """The girl doesn't eat any bread. La fille ne mange pas de pain."""
    verb = named(w, "manger", "acheter", "vendre")
    many = w.noun(("fruit", "dish"))
    food = nominal(ANY, w.noun(("provision",))) if w.chance(0.5) else nominal(ANY, many, (), True)
    return clause(w.some(verb.subjects), verb, w.among("present", "past"), food, NOT) + STOP


@construction(weight=2)
def drinking(w: Writer) -> Phrase:
    """The cat drinks some milk. Le chat boit du lait."""
    en, article, fr = w.pick(DRINKS)
    if w.chance(0.4):
        polarity, drink = NOT, pair("any", "de") + pair(en, fr)
    else:
        polarity, drink = YES, pair("some", article) + pair(en, fr)
    tense = w.tense(DRINK)
    when = w.when(tense) if w.chance(0.4) else EMPTY
    return clause(w.some(ANIMATE), DRINK, tense, polarity=polarity) + drink + when + STOP


DRINKS = (
    ("water", "de la", "eau"),
    ("milk", "de le", "lait"),
    ("tea", "de le", "thé"),
    ("lemonade", "de la", "limonade"),
    ("wine", "de le", "vin"),
)


@construction(weight=4, short=True)
def existence(w: Writer) -> Phrase:
    """There are three foxes in the old barn. Il y a trois renards dans la vieille grange."""
    determiner = w.pick((A, A, *NUMBERS, MANY, SEVERAL))
    noun = w.noun(w.known((*ANIMATE, "load", "belonging")))
    thing = w.described(noun, determiner, plural=determiner is not A)
    now, then = ("are", "were") if thing.agreement.plural else ("is", "was")
    en, fr = w.pick(((now, "il y a"), (then, "il y avait")))
    return pair(f"there {en}", fr) + thing.phrase + w.where(noun) + STOP


@construction(weight=2)
def absence(w: Writer) -> Phrase:
    """There is no bread in the house. Il n'y a pas de pain dans la maison."""
    en, fr = w.pick((("there is", "a"), ("there was", "avait")))
    be, no = Link(), Link()
    there = spell("il", be) + spell("ne", no) + spell(f"y {fr}", be) + spell("pas de", no)
    noun = w.noun(("provision",))
    thing = pair(noun.en, noun.fr)
    return Phrase(spell(en, be) + spell("no", no), there) + thing + w.where() + STOP


@construction()
def feature(w: Writer) -> Phrase:
    """The fox has a long tail. Le renard a une longue queue."""
    owner = w.described(w.noun(("animal",)), w.pick((THE, THIS, MY)), plural=False, rich=0.1)
    part = w.noun(("part",))
    detail = nominal(A, part, (w.adjective(part),))
    tense = w.among("present", "imperfect")
    return clause(owner, HAVE, tense, detail) + STOP


@construction()
def identity(w: Writer) -> Phrase:
    """This is my old house. C'est ma vieille maison."""
    noun = w.noun(("animal", "person", "building", "load", "belonging"))
    thing = w.described(noun, w.pick((THE, A, MY)), plural=False, rich=0.6)
    en, fr = w.pick((("is", "est"), ("was", "était")))
    return pair("this", "ce") + pair(en, fr) + thing.phrase + STOP


@construction()
def pair_of_adjectives(w: Writer) -> Phrase:
    """The goats are tired but happy. Les chèvres sont fatiguées mais heureuses."""
    noun = w.noun(ANIMATE)
    subject = w.described(noun, w.pick((THE, THIS, MY)), rich=0)
    first, second = comparable(w, noun), comparable(w, noun)
    if first == second or first.before or second.before:
        return pair_of_adjectives(w)
    of = subject.agreement
    join = pair("and", "et") if first.hindrance == second.hindrance else pair("but", "mais")
    more = pair(second.en, second.agreed(of.gender, of.plural))
    return being(subject, first, w.among("present", "imperfect")) + join + more + STOP


@construction()
def motive(w: Writer) -> Phrase:
    """The fox is too tired to cross the street. … trop fatigué pour traverser la rue."""
    actor, verb, obj = w.deed()
    assert actor.noun is not None
    subject = w.described(actor.noun, w.pick((THE, THIS, MY)), rich=0)
    hindrances = [a for a in w.lexicon.adjectives if a.hindrance and a.suits(actor.noun)]
    said = being(subject, w.pick(hindrances), w.among("present", "imperfect"), YES, pair(*TOO))
    return said + Phrase((), spell("pour")) + infinitive(verb) + obj.phrase + STOP
