"""Questions, orders, exclamations, and constructions of several clauses."""

from __future__ import annotations

from seq2see.data.fables.lexicon import MY, THE, THIS, YOUR, A
from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.phrases import (
    EMPTY,
    NOBODY,
    NOT,
    YES,
    Agreement,
    Link,
    Nominal,
    Phrase,
    Polarity,
    being,
    clause,
    clitic,
    infinitive,
    nominal,
    pair,
    past,
    pronoun,
    quality,
    spell,
    verb_group,
)
from seq2see.data.fables.simple_sentences import (
    COMMA,
    SO,
    STOP,
    can_now,
    construction,
    definite,
    intransitive_named,
    known_object,
    named,
)
from seq2see.data.fables.verbs import BE, Verb
from seq2see.data.fables.word_choice import ANIMATE, Writer

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


def event(w: Writer, tense: Tense) -> Phrase:
    """Return a short clause in a tense."""
    subject, verb, _ = w.action()
    if w.chance(0.5):
        verb = w.intransitive()
        subject = w.some(verb.subjects, rich=0.2)
    if verb.state or (verb.momentary and tense == "imperfect"):
        return event(w, tense)
    return clause(
        subject, verb, tense, known_object(w, verb, subject.noun) if verb.objects else None
    )


@construction(weight=5, short=True)
def subject_relative(w: Writer) -> Phrase:
    """The fox that saw the mouse is tired. Le renard qui a vu la souris est fatigué."""
    actor, verb, _ = w.action()
    noun = actor.noun
    assert noun is not None
    subject = w.described(noun, THE, rich=0)
    obj = known_object(w, verb, noun)
    that = pair("who" if noun.kind == "person" else "that", "qui")
    now = w.chance(0.5)
    group = verb_group(verb, "present" if now else past(verb), subject.agreement)
    adjective = w.adjective(noun, attributive=False)
    said = quality(adjective, subject.agreement, "present" if now else "imperfect")
    return subject.phrase + that + group + obj.phrase + said + STOP


@construction(weight=5)
def object_relative(w: Writer) -> Phrase:
    """The mouse that the fox saw is small. La souris que le renard a vue est petite."""
    verb = w.pick([verb for verb in w.lexicon.transitives if not verb.fr_rest])
    thing = w.described(w.noun(w.known(verb.objects)), THE, rich=0)
    who = w.some(w.known(verb.subjects), thing.noun, rich=0.2)
    tense = past(verb)
    group = verb_group(verb, tense, who.agreement, participle=thing.agreement)
    assert thing.noun is not None
    adjective = w.adjective(thing.noun, attributive=False)
    said = quality(adjective, thing.agreement, w.among("present", "imperfect"))
    return thing.phrase + pair("that", "que") + who.phrase + group + said + STOP


@construction()
def found_relative(w: Writer) -> Phrase:
    """The girl is looking for the key that the boy hid. … la clé que le garçon a cachée."""
    verb = named(w, "cacher", "perdre", "acheter", "trouver", "vendre", "voler")
    thing = w.described(w.noun(w.known([k for k in verb.objects if k != "provision"])), THE)
    other = w.some(w.known(verb.subjects), thing.noun)
    seeker = w.some(("person",), other.noun, thing.noun)
    group = verb_group(verb, "past", other.agreement, participle=thing.agreement)
    main = clause(seeker, named(w, "chercher", "voir", "regarder"), "present", thing)
    return main + pair("that", "que") + other.phrase + group + STOP


@construction()
def place_relative(w: Writer) -> Phrase:
    """The house where the witch lives is dark. La maison où habite la sorcière est sombre."""
    place = w.described(w.noun(("building", "hollow", "land")), THE, rich=0)
    assert place.noun is not None
    verb = intransitive_named(w, "dormir", "chanter", "travailler", "danser", "attendre", "reposer")
    who = w.some(ANIMATE, rich=0.2)
    tense = w.among("present", "imperfect")
    inner = clause(who, verb, tense)
    adjective = w.adjective(place.noun, attributive=False)
    said = quality(adjective, place.agreement, tense)
    return place.phrase + pair("where", "où") + inner + said + STOP


