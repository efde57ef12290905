"""Constructions of questions, orders, exclamations, and sentences of several clauses."""

from __future__ import annotations

from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.nouns_adjectives_and_determiners import MY, THE, THIS, YOUR, A
from seq2see.data.fables.phrases_and_clauses import (
    AFFIRMATIVE,
    EMPTY_PHRASE,
    NO_SUBJECT,
    NOT,
    AgreementFeatures,
    AlignmentKey,
    BilingualPhrase,
    Negation,
    NounPhrase,
    attach_alignment_keys,
    build_can_auxiliary,
    build_copula_predicate,
    build_first_or_second_person_pronoun,
    build_it_or_them_object,
    build_noun_phrase,
    build_phrase,
    choose_past_tense,
    clause,
    copula_clause,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.statements import COMMA, FULL_STOP, SO, TOO, register_construction
from seq2see.data.fables.verbs import BE_VERB, Verb
from seq2see.data.fables.word_choice import ANIMATE_KINDS, WordChooser


@register_construction()
def _motive(chooser: WordChooser) -> BilingualPhrase:
    """The fox is too tired to cross the street. … trop fatigué pour traverser la rue."""
    actor, verb, obj = chooser.intended_action()
    assert actor.noun is not None
    subject = chooser.noun_phrase(actor.noun, chooser.pick((THE, THIS, MY)), adjective_rate=0)
    hindrances = [
        a for a in chooser.lexicon.adjectives if a.is_hindrance and a.fits_noun(actor.noun)
    ]
    predicate = copula_clause(
        subject,
        chooser.pick(hindrances),
        chooser.pick_tense("present", "imperfect"),
        AFFIRMATIVE,
        build_phrase(*TOO),
    )
    return (
        predicate
        + BilingualPhrase((), attach_alignment_keys("pour"))
        + infinitive_phrase(verb)
        + obj.phrase
        + FULL_STOP
    )


QUESTION_MARK, EXCLAMATION_MARK = (build_phrase("?", "?"), build_phrase("!", "!"))
DO_AUXILIARIES: dict[Tense, tuple[str, str]] = {
    "present": ("does", "do"),
    "past": ("did", "did"),
    "future": ("will", "will"),
}


def question_clause(
    subject: NounPhrase,
    verb: Verb,
    tense: Tense,
    negation: Negation = AFFIRMATIVE,
    asked_object: AgreementFeatures | None = None,
) -> BilingualPhrase:
    """Return "did the fox cross" and "le renard a traversé".

    The French participle agrees with `asked_object`, the object that the question asks for.
    """
    auxiliary = DO_AUXILIARIES[tense][subject.agreement.plural]
    if negation is NOT:
        auxiliary = "won't" if auxiliary == "will" else f"{auxiliary}n't"
    group = verb_group(verb, tense, subject.agreement, negation, participle=asked_object)
    action = group.en[-1].keys[:1]
    first = attach_alignment_keys(
        auxiliary, *(key for key in group.en[0].keys if key not in action)
    )
    en = first + subject.phrase.en + attach_alignment_keys(f"{verb.en} {verb.en_particle}", *action)
    return BilingualPhrase(en, subject.phrase.fr + group.fr)


@register_construction(weight=4, in_short_corpus=True)
def _yes_or_no(chooser: WordChooser) -> BilingualPhrase:
    """Did the fox cross the river? Est-ce que le renard a traversé la rivière ?"""
    verb = chooser.transitive_verb()
    subject = (
        chooser.definite_noun_phrase(verb.subject_kinds)
        if chooser.chance(0.8)
        else build_first_or_second_person_pronoun("you")
    )
    negation = NOT if chooser.chance(0.2) else AFFIRMATIVE
    obj = chooser.definite_object(verb, subject.noun)
    question = question_clause(subject, verb, chooser.question_tense(verb), negation)
    return (
        BilingualPhrase((), attach_alignment_keys("est-ce que"))
        + question
        + obj.phrase
        + QUESTION_MARK
    )


@register_construction()
def _why(chooser: WordChooser) -> BilingualPhrase:
    """Why did the hen leave? Pourquoi est-ce que la poule est partie ?"""
    if chooser.chance(0.5):
        verb = chooser.intransitive_verb()
        subject, obj = chooser.definite_noun_phrase(verb.subject_kinds), EMPTY_PHRASE
    else:
        verb = chooser.transitive_verb()
        subject = chooser.definite_noun_phrase(verb.subject_kinds)
        obj = chooser.definite_object(verb, subject.noun).phrase
    question = question_clause(
        subject, verb, chooser.question_tense(verb), NOT if chooser.chance(0.3) else AFFIRMATIVE
    )
    return build_phrase("why", "pourquoi est-ce que") + question + obj + QUESTION_MARK


@register_construction()
def _who(chooser: WordChooser) -> BilingualPhrase:
    """Who opened the door? Qui a ouvert la porte ?"""
    _, verb, _ = chooser.transitive_action()
    tense: Tense = "present" if verb.is_stative else chooser.pick_tense("past", "present", "future")
    return (
        build_phrase("who", "qui")
        + clause(NO_SUBJECT, verb, tense, chooser.definite_object(verb))
        + QUESTION_MARK
    )


@register_construction(weight=2)
def _where(chooser: WordChooser) -> BilingualPhrase:
    """Where are my keys? Où sont mes clés ?"""
    noun = chooser.noun(("animal", "person", "building", "belonging", "load", "water"))
    thing = chooser.noun_phrase(noun, chooser.pick((THE, THIS, MY, YOUR)), adjective_rate=0.5)
    be = verb_group(BE_VERB, chooser.pick_tense("present", "imperfect"), thing.agreement)
    return build_phrase("where", "où") + be + thing.phrase + QUESTION_MARK


@register_construction(weight=2)
def _how_many(chooser: WordChooser) -> BilingualPhrase:
    """How many apples did the goat eat? Combien de pommes est-ce que la chèvre a mangées ?"""
    verb = chooser.transitive_verb(
        "manger", "voir", "trouver", "acheter", "vendre", "voler", "porter"
    )
    subject = chooser.definite_noun_phrase(verb.subject_kinds)
    kinds = chooser.available_kinds([kind for kind in verb.object_kinds if kind != "provision"])
    noun = chooser.noun(kinds, subject.noun)
    things = build_phrase("how many", "combien de") + build_phrase(noun.en_plural, noun.fr_plural)
    question = question_clause(
        subject, verb, "past", asked_object=AgreementFeatures(noun.gender, True, "they")
    )
    return (
        things + BilingualPhrase((), attach_alignment_keys("est-ce que")) + question + QUESTION_MARK
    )


@register_construction(in_short_corpus=True)
def _order(chooser: WordChooser) -> BilingualPhrase:
    """Don't cross the river! Ne traversez pas la rivière !"""
    _, verb, _ = chooser.intended_action()
    if verb.is_reflexive:
        return _order(chooser)
    obj = chooser.noun_phrase(
        chooser.noun(chooser.available_kinds(verb.object_kinds)),
        chooser.pick((THE, THE, YOUR)),
        adjective_rate=0.4,
    )
    action_key, negation_key = AlignmentKey(), AlignmentKey()
    en, fr = (
        attach_alignment_keys(f"{verb.en} {verb.en_particle}", action_key),
        attach_alignment_keys(verb.fr.present("you"), action_key),
    )
    if chooser.chance(0.5):
        en = attach_alignment_keys("don't", negation_key) + en
        fr = (
            attach_alignment_keys("ne", negation_key)
            + fr
            + attach_alignment_keys("pas", negation_key)
        )
    return (
        BilingualPhrase(en, fr + attach_alignment_keys(verb.fr_particle, action_key))
        + obj.phrase
        + EXCLAMATION_MARK
    )


@register_construction(weight=2)
def _exclamation(chooser: WordChooser) -> BilingualPhrase:
    """What a beautiful house! Quelle belle maison !"""
    noun = chooser.noun(("animal", "person", "building", "land", "height", "belonging", "load"))
    thing = build_noun_phrase(A, noun, (chooser.adjective(noun),)).phrase
    what = build_phrase("what a", "quel" if noun.gender == "m" else "quelle")
    return BilingualPhrase(what.en + thing.en[1:], what.fr + thing.fr[1:]) + EXCLAMATION_MARK


@register_construction(weight=2)
def _state_question(chooser: WordChooser) -> BilingualPhrase:
    """Is the river deep? Est-ce que la rivière est profonde ?"""
    noun = chooser.noun(
        ("animal", "person", "road", "water", "height", "building", "load", "fruit")
    )
    subject = chooser.noun_phrase(noun, THE, adjective_rate=0)
    adjective = chooser.adjective(noun, attributive=False)
    predicate = build_copula_predicate(
        adjective, subject.agreement, chooser.pick_tense("present", "imperfect")
    )
    en = predicate.en[:1] + subject.phrase.en + predicate.en[1:]
    return (
        BilingualPhrase(en, attach_alignment_keys("est-ce que") + subject.phrase.fr + predicate.fr)
        + QUESTION_MARK
    )


def random_clause(chooser: WordChooser, tense: Tense) -> BilingualPhrase:
    """Return a random clause in a tense."""
    subject, verb, _ = chooser.transitive_action()
    if chooser.chance(0.5):
        verb = chooser.intransitive_verb()
        subject = chooser.random_noun_phrase(verb.subject_kinds, adjective_rate=0.2)
    if verb.is_stative or (verb.is_momentary and tense == "imperfect"):
        return random_clause(chooser, tense)
    return clause(
        subject,
        verb,
        tense,
        chooser.definite_object(verb, subject.noun) if verb.object_kinds else None,
    )


@register_construction(weight=5, in_short_corpus=True)
def _subject_relative(chooser: WordChooser) -> BilingualPhrase:
    """The fox that saw the mouse is tired. Le renard qui a vu la souris est fatigué."""
    actor, verb, _ = chooser.transitive_action()
    noun = actor.noun
    assert noun is not None
    subject = chooser.noun_phrase(noun, THE, adjective_rate=0)
    obj = chooser.definite_object(verb, noun)
    that = build_phrase("who" if noun.kind == "person" else "that", "qui")
    now = chooser.chance(0.5)
    group = verb_group(verb, "present" if now else choose_past_tense(verb), subject.agreement)
    adjective = chooser.adjective(noun, attributive=False)
    predicate = build_copula_predicate(
        adjective, subject.agreement, "present" if now else "imperfect"
    )
    return subject.phrase + that + group + obj.phrase + predicate + FULL_STOP


@register_construction(weight=5)
def _object_relative(chooser: WordChooser) -> BilingualPhrase:
    """The mouse that the fox saw is small. La souris que le renard a vue est petite."""
    verb = chooser.pick([verb for verb in chooser.lexicon.transitive_verbs if not verb.fr_particle])
    thing = chooser.noun_phrase(
        chooser.noun(chooser.available_kinds(verb.object_kinds)), THE, adjective_rate=0
    )
    who = chooser.random_noun_phrase(
        chooser.available_kinds(verb.subject_kinds), thing.noun, adjective_rate=0.2
    )
    tense = choose_past_tense(verb)
    group = verb_group(verb, tense, who.agreement, participle=thing.agreement)
    assert thing.noun is not None
    adjective = chooser.adjective(thing.noun, attributive=False)
    predicate = build_copula_predicate(
        adjective, thing.agreement, chooser.pick_tense("present", "imperfect")
    )
    return thing.phrase + build_phrase("that", "que") + who.phrase + group + predicate + FULL_STOP


@register_construction()
def _found_relative(chooser: WordChooser) -> BilingualPhrase:
    """The girl is looking for the key that the boy hid. … la clé que le garçon a cachée."""
    verb = chooser.transitive_verb("cacher", "perdre", "acheter", "trouver", "vendre", "voler")
    thing = chooser.noun_phrase(
        chooser.noun(chooser.available_kinds([k for k in verb.object_kinds if k != "provision"])),
        THE,
    )
    other = chooser.random_noun_phrase(chooser.available_kinds(verb.subject_kinds), thing.noun)
    seeker = chooser.random_noun_phrase(("person",), other.noun, thing.noun)
    group = verb_group(verb, "past", other.agreement, participle=thing.agreement)
    main = clause(seeker, chooser.transitive_verb("chercher", "voir", "regarder"), "present", thing)
    return main + build_phrase("that", "que") + other.phrase + group + FULL_STOP


@register_construction()
def _place_relative(chooser: WordChooser) -> BilingualPhrase:
    """The house where the witch lives is dark. La maison où habite la sorcière est sombre."""
    place = chooser.noun_phrase(chooser.noun(("building", "hollow", "land")), THE, adjective_rate=0)
    assert place.noun is not None
    verb = chooser.intransitive_verb(
        "dormir", "chanter", "travailler", "danser", "attendre", "reposer"
    )
    who = chooser.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.2)
    tense = chooser.pick_tense("present", "imperfect")
    inner = clause(who, verb, tense)
    adjective = chooser.adjective(place.noun, attributive=False)
    predicate = build_copula_predicate(adjective, place.agreement, tense)
    return place.phrase + build_phrase("where", "où") + inner + predicate + FULL_STOP


