"""Constructions of one clause that states something."""

from __future__ import annotations

from collections.abc import Sequence

from seq2see.data.fables import french
from seq2see.data.fables.actions import BE
from seq2see.data.fables.clauses import (
    NEVER,
    NO_LONGER,
    NOT,
    NOTHING,
    YES,
    clause,
    infinitive,
    past,
    verb_group,
)
from seq2see.data.fables.constructions import construction
from seq2see.data.fables.determiners import (
    ALL,
    EVERY,
    HER,
    HIS,
    ITS,
    MANY,
    MY,
    NUMBERS,
    OUR,
    SEVERAL,
    THE,
    THEIR,
    THIS,
    A,
)
from seq2see.data.fables.nominals import Nominal, both, pronoun
from seq2see.data.fables.nouns import Kind, Noun
from seq2see.data.fables.phrases import EMPTY, Link, Phrase, pair, spell
from seq2see.data.fables.verbs import Person, Tense, Verb
from seq2see.data.fables.writer import ANIMATE, HOW, Writer

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
    form = french.agreed(verb.fr.participle, of.gender, of.plural)
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
