"""Constructions of questions, orders, exclamations, and sentences of several clauses."""

from __future__ import annotations

from seq2see.data.fables.lexicon import BE_VERB, AgreementFeatures, Tense, Verb
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    NO_SUBJECT,
    SO,
    TOO,
    BilingualPhrase,
    Negation,
    NounPhrase,
    build_modal,
    build_noun_phrase,
    build_object_pronoun,
    build_phrase,
    build_subject_pronoun,
    build_words,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.simple_sentences import register_construction
from seq2see.data.fables.word_choice import ANIMATE, DEFINITE, WordChooser

# French words without an English counterpart; they are not aligned
POUR = BilingualPhrase((), build_words("pour"))
EST_CE_QUE = BilingualPhrase((), build_words("est-ce que"))
QUESTION_TENSES: tuple[Tense, ...] = ("present", "past", "past", "future")


@register_construction()
def _motive(choose: WordChooser) -> BilingualPhrase:
    """The fox is too tired to cross the street. … trop fatigué pour traverser la rue."""
    actor, verb, obj = choose.action(intended=True)
    subject = choose.noun_phrase(actor.noun, ("the", "this", "my"), adjective_rate=0)
    too_tired = choose.predicate(subject, use="hindrance", degree=TOO)
    return subject + too_tired + POUR + infinitive_phrase(verb) + obj


def question_clause(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    negation: Negation = "",
    asked_object: AgreementFeatures | None = None,
) -> BilingualPhrase:
    """Return "did the fox cross" and "le renard a traversé".

    The French participle agrees with `asked_object`, the object that the question asks for.
    """
    group = verb_group(
        verb, tense, subject.agreement, negation, participle=asked_object, needs_auxiliary=True
    )
    return subject.question(group)


@register_construction(weight=4, in_short_corpus=True, mark="?")
def _yes_or_no(choose: WordChooser) -> BilingualPhrase:
    """Did the fox cross the river? Est-ce que le renard a traversé la rivière ?"""
    verb = choose.verb("transitive")
    subject = build_subject_pronoun(AgreementFeatures("m", "you"))
    if choose.chance(0.8):
        subject = choose.noun_phrase(verb.subject_kinds, DEFINITE)
    negation = choose.negation(0.2)
    obj = choose.definite_object(verb, subject.noun)
    tense = choose.present_or(verb, *QUESTION_TENSES)
    return EST_CE_QUE + question_clause(subject, verb, tense, negation) + obj


@register_construction(mark="?")
def _why(choose: WordChooser) -> BilingualPhrase:
    """Why did the hen leave? Pourquoi est-ce que la poule est partie ?"""
    verb = choose.verb("intransitive" if choose.chance(0.5) else "transitive")
    subject = choose.noun_phrase(verb.subject_kinds, DEFINITE)
    obj = choose.definite_object(verb, subject.noun) if verb.object_kinds else EMPTY_PHRASE
    tense = choose.present_or(verb, *QUESTION_TENSES)
    question = question_clause(subject, verb, tense, choose.negation(0.3))
    return build_phrase("why", "pourquoi est-ce que") + question + obj


@register_construction(mark="?")
def _who(choose: WordChooser) -> BilingualPhrase:
    """Who opened the door? Qui a ouvert la porte ?"""
    _, verb, _ = choose.action()
    tense = choose.present_or(verb, "past", "present", "future")
    return build_phrase("who", "qui") + NO_SUBJECT.clause(verb, tense, choose.definite_object(verb))


@register_construction(weight=2, mark="?")
def _where(choose: WordChooser) -> BilingualPhrase:
    """Where are my keys? Où sont mes clés ?"""
    kinds = (*ANIMATE, "building", "belonging", "load", "water")
    thing = choose.noun_phrase(kinds, ("the", "this", "my", "your"), adjective_rate=0.5)
    be = verb_group(BE_VERB, choose.pick_tense("present", "imperfect"), thing.agreement)
    return build_phrase("where", "où") + be + thing


@register_construction(weight=2, mark="?")
def _how_many(choose: WordChooser) -> BilingualPhrase:
    """How many apples did the goat eat? Combien de pommes est-ce que la chèvre a mangées ?"""
    verb = choose.verb("how_many")
    subject = choose.noun_phrase(verb.subject_kinds, DEFINITE)
    kinds = tuple(kind for kind in verb.object_kinds if kind != "provision")
    things = build_noun_phrase("how many", choose.noun(kinds, subject.noun), plural=True)
    question = question_clause(subject, verb, "past", asked_object=things.agreement)
    return things + EST_CE_QUE + question


