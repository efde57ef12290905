"""Constructions of one clause: statements and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seq2see.data.fables import morphology
from seq2see.data.fables.lexicon import (
    ALL,
    ANY,
    EVERY,
    HER,
    HIS,
    ITS,
    MANY,
    MY,
    NUMBERS,
    OUR,
    SEVERAL,
    SOME,
    THE,
    THEIR,
    THIS,
    A,
    Adjective,
    Kind,
    Noun,
)
from seq2see.data.fables.morphology import Person, Tense
from seq2see.data.fables.phrases import (
    EMPTY,
    NEVER,
    NO_LONGER,
    NOT,
    NOTHING,
    YES,
    Link,
    Nominal,
    Phrase,
    being,
    both,
    clause,
    infinitive,
    nominal,
    pair,
    past,
    pronoun,
    spell,
    verb_group,
)
from seq2see.data.fables.verbs import BE, DRINK, HAVE, Verb
from seq2see.data.fables.word_choice import ANIMATE, HOW, Writer

Make = Callable[[Writer], Phrase]


@dataclass(frozen=True, slots=True)
class Construction:
    """A way to make a sentence."""

    name: str
    make: Make
    weight: int
    short: bool
    """Whether the short corpus has it."""


CONSTRUCTIONS: list[Construction] = []


def construction(weight: int = 3, short: bool = False) -> Callable[[Make], Make]:
    """Add a function to the list under its name."""

    def add(make: Make) -> Make:
        CONSTRUCTIONS.append(Construction(make.__name__, make, weight, short))
        return make

    return add


STOP, COMMA = pair(".", "."), pair(",", ",")


def named(w: Writer, *infinitives: str) -> Verb:
    """Choose among the transitive verbs with these French infinitives."""
    return w.pick([verb for verb in w.lexicon.transitives if verb.fr.infinitive in infinitives])


def intransitive_named(w: Writer, *infinitives: str) -> Verb:
    """Choose among the intransitive verbs with these French infinitives."""
    return w.pick([verb for verb in w.lexicon.intransitives if verb.fr.infinitive in infinitives])


def spot(w: Writer, verb: Verb, probability: float) -> Phrase:
    """Return a place where it happens, perhaps; one does not leave near a bridge."""
    placeless = bool(verb.en_rest) or verb.fr.infinitive == "partir"
    return EMPTY if placeless or not w.chance(probability) else w.where()


def definite(w: Writer, kinds: Sequence[Kind], *but: Noun | None, rich: float = 0.3) -> Nominal:
    """Return a noun phrase that speaks of something known."""
    return w.described(w.noun(w.known(kinds), *but), w.pick((THE, THE, THIS, MY)), rich=rich)


def known_object(w: Writer, verb: Verb, *but: Noun | None) -> Nominal:
    """Return an object that is definite, as it must be after a negation."""
    return definite(w, verb.objects, *but)


@construction(weight=4, short=True)
def intransitive(w: Writer) -> Phrase:
    """The mouse was sleeping near the bridge. La souris dormait près du pont."""
    verb = w.intransitive()
    tense = w.tense(verb)
    where = spot(w, verb, 0.6)
    when = EMPTY if verb.state or w.chance(0.6) else w.when(tense)
    return clause(w.some(verb.subjects), verb, tense) + where + when + STOP


@construction()
def manner(w: Writer) -> Phrase:
    """The goat walks slowly. La chèvre marche lentement."""
    verb = intransitive_named(w, "courir", "marcher", "travailler", "nager", "respirer", "danser")
    how = pair(*w.pick(HOW))
    return clause(w.some(ANIMATE, rich=0.5), verb, w.tense(verb)) + how + STOP


@construction(weight=7, short=True)
def transitive(w: Writer) -> Phrase:
    """The fox crossed the deep river. Le renard a traversé la rivière profonde."""
    subject, verb, obj = w.action()
    return clause(subject, verb, w.tense(verb), obj) + STOP


@construction(weight=4)
def dated(w: Writer) -> Phrase:
    """Yesterday, the fox crossed the river. Hier, le renard a traversé la rivière."""
    subject, verb, obj = w.action()
    tense: Tense = "present" if verb.state else w.tense(verb)
    return w.when(tense) + COMMA + clause(subject, verb, tense, obj) + STOP


@construction(weight=5, short=True)
def negated(w: Writer) -> Phrase:
    """The fox didn't cross the river. Le renard n'a pas traversé la rivière."""
    subject, verb, _ = w.action()
    obj = known_object(w, verb, subject.noun)
    return clause(subject, verb, w.tense(verb), obj, NOT) + STOP


@construction(short=True)
def never(w: Writer) -> Phrase:
    """The fox has never crossed the river. Le renard n'a jamais traversé la rivière."""
    subject, verb, _ = w.action()
    tense: Tense = "present" if verb.state else w.among("present", "perfect", "future")
    return clause(subject, verb, tense, known_object(w, verb, subject.noun), NEVER) + STOP