@register_construction(weight=4, in_short_corpus=True)
def _two_clauses(chooser: WordChooser) -> BilingualPhrase:
    """The dog sleeps and the cat eats the fish. Le chien dort et le chat mange le poisson."""
    tense: Tense = chooser.pick_tense("present", "past", "future", "imperfect")
    join = build_phrase(*chooser.pick((("and", "et"), ("but", "mais"))))
    return random_clause(chooser, tense) + join + random_clause(chooser, tense) + FULL_STOP


@register_construction(weight=4)
def _two_verbs(chooser: WordChooser) -> BilingualPhrase:
    """The fox left the cave and crossed the river. Le renard a quitté la grotte et a traversé …"""
    subject = chooser.random_noun_phrase(("animal",), adjective_rate=0.2)
    actions = [
        v
        for v in chooser.lexicon.transitive_verbs
        if "animal" in v.subject_kinds and not v.is_stative
    ]
    first, second = chooser.pick(actions), chooser.pick(actions)
    if first == second:
        return _two_verbs(chooser)
    tense: Tense = chooser.pick_tense("past", "past", "future")
    one = chooser.definite_object(first, subject.noun)
    other = chooser.definite_object(second, subject.noun, one.noun)
    group = verb_group(second, tense, subject.agreement)
    return (
        clause(subject, first, tense, one)
        + build_phrase("and", "et")
        + group
        + other.phrase
        + FULL_STOP
    )