@register_construction(in_short_corpus=True, mark="!")
def _order(choose: WordChooser) -> BilingualPhrase:
    """Don't cross the river! Ne traversez pas la rivière !"""
    _, verb, _ = choose.action(intended=True)
    if verb.is_reflexive:
        return _order(choose)
    obj = choose.noun_phrase(verb.object_kinds, ("the", "the", "your"), adjective_rate=0.4)
    return verb_group(verb, "present", AgreementFeatures("m", "you"), choose.negation(0.5)) + obj


@register_construction(weight=2, mark="!")
def _exclamation(choose: WordChooser) -> BilingualPhrase:
    """What a beautiful house! Quelle belle maison !"""
    noun = choose.noun((*ANIMATE, "building", "land", "height", "belonging", "load"))
    return build_noun_phrase("what a", noun, (choose.adjective(noun),))


@register_construction(weight=2, mark="?")
def _state_question(choose: WordChooser) -> BilingualPhrase:
    """Is the river deep? Est-ce que la rivière est profonde ?"""
    kinds = (*ANIMATE, "road", "water", "height", "building", "load", "fruit")
    subject = choose.noun_phrase(kinds, "the", adjective_rate=0)
    return EST_CE_QUE + subject.question(choose.predicate(subject))


def random_clause(choose: WordChooser, tense: Tense) -> BilingualPhrase:
    """Return a random clause in a tense."""
    subject, verb, _ = choose.action()
    if choose.chance(0.5):
        verb = choose.verb("intransitive")
        subject = choose.noun_phrase(verb.subject_kinds, adjective_rate=0.2)
    if verb.is_stative or (verb.is_momentary and tense == "imperfect"):
        return random_clause(choose, tense)
    obj = choose.definite_object(verb, subject.noun) if verb.object_kinds else EMPTY_PHRASE
    return subject.clause(verb, tense, obj)


def join_clauses(
    choose: WordChooser, conjunction: tuple[str, str], first: Tense, second: Tense
) -> BilingualPhrase:
    """Return two random clauses in the given tenses with a conjunction between them."""
    return random_clause(choose, first) + build_phrase(*conjunction) + random_clause(choose, second)


AND, BUT, COMMA = ("and", "et"), ("but", "mais"), (",", ",")


@register_construction(weight=5, in_short_corpus=True)
def _subject_relative(choose: WordChooser) -> BilingualPhrase:
    """The fox that saw the mouse is tired. Le renard qui a vu la souris est fatigué."""
    actor, verb, _ = choose.action()
    noun = actor.noun
    subject = choose.noun_phrase(noun, "the", adjective_rate=0)
    obj = choose.definite_object(verb, noun)
    that = build_phrase("who" if noun.kind == "person" else "that", "qui")
    now = choose.chance(0.5)
    group = verb_group(verb, "present" if now else verb.past_tense, subject.agreement)
    predicate = choose.predicate(subject, "present" if now else "imperfect")
    return subject + that + group + obj + predicate


@register_construction(weight=5)
def _object_relative(choose: WordChooser) -> BilingualPhrase:
    """The mouse that the fox saw is small. La souris que le renard a vue est petite."""
    verb = choose.verb("object_relative")
    thing = choose.noun_phrase(verb.object_kinds, "the", adjective_rate=0)
    who = choose.noun_phrase(verb.subject_kinds, adjective_rate=0.2, exclude=[thing.noun])
    group = verb_group(verb, verb.past_tense, who.agreement, participle=thing.agreement)
    return thing + build_phrase("that", "que") + who + group + choose.predicate(thing)


@register_construction()
def _found_relative(choose: WordChooser) -> BilingualPhrase:
    """The girl is looking for the key that the boy hid. … la clé que le garçon a cachée."""
    verb = choose.verb("found_relative")
    kinds = tuple(kind for kind in verb.object_kinds if kind != "provision")
    thing = choose.noun_phrase(kinds, "the")
    other = choose.noun_phrase(verb.subject_kinds, exclude=[thing.noun])
    seeker = choose.noun_phrase(("person",), exclude=[other.noun, thing.noun])
    main = seeker.clause(choose.verb("seeking"), "present", thing)
    group = verb_group(verb, "past", other.agreement, participle=thing.agreement)
    return main + build_phrase("that", "que") + other + group