@construction(weight=4, short=True)
def two_clauses(w: Writer) -> Phrase:
    """The dog sleeps and the cat eats the fish. Le chien dort et le chat mange le poisson."""
    tense: Tense = w.among("present", "past", "future", "imperfect")
    join = pair(*w.pick((("and", "et"), ("but", "mais"))))
    return event(w, tense) + join + event(w, tense) + STOP


@construction(weight=4)
def two_verbs(w: Writer) -> Phrase:
    """The fox left the cave and crossed the river. Le renard a quitté la grotte et a traversé …"""
    subject = w.some(("animal",), rich=0.2)
    actions = [v for v in w.lexicon.transitives if "animal" in v.subjects and not v.state]
    first, second = w.pick(actions), w.pick(actions)
    if first == second:
        return two_verbs(w)
    tense: Tense = w.among("past", "past", "future")
    one = known_object(w, first, subject.noun)
    other = known_object(w, second, subject.noun, one.noun)
    group = verb_group(second, tense, subject.agreement)
    return clause(subject, first, tense, one) + pair("and", "et") + group + other.phrase + STOP


@construction(weight=4)
def object_pronoun(w: Writer) -> Phrase:
    """The girl found the key and hid it. La fille a trouvé la clé et l'a cachée."""
    first = named(w, "trouver", "chercher", "acheter", "voir")
    second = named(w, "cacher", "vendre", "nettoyer", "porter", "pousser", "soulever", "regarder")
    shared = [kind for kind in first.objects if kind in second.objects and kind in THINGS]
    if not shared:
        return object_pronoun(w)
    who = w.described(w.noun(("person",)), w.pick((THE, THE, A, THIS)))
    thing = w.described(w.noun(shared), w.pick((THE, A)))
    tense: Tense = w.among("past", "past", "future", "present")
    group = verb_group(second, tense, who.agreement, clitic=clitic(thing.agreement))
    return clause(who, first, tense, thing) + pair("and", "et") + group + STOP


THINGS = frozenset({"fruit", "load", "belonging"})


@construction(weight=3)
def left_in_peace(w: Writer) -> Phrase:
    """The hunter saw the goat but didn't follow it. … a vu la chèvre mais ne l'a pas suivie."""
    first = named(w, "voir", "entendre", "chercher", "attendre")
    second = named(w, "suivre", "poursuivre", "réveiller", "aider", "effrayer", "caresser")
    hunter = w.described(w.noun(("person",)), w.pick((THE, THE, A, THIS)))
    prey = w.described(w.noun(("animal",)), w.pick((THE, A)))
    tense: Tense = w.among("past", "past", "future")
    group = verb_group(second, tense, hunter.agreement, NOT, clitic=clitic(prey.agreement))
    return clause(hunter, first, tense, prey) + pair("but", "mais") + group + STOP


@construction(weight=3)
def so_that_not(w: Writer) -> Phrase:
    """The box is so heavy that the donkey can't carry it. … que l'âne ne peut pas la porter."""
    verb = named(w, "traverser", "gravir", "porter", "soulever", "pousser", "manger", "tirer")
    noun = w.noun(w.known(verb.objects))
    hindrances = [a for a in w.lexicon.adjectives if a.hindrance and a.suits(noun)]
    thing = w.described(noun, w.pick((THE, THIS)), rich=0)
    who = w.some(ANIMATE, rich=0.2)
    said = being(thing, w.pick(hindrances), "present", YES, pair(*SO))
    it = clitic(thing.agreement)
    able = can_now(who.agreement.plural, False)
    inner = infinitive(verb, "", it)
    return said + pair("that", "que") + who.phrase + able + inner + STOP