@register_construction(weight=4)
def _object_pronoun(chooser: WordChooser) -> BilingualPhrase:
    """The girl found the key and hid it. La fille a trouvé la clé et l'a cachée."""
    first = chooser.transitive_verb("trouver", "chercher", "acheter", "voir")
    second = chooser.transitive_verb(
        "cacher", "vendre", "nettoyer", "porter", "pousser", "soulever", "regarder"
    )
    shared = [
        kind for kind in first.object_kinds if kind in second.object_kinds and kind in ITEM_KINDS
    ]
    if not shared:
        return _object_pronoun(chooser)
    who = chooser.noun_phrase(chooser.noun(("person",)), chooser.pick((THE, THE, A, THIS)))
    thing = chooser.noun_phrase(chooser.noun(shared), chooser.pick((THE, A)))
    tense: Tense = chooser.pick_tense("past", "past", "future", "present")
    group = verb_group(
        second, tense, who.agreement, clitic=build_it_or_them_object(thing.agreement)
    )
    return clause(who, first, tense, thing) + build_phrase("and", "et") + group + FULL_STOP


ITEM_KINDS = frozenset({"fruit", "load", "belonging"})


@register_construction(weight=3)
def _left_in_peace(chooser: WordChooser) -> BilingualPhrase:
    """The hunter saw the goat but didn't follow it. … a vu la chèvre mais ne l'a pas suivie."""
    first = chooser.transitive_verb("voir", "entendre", "chercher", "attendre")
    second = chooser.transitive_verb(
        "suivre", "poursuivre", "réveiller", "aider", "effrayer", "caresser"
    )
    hunter = chooser.noun_phrase(chooser.noun(("person",)), chooser.pick((THE, THE, A, THIS)))
    prey = chooser.noun_phrase(chooser.noun(("animal",)), chooser.pick((THE, A)))
    tense: Tense = chooser.pick_tense("past", "past", "future")
    group = verb_group(
        second, tense, hunter.agreement, NOT, clitic=build_it_or_them_object(prey.agreement)
    )
    return clause(hunter, first, tense, prey) + build_phrase("but", "mais") + group + FULL_STOP