@register_construction()
def _place_relative(choose: WordChooser) -> BilingualPhrase:
    """The house where the witch lives is dark. La maison où habite la sorcière est sombre."""
    place = choose.noun_phrase(("building", "hollow", "land"), "the", adjective_rate=0)
    verb = choose.verb("place_relative")
    who = choose.noun_phrase(ANIMATE, adjective_rate=0.2)
    tense = choose.pick_tense("present", "imperfect")
    inside = who.clause(verb, tense)
    return place + build_phrase("where", "où") + inside + choose.predicate(place, tense)


@register_construction(weight=4, in_short_corpus=True)
def _two_clauses(choose: WordChooser) -> BilingualPhrase:
    """The dog sleeps and the cat eats the fish. Le chien dort et le chat mange le poisson."""
    tense = choose.pick_tense("present", "past", "future", "imperfect")
    return join_clauses(choose, choose.pick((AND, BUT)), tense, tense)


@register_construction(weight=4)
def _two_verbs(choose: WordChooser) -> BilingualPhrase:
    """The fox left the cave and crossed the river. Le renard a quitté la grotte et a traversé …"""
    subject = choose.noun_phrase(("animal",), adjective_rate=0.2)
    first, second = choose.verb("sequence"), choose.verb("sequence")
    if first == second:
        return _two_verbs(choose)
    tense = choose.pick_tense("past", "past", "future")
    one = choose.definite_object(first, subject.noun)
    other = choose.definite_object(second, subject.noun, one.noun)
    group = verb_group(second, tense, subject.agreement)
    return subject.clause(first, tense, one) + build_phrase(*AND) + group + other


@register_construction(weight=4)
def _object_pronoun(choose: WordChooser) -> BilingualPhrase:
    """The girl found the key and hid it. La fille a trouvé la clé et l'a cachée."""
    first, second = choose.verb("finding"), choose.verb("handling")
    items = {"fruit", "load", "belonging"}.intersection(second.object_kinds)
    shared = tuple(kind for kind in first.object_kinds if kind in items)
    if not shared:
        return _object_pronoun(choose)
    who = choose.noun_phrase(("person",), ("the", "the", "a", "this"))
    thing = choose.noun_phrase(shared, ("the", "a"))
    tense = choose.pick_tense("past", "past", "future", "present")
    it = build_object_pronoun(thing.agreement)
    group = verb_group(second, tense, who.agreement, clitic=it)
    return who.clause(first, tense, thing) + build_phrase(*AND) + group


@register_construction(weight=3)
def _left_in_peace(choose: WordChooser) -> BilingualPhrase:
    """The hunter saw the goat but didn't follow it. … a vu la chèvre mais ne l'a pas suivie."""
    first, second = choose.verb("noticing"), choose.verb("bothering")
    hunter = choose.noun_phrase(("person",), ("the", "the", "a", "this"))
    prey = choose.noun_phrase(("animal",), ("the", "a"))
    tense = choose.pick_tense("past", "past", "future")
    it = build_object_pronoun(prey.agreement)
    group = verb_group(second, tense, hunter.agreement, "not", clitic=it)
    return hunter.clause(first, tense, prey) + build_phrase(*BUT) + group


@register_construction(weight=3)
def _so_that_not(choose: WordChooser) -> BilingualPhrase:
    """The box is so heavy that the donkey can't carry it. … que l'âne ne peut pas la porter."""
    verb = choose.verb("so_that_not")
    thing = choose.noun_phrase(verb.object_kinds, ("the", "this"), adjective_rate=0)
    who = choose.noun_phrase(ANIMATE, adjective_rate=0.2)
    so_heavy = choose.predicate(thing, "present", "hindrance", SO)
    able = build_modal("can't", who.agreement.plural)
    inner = infinitive_phrase(verb, "", build_object_pronoun(thing.agreement))
    return thing + so_heavy + build_phrase("that", "que") + who + able + inner