@construction()
def no_longer(w: Writer) -> Phrase:
    """The fox no longer sleeps in the cave. Le renard ne dort plus dans la grotte."""
    tense = w.among("present", "present", "future")
    if w.chance(0.5):
        verb = named(w, "jouer", "parler", "obéir", "traverser", "visiter", "nourrir", "habiter")
        subject, obj = w.some(verb.subjects), known_object(w, verb)
        return clause(subject, verb, tense, obj, NO_LONGER) + STOP
    verb = intransitive_named(w, "dormir", "courir", "chanter", "travailler", "danser", "nager")
    return clause(w.some(verb.subjects), verb, tense, polarity=NO_LONGER) + w.where() + STOP


@construction()
def nothing(w: Writer) -> Phrase:
    """The fox saw nothing in the cave. Le renard n'a rien vu dans la grotte."""
    verb = named(w, "voir", "manger", "trouver", "entendre", "acheter", "cacher", "voler")
    where = w.where() if w.chance(0.6) else EMPTY
    tense = w.among("past", "past", "future", "present")
    return clause(w.some(verb.subjects), verb, tense, polarity=NOTHING) + where + STOP


@construction(weight=4)
def frequency(w: Writer) -> Phrase:
    """The fox has already crossed the river. Le renard a déjà traversé la rivière."""
    subject, verb, obj = w.action()
    tense: Tense = "present" if verb.state else w.among("present", "perfect", "future")
    return clause(subject, verb, tense, obj, adverb=w.often(tense)) + STOP


@construction(short=True)
def counted(w: Writer) -> Phrase:
    """Five little birds were sleeping. Cinq petits oiseaux dormaient."""
    verb = w.intransitive()
    subject = w.described(w.noun(verb.subjects), w.pick((*NUMBERS, MANY, SEVERAL)), True, rich=0.5)
    where = spot(w, verb, 0.6)
    return clause(subject, verb, w.tense(verb)) + where + STOP


@construction(weight=2)
def everyone(w: Writer) -> Phrase:
    """All the goats are sleeping. Toutes les chèvres dorment."""
    noun = w.noun(ANIMATE)
    plural = w.chance(0.6)
    subject = w.described(noun, ALL[noun.gender] if plural else EVERY, plural, rich=0.2)
    verb = w.intransitive()
    return clause(subject, verb, w.tense(verb)) + STOP


@construction(short=True)
def pair_of_subjects(w: Writer) -> Phrase:
    """The goat and the frog arrived. La chèvre et la grenouille sont arrivées."""
    first = w.some(ANIMATE, plural=False)
    second = w.some(ANIMATE, first.noun, plural=False)
    verb = w.intransitive()
    where = spot(w, verb, 0.5)
    return clause(both(first, second), verb, w.tense(verb)) + where + STOP


@construction(weight=4)
def wanting(w: Writer) -> Phrase:
    """The fox tried to cross the street. Le renard a essayé de traverser la rue."""
    subject, verb, obj = w.deed()
    wanter = w.wanter()
    tense = w.among("present", past(wanter), "future")
    group = verb_group(wanter, tense, subject.agreement, NOT if w.chance(0.3) else YES)
    return subject.phrase + group + infinitive(verb) + obj.phrase + STOP


@construction(weight=4)
def ability(w: Writer) -> Phrase:
    """The fox can't cross the street. Le renard ne peut pas traverser la rue."""
    subject, verb, obj = w.deed()
    plural = subject.agreement.plural
    can = w.pick((can_now(plural, True), can_now(plural, False), could_not(plural)))
    return subject.phrase + can + infinitive(verb, "") + obj.phrase + STOP


def can_now(plural: bool, able: bool) -> Phrase:
    """Return "can" or "can't"."""
    fr = "peuvent" if plural else "peut"
    return pair("can", fr) if able else pair("can't", f"ne {fr} pas")


def could_not(plural: bool) -> Phrase:
    """Return "couldn't"."""
    return pair("couldn't", "ne ont pas pu" if plural else "ne a pas pu")