@register_construction(weight=3)
def _so_that_not(chooser: WordChooser) -> BilingualPhrase:
    """The box is so heavy that the donkey can't carry it. … que l'âne ne peut pas la porter."""
    verb = chooser.transitive_verb(
        "traverser", "gravir", "porter", "soulever", "pousser", "manger", "tirer"
    )
    noun = chooser.noun(chooser.available_kinds(verb.object_kinds))
    hindrances = [a for a in chooser.lexicon.adjectives if a.is_hindrance and a.fits_noun(noun)]
    thing = chooser.noun_phrase(noun, chooser.pick((THE, THIS)), adjective_rate=0)
    who = chooser.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.2)
    predicate = copula_clause(
        thing, chooser.pick(hindrances), "present", AFFIRMATIVE, build_phrase(*SO)
    )
    it = build_it_or_them_object(thing.agreement)
    able = build_can_auxiliary(who.agreement.plural, False)
    inner = infinitive_phrase(verb, "", it)
    return predicate + build_phrase("that", "que") + who.phrase + able + inner + FULL_STOP


@register_construction(weight=3)
def _reason(chooser: WordChooser) -> BilingualPhrase:
    """The girl is sad because the cat left. La fille est triste parce que le chat est parti."""
    someone = chooser.noun_phrase(chooser.noun(("person",)), chooser.pick((THE, THE, THIS)))
    moods = [a for a in chooser.lexicon.adjectives if a.en in MOOD_ADJECTIVES]
    mood = copula_clause(someone, chooser.pick(moods), "imperfect")
    return mood + build_phrase("because", "parce que") + random_clause(chooser, "past") + FULL_STOP