@construction(weight=3)
def reason(w: Writer) -> Phrase:
    """The girl is sad because the cat left. La fille est triste parce que le chat est parti."""
    someone = w.described(w.noun(("person",)), w.pick((THE, THE, THIS)))
    moods = [a for a in w.lexicon.adjectives if a.en in MOODS]
    mood = being(someone, w.pick(moods), "imperfect")
    return mood + pair("because", "parce que") + event(w, "past") + STOP


MOODS = frozenset({"sad", "happy", "worried", "angry", "nervous", "proud", "jealous", "impatient"})


@construction(weight=3, short=True)
def condition(w: Writer) -> Phrase:
    """If the wolf comes back, the goat will hide. Si le loup revient, la chèvre se cachera."""
    return pair("if", "si") + event(w, "present") + COMMA + event(w, "future") + STOP


@construction(weight=3)
def meanwhile(w: Writer) -> Phrase:
    """While the farmer was sleeping, the fox left. Pendant que le fermier dormait, …"""
    return pair("while", "pendant que") + event(w, "imperfect") + COMMA + event(w, "past") + STOP


@construction(weight=3)
def whenever(w: Writer) -> Phrase:
    """When the dog sleeps, the cat dances. Quand le chien dort, le chat danse."""
    when = pair(*w.pick((("when", "quand"), ("as soon as", "dès que"))))
    return when + event(w, "present") + COMMA + event(w, "present") + STOP


@construction(weight=4)
def reported(w: Writer) -> Phrase:
    """The raven says that the fox is clever. Le corbeau dit que le renard est rusé."""
    verb = w.sayer()
    who = w.some(verb.subjects)
    tense: Tense = w.among("present", past(verb)) if verb.state else "present"
    if w.chance(0.5):
        noun = w.noun(("animal", "person", "road", "water", "load", "fruit"), who.noun)
        subject = w.described(noun, THE, rich=0)
        inner = being(subject, w.adjective(noun, attributive=False), tense)
    else:
        inner = event(w, "past" if tense == "present" else "imperfect")
    return clause(who, verb, tense) + pair("that", "que") + inner + STOP


@construction(weight=3)
def before_doing(w: Writer) -> Phrase:
    """The fox rested before crossing the river. Le renard s'est reposé avant de traverser …"""
    subject, verb, obj = w.deed()
    rest = w.intransitive()
    tense: Tense = w.among("past", "future")
    en, fr = w.pick((("before", "avant de"), ("without", "sans")))
    doing = pair(en, fr) + infinitive(verb, "-ing") + obj.phrase
    return clause(subject, rest, tense) + doing + STOP


@construction(weight=3)
def in_order_to(w: Writer) -> Phrase:
    """The fox hid to watch the goat. Le renard s'est caché pour regarder la chèvre."""
    subject, verb, obj = w.deed()
    ways = ("revenir", "courir", "rester", "partir", "lever")
    way = intransitive_named(w, *ways)
    to = Phrase((), spell("pour"))
    return (
        clause(subject, way, w.among("past", "future")) + to + infinitive(verb) + obj.phrase + STOP
    )


@construction(weight=5)
def tale(w: Writer) -> Phrase:
    """Yesterday, while the girl was singing, the cat left and the dog ran, but the hen was shy."""
    background = pair("while", "pendant que") + event(w, "imperfect")
    events = event(w, "past") + pair("and", "et") + event(w, "past")
    noun = w.noun(ANIMATE)
    someone = w.described(noun, w.pick((THE, THIS)), rich=0)
    end = being(someone, w.adjective(noun, attributive=False), "imperfect")
    start = w.when("past") + pair(",", ",") + background + pair(",", ",")
    return start + events + pair(",", ",") + pair("but", "mais") + end + STOP


@construction(weight=4)
def prophecy(w: Writer) -> Phrase:
    """The owl says that if the wolf comes back, the goat will hide and the dog will run."""
    wise = definite(w, ANIMATE)
    says = clause(wise, w.sayer(), "present") + pair("that", "que")
    future = event(w, "future") + pair("and", "et") + event(w, "future")
    return says + pair("if", "si") + event(w, "present") + COMMA + future + STOP