@construction(weight=4)
def giving(w: Writer) -> Phrase:
    """The girl gives an apple to the horse. La fille donne une pomme au cheval."""
    verb = w.giver()
    giver = w.some(verb.subjects)
    gift = w.described(w.noun(verb.objects), w.pick((THE, A, MY, THIS)))
    receiver = w.described(w.noun(ANIMATE, giver.noun), w.pick((THE, A, MY)))
    group = verb_group(verb.plain, w.tense(verb), giver.agreement)
    to = pair(verb.en_rest, verb.fr_rest)
    return giver.phrase + group + gift.phrase + to + receiver.phrase + STOP


@construction(weight=3)
def passive(w: Writer) -> Phrase:
    """The mouse was found by the cat. La souris a été trouvée par le chat."""
    verb = named(w, *PASSIVES)
    agent = w.some(w.known(verb.subjects))
    victim = w.some(w.known(verb.objects), agent.noun)
    tense = w.among("past", "future")
    link, of = Link(), victim.agreement
    form = morphology.agreed(verb.fr.participle, of.gender, of.plural)
    done = Phrase(spell(verb.en_participle, link), spell(form, link))
    be = verb_group(BE, tense, of, NOT if w.chance(0.2) else YES)
    return victim.phrase + be + done + pair("by", "par") + agent.phrase + STOP


PASSIVES = (
    *("trouver", "porter", "pousser", "aider", "remercier", "saluer", "mordre", "réveiller"),
    *("inviter", "protéger", "consoler", "gronder", "nourrir", "caresser", "brosser", "acheter"),
    *("vendre", "cacher", "nettoyer", "peindre", "réparer", "balayer", "construire", "décorer"),
    *("ouvrir", "fermer", "dessiner", "garder", "poursuivre", "effrayer", "admirer", "voler"),
)


@construction(weight=4)
def first_person(w: Writer) -> Phrase:
    """I saw my horse near the bridge. J'ai vu mon cheval près du pont."""
    person: Person = w.pick(("I", "I", "we"))
    verb = named(w, *SEEING)
    determiner = w.pick((MY if person == "I" else OUR, THE, *NUMBERS[:4], A, THIS))
    plural = True if determiner in NUMBERS else None
    obj = w.described(w.noun(verb.objects), determiner, plural)
    where = w.where(obj.noun) if w.chance(0.4) else EMPTY
    polarity = NOT if determiner in (THE, THIS, MY, OUR) and w.chance(0.3) else YES
    return clause(pronoun(person), verb, w.among(*TIMES), obj, polarity) + where + STOP


SEEING = ("voir", "chercher", "trouver", "regarder", "suivre", "porter", "dessiner", "acheter")


TIMES: tuple[Tense, ...] = ("present", "past", "past", "future")


@construction(weight=4)
def ownership(w: Writer) -> Phrase:
    """The princess lost her crown. La princesse a perdu sa couronne."""
    verb = named(w, "chercher", "perdre", "trouver", "cacher", "vendre", "porter", "toucher")
    owner = w.some(verb.subjects)
    assert owner.noun is not None
    own = ITS if owner.noun.kind == "animal" else HER if owner.noun.gender == "f" else HIS
    own = THEIR if owner.agreement.plural else own
    kinds = w.known([kind for kind in verb.objects if kind in {"load", "belonging"}])
    thing = w.described(w.noun(kinds, owner.noun), own)
    return clause(owner, verb, w.tense(verb), thing) + STOP


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
    more, _, long = morphology.comparative(adjective.en).partition(" ")
    choices = {
        "plus": (spell(more, degree) + spell(long, own), "than"),
        "moins": (spell("less", degree) + spell(adjective.en, own), "than"),
        "aussi": (spell("as", degree) + spell(adjective.en, own), "as"),
    }
    adverb = w.pick(("plus", "plus", "moins", "aussi"))
    en, second = choices[adverb]
    if not long and adverb == "plus":
        en = spell(more, degree, own)
    french_words = spell(adverb, degree) + spell(fr, own) + spell("que", than)
    return Phrase(en + spell(second, than), french_words)


@construction()
def superlative(w: Writer) -> Phrase:
    """The lion is the strongest animal in the forest. … l'animal le plus fort de la forêt."""
    animal, *others = w.lexicon.of(("animal",))
    adjective = comparable(w, animal)
    if adjective.before:
        return superlative(w)
    quality = pair(morphology.superlative(adjective.en), f"le plus {adjective.fr}")
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