MOOD_ADJECTIVES = frozenset(
    {"sad", "happy", "worried", "angry", "nervous", "proud", "jealous", "impatient"}
)


@register_construction(weight=3, in_short_corpus=True)
def _condition(chooser: WordChooser) -> BilingualPhrase:
    """If the wolf comes back, the goat will hide. Si le loup revient, la chèvre se cachera."""
    return (
        build_phrase("if", "si")
        + random_clause(chooser, "present")
        + COMMA
        + random_clause(chooser, "future")
        + FULL_STOP
    )


@register_construction(weight=3)
def _meanwhile(chooser: WordChooser) -> BilingualPhrase:
    """While the farmer was sleeping, the fox left. Pendant que le fermier dormait, …"""
    return (
        build_phrase("while", "pendant que")
        + random_clause(chooser, "imperfect")
        + COMMA
        + random_clause(chooser, "past")
        + FULL_STOP
    )


@register_construction(weight=3)
def _whenever(chooser: WordChooser) -> BilingualPhrase:
    """When the dog sleeps, the cat dances. Quand le chien dort, le chat danse."""
    when = build_phrase(*chooser.pick((("when", "quand"), ("as soon as", "dès que"))))
    return (
        when
        + random_clause(chooser, "present")
        + COMMA
        + random_clause(chooser, "present")
        + FULL_STOP
    )


