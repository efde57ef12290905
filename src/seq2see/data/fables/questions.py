"""Constructions that ask, order and exclaim."""

from __future__ import annotations

from seq2see.data.fables.actions import BE
from seq2see.data.fables.clauses import NOT, YES, Polarity, clause, quality, verb_group
from seq2see.data.fables.constructions import construction
from seq2see.data.fables.determiners import MY, THE, THIS, YOUR, A
from seq2see.data.fables.nominals import NOBODY, Agreement, Nominal, nominal, pronoun
from seq2see.data.fables.phrases import EMPTY, Link, Phrase, pair, spell
from seq2see.data.fables.statements import definite, known_object, named
from seq2see.data.fables.verbs import Tense, Verb
from seq2see.data.fables.writer import Writer

ASK, SHOUT = pair("?", "?"), pair("!", "!")
DO: dict[Tense, tuple[str, str]] = {
    "present": ("does", "do"),
    "past": ("did", "did"),
    "future": ("will", "will"),
}


def asked(
    subject: Nominal,
    verb: Verb,
    tense: Tense,
    polarity: Polarity = YES,
    things: Agreement | None = None,
) -> Phrase:
    """Return "did the fox cross" and "le renard a traversé"; `things` are what is asked for."""
    of = subject.agreement
    helper = DO[tense][of.plural] + ("n't" if polarity is NOT else "")
    helper = "won't" if helper == "willn't" else helper
    group = verb_group(verb, tense, of, polarity, participle=things)
    act = group.en[-1].links[:1]
    ask = spell(helper, *(link for link in group.en[0].links if link not in act))
    en = ask + subject.phrase.en + spell(f"{verb.en} {verb.en_rest}", *act)
    return Phrase(en, subject.phrase.fr + group.fr)


def question_tense(w: Writer, verb: Verb) -> Tense:
    """Choose a tense for a question."""
    return "present" if verb.state else w.among("present", "past", "past", "future")


@construction(weight=4, short=True)
def yes_or_no(w: Writer) -> Phrase:
    """Did the fox cross the river? Est-ce que le renard a traversé la rivière ?"""
    verb = w.transitive()
    subject = definite(w, verb.subjects) if w.chance(0.8) else pronoun("you")
    polarity = NOT if w.chance(0.2) else YES
    obj = known_object(w, verb, subject.noun)
    asks = asked(subject, verb, question_tense(w, verb), polarity)
    return Phrase((), spell("est-ce que")) + asks + obj.phrase + ASK


@construction()
def why(w: Writer) -> Phrase:
    """Why did the hen leave? Pourquoi est-ce que la poule est partie ?"""
    if w.chance(0.5):
        verb = w.intransitive()
        subject, obj = definite(w, verb.subjects), EMPTY
    else:
        verb = w.transitive()
        subject = definite(w, verb.subjects)
        obj = known_object(w, verb, subject.noun).phrase
    asks = asked(subject, verb, question_tense(w, verb), NOT if w.chance(0.3) else YES)
    return pair("why", "pourquoi est-ce que") + asks + obj + ASK


@construction()
def who(w: Writer) -> Phrase:
    """Who opened the door? Qui a ouvert la porte ?"""
    _, verb, _ = w.action()
    tense: Tense = "present" if verb.state else w.among("past", "present", "future")
    return pair("who", "qui") + clause(NOBODY, verb, tense, known_object(w, verb)) + ASK


@construction(weight=2)
def where(w: Writer) -> Phrase:
    """Where are my keys? Où sont mes clés ?"""
    noun = w.noun(("animal", "person", "building", "belonging", "load", "water"))
    thing = w.described(noun, w.pick((THE, THIS, MY, YOUR)), rich=0.5)
    be = verb_group(BE, w.among("present", "imperfect"), thing.agreement)
    return pair("where", "où") + be + thing.phrase + ASK


@construction(weight=2)
def how_many(w: Writer) -> Phrase:
    """How many apples did the goat eat? Combien de pommes est-ce que la chèvre a mangées ?"""
    verb = named(w, "manger", "voir", "trouver", "acheter", "vendre", "voler", "porter")
    subject = definite(w, verb.subjects)
    kinds = w.known([kind for kind in verb.objects if kind != "provision"])
    noun = w.noun(kinds, subject.noun)
    things = pair("how many", "combien de") + pair(noun.en_plural, noun.fr_plural)
    asks = asked(subject, verb, "past", things=Agreement(noun.gender, True, "they"))
    return things + Phrase((), spell("est-ce que")) + asks + ASK


@construction(short=True)
def order(w: Writer) -> Phrase:
    """Don't cross the river! Ne traversez pas la rivière !"""
    _, verb, _ = w.deed()
    if verb.reflexive:
        return order(w)
    obj = w.described(w.noun(w.known(verb.objects)), w.pick((THE, THE, YOUR)), rich=0.4)
    act, no = Link(), Link()
    en, fr = spell(f"{verb.en} {verb.en_rest}", act), spell(verb.fr.present("you"), act)
    if w.chance(0.5):
        en = spell("don't", no) + en
        fr = spell("ne", no) + fr + spell("pas", no)
    return Phrase(en, fr + spell(verb.fr_rest, act)) + obj.phrase + SHOUT


@construction(weight=2)
def exclamation(w: Writer) -> Phrase:
    """What a beautiful house! Quelle belle maison !"""
    noun = w.noun(("animal", "person", "building", "land", "height", "belonging", "load"))
    thing = nominal(A, noun, (w.adjective(noun),)).phrase
    what = pair("what a", "quel" if noun.gender == "m" else "quelle")
    return Phrase(what.en + thing.en[1:], what.fr + thing.fr[1:]) + SHOUT


@construction(weight=2)
def state_question(w: Writer) -> Phrase:
    """Is the river deep? Est-ce que la rivière est profonde ?"""
    noun = w.noun(("animal", "person", "road", "water", "height", "building", "load", "fruit"))
    subject = w.described(noun, THE, rich=0)
    adjective = w.adjective(noun, attributive=False)
    said = quality(adjective, subject.agreement, w.among("present", "imperfect"))
    en = said.en[:1] + subject.phrase.en + said.en[1:]
    return Phrase(en, spell("est-ce que") + subject.phrase.fr + said.fr) + ASK