@register_construction(weight=3)
def _reason(choose: WordChooser) -> BilingualPhrase:
    """The girl is sad because the cat left. La fille est triste parce que le chat est parti."""
    someone = choose.noun_phrase(("person",), ("the", "the", "this"))
    names = ("sad", "happy", "worried", "angry", "nervous", "proud", "jealous", "impatient")
    adjective = choose.pick([each for each in choose.lexicon.adjectives if each.en in names])
    mood = someone.predicate(adjective, "imperfect")
    return someone + mood + build_phrase("because", "parce que") + random_clause(choose, "past")


@register_construction(weight=3, in_short_corpus=True)
def _condition(choose: WordChooser) -> BilingualPhrase:
    """If the wolf comes back, the goat will hide. Si le loup revient, la chèvre se cachera."""
    return build_phrase("if", "si") + join_clauses(choose, COMMA, "present", "future")


@register_construction(weight=3)
def _meanwhile(choose: WordChooser) -> BilingualPhrase:
    """While the farmer was sleeping, the fox left. Pendant que le fermier dormait, …"""
    return build_phrase("while", "pendant que") + join_clauses(choose, COMMA, "imperfect", "past")


@register_construction(weight=3)
def _whenever(choose: WordChooser) -> BilingualPhrase:
    """When the dog sleeps, the cat dances. Quand le chien dort, le chat danse."""
    when = build_phrase(*choose.pick((("when", "quand"), ("as soon as", "dès que"))))
    return when + join_clauses(choose, COMMA, "present", "present")


@register_construction(weight=4)
def _reported(choose: WordChooser) -> BilingualPhrase:
    """The raven says that the fox is clever. Le corbeau dit que le renard est rusé."""
    verb = choose.verb("reporting")
    who = choose.noun_phrase(verb.subject_kinds)
    tense: Tense = "present"
    if verb.is_stative:
        tense = choose.pick_tense("present", "imperfect")
    if choose.chance(0.5):
        kinds = (*ANIMATE, "road", "water", "load", "fruit")
        subject = choose.noun_phrase(kinds, "the", adjective_rate=0, exclude=[who.noun])
        inner = subject + choose.predicate(subject, tense)
    else:
        inner = random_clause(choose, "past" if tense == "present" else "imperfect")
    return who.clause(verb, tense) + build_phrase("that", "que") + inner


@register_construction(weight=3)
def _before_doing(choose: WordChooser) -> BilingualPhrase:
    """The fox rested before crossing the river. Le renard s'est reposé avant de traverser …"""
    subject, verb, obj = choose.action(intended=True)
    rest = choose.verb("intransitive")
    tense = choose.pick_tense("past", "future")
    before = build_phrase(*choose.pick((("before", "avant de"), ("without", "sans"))))
    return subject.clause(rest, tense) + before + infinitive_phrase(verb, "-ing") + obj


@register_construction(weight=3)
def _in_order_to(choose: WordChooser) -> BilingualPhrase:
    """The fox hid to watch the goat. Le renard s'est caché pour regarder la chèvre."""
    subject, verb, obj = choose.action(intended=True)
    way = choose.verb("in_order_to")
    main = subject.clause(way, choose.pick_tense("past", "future"))
    return main + POUR + infinitive_phrase(verb) + obj


@register_construction(weight=5)
def _tale(choose: WordChooser) -> BilingualPhrase:
    """Yesterday, while the girl was singing, the cat left and the dog ran, but the hen was shy."""
    background = build_phrase("while", "pendant que") + random_clause(choose, "imperfect")
    events = join_clauses(choose, AND, "past", "past")
    someone = choose.noun_phrase(ANIMATE, ("the", "this"), adjective_rate=0)
    end = someone + choose.predicate(someone, "imperfect")
    commas = [build_phrase(*COMMA) for _ in range(3)]
    start = choose.adverbial("time", "past") + commas[0] + background + commas[1]
    return start + events + commas[2] + build_phrase(*BUT) + end


@register_construction(weight=4)
def _prophecy(choose: WordChooser) -> BilingualPhrase:
    """The owl says that if the wolf comes back, the goat will hide and the dog will run."""
    wise = choose.noun_phrase(ANIMATE, DEFINITE)
    says = wise.clause(choose.verb("reporting"), "present") + build_phrase("that", "que")
    future = join_clauses(choose, AND, "future", "future")
    condition = build_phrase("if", "si") + random_clause(choose, "present")
    return says + condition + build_phrase(*COMMA) + future