@register_construction(weight=4)
def _reported(chooser: WordChooser) -> BilingualPhrase:
    """The raven says that the fox is clever. Le corbeau dit que le renard est rusé."""
    verb = chooser.reporting_verb()
    who = chooser.random_noun_phrase(verb.subject_kinds)
    tense: Tense = (
        chooser.pick_tense("present", choose_past_tense(verb)) if verb.is_stative else "present"
    )
    if chooser.chance(0.5):
        noun = chooser.noun(("animal", "person", "road", "water", "load", "fruit"), who.noun)
        subject = chooser.noun_phrase(noun, THE, adjective_rate=0)
        inner = copula_clause(subject, chooser.adjective(noun, attributive=False), tense)
    else:
        inner = random_clause(chooser, "past" if tense == "present" else "imperfect")
    return clause(who, verb, tense) + build_phrase("that", "que") + inner + FULL_STOP


@register_construction(weight=3)
def _before_doing(chooser: WordChooser) -> BilingualPhrase:
    """The fox rested before crossing the river. Le renard s'est reposé avant de traverser …"""
    subject, verb, obj = chooser.intended_action()
    rest = chooser.intransitive_verb()
    tense: Tense = chooser.pick_tense("past", "future")
    en, fr = chooser.pick((("before", "avant de"), ("without", "sans")))
    doing = build_phrase(en, fr) + infinitive_phrase(verb, "-ing") + obj.phrase
    return clause(subject, rest, tense) + doing + FULL_STOP


@register_construction(weight=3)
def _in_order_to(chooser: WordChooser) -> BilingualPhrase:
    """The fox hid to watch the goat. Le renard s'est caché pour regarder la chèvre."""
    subject, verb, obj = chooser.intended_action()
    ways = ("revenir", "courir", "rester", "partir", "lever")
    way = chooser.intransitive_verb(*ways)
    to = BilingualPhrase((), attach_alignment_keys("pour"))
    return (
        clause(subject, way, chooser.pick_tense("past", "future"))
        + to
        + infinitive_phrase(verb)
        + obj.phrase
        + FULL_STOP
    )


@register_construction(weight=5)
def _tale(chooser: WordChooser) -> BilingualPhrase:
    """Yesterday, while the girl was singing, the cat left and the dog ran, but the hen was shy."""
    background = build_phrase("while", "pendant que") + random_clause(chooser, "imperfect")
    events = (
        random_clause(chooser, "past") + build_phrase("and", "et") + random_clause(chooser, "past")
    )
    noun = chooser.noun(ANIMATE_KINDS)
    someone = chooser.noun_phrase(noun, chooser.pick((THE, THIS)), adjective_rate=0)
    end = copula_clause(someone, chooser.adjective(noun, attributive=False), "imperfect")
    start = (
        chooser.time_adverbial("past")
        + build_phrase(",", ",")
        + background
        + build_phrase(",", ",")
    )
    return start + events + build_phrase(",", ",") + build_phrase("but", "mais") + end + FULL_STOP


@register_construction(weight=4)
def _prophecy(chooser: WordChooser) -> BilingualPhrase:
    """The owl says that if the wolf comes back, the goat will hide and the dog will run."""
    wise = chooser.definite_noun_phrase(ANIMATE_KINDS)
    says = clause(wise, chooser.reporting_verb(), "present") + build_phrase("that", "que")
    future = (
        random_clause(chooser, "future")
        + build_phrase("and", "et")
        + random_clause(chooser, "future")
    )
    return (
        says
        + build_phrase("if", "si")
        + random_clause(chooser, "present")
        + COMMA
        + future
        + FULL_STOP
    )
