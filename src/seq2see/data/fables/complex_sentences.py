"""Questions, orders, exclamations, and constructions of several clauses."""

from __future__ import annotations

from seq2see.data.fables.lexicon import MY, THE, THIS, YOUR, A
from seq2see.data.fables.morphology import Tense
from seq2see.data.fables.phrases import (
    AFFIRMATIVE,
    EMPTY_PHRASE,
    NO_SUBJECT,
    NOT,
    AgreementFeatures,
    AlignmentKey,
    BilingualPhrase,
    Negation,
    NounPhrase,
    build_noun_phrase,
    choose_past_tense,
    clause,
    copula_clause,
    copula_phrase,
    infinitive_phrase,
    make_aligned_pair,
    make_aligned_words,
    object_clitic,
    personal_pronoun,
    verb_group,
)
from seq2see.data.fables.simple_sentences import (
    COMMA,
    FULL_STOP,
    SO,
    can_phrase,
    choose_intransitive_verb,
    choose_transitive_verb,
    definite_noun_phrase,
    definite_object,
    register_construction,
)
from seq2see.data.fables.verbs import BE_VERB, Verb
from seq2see.data.fables.word_choice import ANIMATE_KINDS, WordChooser

QUESTION_MARK, EXCLAMATION_MARK = make_aligned_pair("?", "?"), make_aligned_pair("!", "!")


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
    things: AgreementFeatures | None = None,
) -> BilingualPhrase:
    """Return "did the fox cross" and "le renard a traversé"; `things` are what is asked for."""
    of = subject.agreement
    helper = DO_AUXILIARIES[tense][of.plural] + ("n't" if negation is NOT else "")
    helper = "won't" if helper == "willn't" else helper
    group = verb_group(verb, tense, of, negation, participle=things)
    act = group.en[-1].keys[:1]
    ask = make_aligned_words(helper, *(link for link in group.en[0].keys if link not in act))
    en = ask + subject.phrase.en + make_aligned_words(f"{verb.en} {verb.en_particle}", *act)
    return BilingualPhrase(en, subject.phrase.fr + group.fr)


def choose_question_tense(w: WordChooser, verb: Verb) -> Tense:
    """Choose a tense for a question."""
    return "present" if verb.is_stative else w.pick_tense("present", "past", "past", "future")


@register_construction(weight=4, in_short_corpus=True)
def yes_or_no(w: WordChooser) -> BilingualPhrase:
    """Did the fox cross the river? Est-ce que le renard a traversé la rivière ?"""
    verb = w.transitive_verb()
    subject = (
        definite_noun_phrase(w, verb.subject_kinds) if w.chance(0.8) else personal_pronoun("you")
    )
    polarity = NOT if w.chance(0.2) else AFFIRMATIVE
    obj = definite_object(w, verb, subject.noun)
    asks = question_clause(subject, verb, choose_question_tense(w, verb), polarity)
    return BilingualPhrase((), make_aligned_words("est-ce que")) + asks + obj.phrase + QUESTION_MARK


@register_construction()
def why(w: WordChooser) -> BilingualPhrase:
    """Why did the hen leave? Pourquoi est-ce que la poule est partie ?"""
    if w.chance(0.5):
        verb = w.intransitive_verb()
        subject, obj = definite_noun_phrase(w, verb.subject_kinds), EMPTY_PHRASE
    else:
        verb = w.transitive_verb()
        subject = definite_noun_phrase(w, verb.subject_kinds)
        obj = definite_object(w, verb, subject.noun).phrase
    asks = question_clause(
        subject, verb, choose_question_tense(w, verb), NOT if w.chance(0.3) else AFFIRMATIVE
    )
    return make_aligned_pair("why", "pourquoi est-ce que") + asks + obj + QUESTION_MARK


@register_construction()
def who(w: WordChooser) -> BilingualPhrase:
    """Who opened the door? Qui a ouvert la porte ?"""
    _, verb, _ = w.transitive_action()
    tense: Tense = "present" if verb.is_stative else w.pick_tense("past", "present", "future")
    return (
        make_aligned_pair("who", "qui")
        + clause(NO_SUBJECT, verb, tense, definite_object(w, verb))
        + QUESTION_MARK
    )


@register_construction(weight=2)
def where(w: WordChooser) -> BilingualPhrase:
    """Where are my keys? Où sont mes clés ?"""
    noun = w.noun(("animal", "person", "building", "belonging", "load", "water"))
    thing = w.noun_phrase(noun, w.pick((THE, THIS, MY, YOUR)), adjective_rate=0.5)
    be = verb_group(BE_VERB, w.pick_tense("present", "imperfect"), thing.agreement)
    return make_aligned_pair("where", "où") + be + thing.phrase + QUESTION_MARK


@register_construction(weight=2)
def how_many(w: WordChooser) -> BilingualPhrase:
    """How many apples did the goat eat? Combien de pommes est-ce que la chèvre a mangées ?"""
    verb = choose_transitive_verb(
        w, "manger", "voir", "trouver", "acheter", "vendre", "voler", "porter"
    )
    subject = definite_noun_phrase(w, verb.subject_kinds)
    kinds = w.available_kinds([kind for kind in verb.object_kinds if kind != "provision"])
    noun = w.noun(kinds, subject.noun)
    things = make_aligned_pair("how many", "combien de") + make_aligned_pair(
        noun.en_plural, noun.fr_plural
    )
    asks = question_clause(
        subject, verb, "past", things=AgreementFeatures(noun.gender, True, "they")
    )
    return things + BilingualPhrase((), make_aligned_words("est-ce que")) + asks + QUESTION_MARK


@register_construction(in_short_corpus=True)
def order(w: WordChooser) -> BilingualPhrase:
    """Don't cross the river! Ne traversez pas la rivière !"""
    _, verb, _ = w.intended_action()
    if verb.is_reflexive:
        return order(w)
    obj = w.noun_phrase(
        w.noun(w.available_kinds(verb.object_kinds)), w.pick((THE, THE, YOUR)), adjective_rate=0.4
    )
    act, no = AlignmentKey(), AlignmentKey()
    en, fr = (
        make_aligned_words(f"{verb.en} {verb.en_particle}", act),
        make_aligned_words(verb.fr.present("you"), act),
    )
    if w.chance(0.5):
        en = make_aligned_words("don't", no) + en
        fr = make_aligned_words("ne", no) + fr + make_aligned_words("pas", no)
    return (
        BilingualPhrase(en, fr + make_aligned_words(verb.fr_particle, act))
        + obj.phrase
        + EXCLAMATION_MARK
    )


@register_construction(weight=2)
def exclamation(w: WordChooser) -> BilingualPhrase:
    """What a beautiful house! Quelle belle maison !"""
    noun = w.noun(("animal", "person", "building", "land", "height", "belonging", "load"))
    thing = build_noun_phrase(A, noun, (w.adjective(noun),)).phrase
    what = make_aligned_pair("what a", "quel" if noun.gender == "m" else "quelle")
    return BilingualPhrase(what.en + thing.en[1:], what.fr + thing.fr[1:]) + EXCLAMATION_MARK


@register_construction(weight=2)
def state_question(w: WordChooser) -> BilingualPhrase:
    """Is the river deep? Est-ce que la rivière est profonde ?"""
    noun = w.noun(("animal", "person", "road", "water", "height", "building", "load", "fruit"))
    subject = w.noun_phrase(noun, THE, adjective_rate=0)
    adjective = w.adjective(noun, attributive=False)
    said = copula_phrase(adjective, subject.agreement, w.pick_tense("present", "imperfect"))
    en = said.en[:1] + subject.phrase.en + said.en[1:]
    return (
        BilingualPhrase(en, make_aligned_words("est-ce que") + subject.phrase.fr + said.fr)
        + QUESTION_MARK
    )


def random_clause(w: WordChooser, tense: Tense) -> BilingualPhrase:
    """Return a short clause in a tense."""
    subject, verb, _ = w.transitive_action()
    if w.chance(0.5):
        verb = w.intransitive_verb()
        subject = w.random_noun_phrase(verb.subject_kinds, adjective_rate=0.2)
    if verb.is_stative or (verb.is_momentary and tense == "imperfect"):
        return random_clause(w, tense)
    return clause(
        subject, verb, tense, definite_object(w, verb, subject.noun) if verb.object_kinds else None
    )


@register_construction(weight=5, in_short_corpus=True)
def subject_relative(w: WordChooser) -> BilingualPhrase:
    """The fox that saw the mouse is tired. Le renard qui a vu la souris est fatigué."""
    actor, verb, _ = w.transitive_action()
    noun = actor.noun
    assert noun is not None
    subject = w.noun_phrase(noun, THE, adjective_rate=0)
    obj = definite_object(w, verb, noun)
    that = make_aligned_pair("who" if noun.kind == "person" else "that", "qui")
    now = w.chance(0.5)
    group = verb_group(verb, "present" if now else choose_past_tense(verb), subject.agreement)
    adjective = w.adjective(noun, attributive=False)
    said = copula_phrase(adjective, subject.agreement, "present" if now else "imperfect")
    return subject.phrase + that + group + obj.phrase + said + FULL_STOP


@register_construction(weight=5)
def object_relative(w: WordChooser) -> BilingualPhrase:
    """The mouse that the fox saw is small. La souris que le renard a vue est petite."""
    verb = w.pick([verb for verb in w.lexicon.transitive_verbs if not verb.fr_particle])
    thing = w.noun_phrase(w.noun(w.available_kinds(verb.object_kinds)), THE, adjective_rate=0)
    who = w.random_noun_phrase(
        w.available_kinds(verb.subject_kinds), thing.noun, adjective_rate=0.2
    )
    tense = choose_past_tense(verb)
    group = verb_group(verb, tense, who.agreement, participle=thing.agreement)
    assert thing.noun is not None
    adjective = w.adjective(thing.noun, attributive=False)
    said = copula_phrase(adjective, thing.agreement, w.pick_tense("present", "imperfect"))
    return thing.phrase + make_aligned_pair("that", "que") + who.phrase + group + said + FULL_STOP


@register_construction()
def found_relative(w: WordChooser) -> BilingualPhrase:
    """The girl is looking for the key that the boy hid. … la clé que le garçon a cachée."""
    verb = choose_transitive_verb(w, "cacher", "perdre", "acheter", "trouver", "vendre", "voler")
    thing = w.noun_phrase(
        w.noun(w.available_kinds([k for k in verb.object_kinds if k != "provision"])), THE
    )
    other = w.random_noun_phrase(w.available_kinds(verb.subject_kinds), thing.noun)
    seeker = w.random_noun_phrase(("person",), other.noun, thing.noun)
    group = verb_group(verb, "past", other.agreement, participle=thing.agreement)
    main = clause(
        seeker, choose_transitive_verb(w, "chercher", "voir", "regarder"), "present", thing
    )
    return main + make_aligned_pair("that", "que") + other.phrase + group + FULL_STOP


@register_construction()
def place_relative(w: WordChooser) -> BilingualPhrase:
    """The house where the witch lives is dark. La maison où habite la sorcière est sombre."""
    place = w.noun_phrase(w.noun(("building", "hollow", "land")), THE, adjective_rate=0)
    assert place.noun is not None
    verb = choose_intransitive_verb(
        w, "dormir", "chanter", "travailler", "danser", "attendre", "reposer"
    )
    who = w.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.2)
    tense = w.pick_tense("present", "imperfect")
    inner = clause(who, verb, tense)
    adjective = w.adjective(place.noun, attributive=False)
    said = copula_phrase(adjective, place.agreement, tense)
    return place.phrase + make_aligned_pair("where", "où") + inner + said + FULL_STOP


@register_construction(weight=4, in_short_corpus=True)
def two_clauses(w: WordChooser) -> BilingualPhrase:
    """The dog sleeps and the cat eats the fish. Le chien dort et le chat mange le poisson."""
    tense: Tense = w.pick_tense("present", "past", "future", "imperfect")
    join = make_aligned_pair(*w.pick((("and", "et"), ("but", "mais"))))
    return random_clause(w, tense) + join + random_clause(w, tense) + FULL_STOP


@register_construction(weight=4)
def two_verbs(w: WordChooser) -> BilingualPhrase:
    """The fox left the cave and crossed the river. Le renard a quitté la grotte et a traversé …"""
    subject = w.random_noun_phrase(("animal",), adjective_rate=0.2)
    actions = [
        v for v in w.lexicon.transitive_verbs if "animal" in v.subject_kinds and not v.is_stative
    ]
    first, second = w.pick(actions), w.pick(actions)
    if first == second:
        return two_verbs(w)
    tense: Tense = w.pick_tense("past", "past", "future")
    one = definite_object(w, first, subject.noun)
    other = definite_object(w, second, subject.noun, one.noun)
    group = verb_group(second, tense, subject.agreement)
    return (
        clause(subject, first, tense, one)
        + make_aligned_pair("and", "et")
        + group
        + other.phrase
        + FULL_STOP
    )


@register_construction(weight=4)
def object_pronoun(w: WordChooser) -> BilingualPhrase:
    """The girl found the key and hid it. La fille a trouvé la clé et l'a cachée."""
    first = choose_transitive_verb(w, "trouver", "chercher", "acheter", "voir")
    second = choose_transitive_verb(
        w, "cacher", "vendre", "nettoyer", "porter", "pousser", "soulever", "regarder"
    )
    shared = [
        kind for kind in first.object_kinds if kind in second.object_kinds and kind in ITEM_KINDS
    ]
    if not shared:
        return object_pronoun(w)
    who = w.noun_phrase(w.noun(("person",)), w.pick((THE, THE, A, THIS)))
    thing = w.noun_phrase(w.noun(shared), w.pick((THE, A)))
    tense: Tense = w.pick_tense("past", "past", "future", "present")
    group = verb_group(second, tense, who.agreement, clitic=object_clitic(thing.agreement))
    return clause(who, first, tense, thing) + make_aligned_pair("and", "et") + group + FULL_STOP


ITEM_KINDS = frozenset({"fruit", "load", "belonging"})


@register_construction(weight=3)
def left_in_peace(w: WordChooser) -> BilingualPhrase:
    """The hunter saw the goat but didn't follow it. … a vu la chèvre mais ne l'a pas suivie."""
    first = choose_transitive_verb(w, "voir", "entendre", "chercher", "attendre")
    second = choose_transitive_verb(
        w, "suivre", "poursuivre", "réveiller", "aider", "effrayer", "caresser"
    )
    hunter = w.noun_phrase(w.noun(("person",)), w.pick((THE, THE, A, THIS)))
    prey = w.noun_phrase(w.noun(("animal",)), w.pick((THE, A)))
    tense: Tense = w.pick_tense("past", "past", "future")
    group = verb_group(second, tense, hunter.agreement, NOT, clitic=object_clitic(prey.agreement))
    return clause(hunter, first, tense, prey) + make_aligned_pair("but", "mais") + group + FULL_STOP


@register_construction(weight=3)
def so_that_not(w: WordChooser) -> BilingualPhrase:
    """The box is so heavy that the donkey can't carry it. … que l'âne ne peut pas la porter."""
    verb = choose_transitive_verb(
        w, "traverser", "gravir", "porter", "soulever", "pousser", "manger", "tirer"
    )
    noun = w.noun(w.available_kinds(verb.object_kinds))
    hindrances = [a for a in w.lexicon.adjectives if a.is_hindrance and a.fits_noun(noun)]
    thing = w.noun_phrase(noun, w.pick((THE, THIS)), adjective_rate=0)
    who = w.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.2)
    said = copula_clause(thing, w.pick(hindrances), "present", AFFIRMATIVE, make_aligned_pair(*SO))
    it = object_clitic(thing.agreement)
    able = can_phrase(who.agreement.plural, False)
    inner = infinitive_phrase(verb, "", it)
    return said + make_aligned_pair("that", "que") + who.phrase + able + inner + FULL_STOP


@register_construction(weight=3)
def reason(w: WordChooser) -> BilingualPhrase:
    """The girl is sad because the cat left. La fille est triste parce que le chat est parti."""
    someone = w.noun_phrase(w.noun(("person",)), w.pick((THE, THE, THIS)))
    moods = [a for a in w.lexicon.adjectives if a.en in MOOD_ADJECTIVES]
    mood = copula_clause(someone, w.pick(moods), "imperfect")
    return mood + make_aligned_pair("because", "parce que") + random_clause(w, "past") + FULL_STOP


MOOD_ADJECTIVES = frozenset(
    {"sad", "happy", "worried", "angry", "nervous", "proud", "jealous", "impatient"}
)


@register_construction(weight=3, in_short_corpus=True)
def condition(w: WordChooser) -> BilingualPhrase:
    """If the wolf comes back, the goat will hide. Si le loup revient, la chèvre se cachera."""
    return (
        make_aligned_pair("if", "si")
        + random_clause(w, "present")
        + COMMA
        + random_clause(w, "future")
        + FULL_STOP
    )


@register_construction(weight=3)
def meanwhile(w: WordChooser) -> BilingualPhrase:
    """While the farmer was sleeping, the fox left. Pendant que le fermier dormait, …"""
    return (
        make_aligned_pair("while", "pendant que")
        + random_clause(w, "imperfect")
        + COMMA
        + random_clause(w, "past")
        + FULL_STOP
    )


@register_construction(weight=3)
def whenever(w: WordChooser) -> BilingualPhrase:
    """When the dog sleeps, the cat dances. Quand le chien dort, le chat danse."""
    when = make_aligned_pair(*w.pick((("when", "quand"), ("as soon as", "dès que"))))
    return when + random_clause(w, "present") + COMMA + random_clause(w, "present") + FULL_STOP


@register_construction(weight=4)
def reported(w: WordChooser) -> BilingualPhrase:
    """The raven says that the fox is clever. Le corbeau dit que le renard est rusé."""
    verb = w.reporting_verb()
    who = w.random_noun_phrase(verb.subject_kinds)
    tense: Tense = (
        w.pick_tense("present", choose_past_tense(verb)) if verb.is_stative else "present"
    )
    if w.chance(0.5):
        noun = w.noun(("animal", "person", "road", "water", "load", "fruit"), who.noun)
        subject = w.noun_phrase(noun, THE, adjective_rate=0)
        inner = copula_clause(subject, w.adjective(noun, attributive=False), tense)
    else:
        inner = random_clause(w, "past" if tense == "present" else "imperfect")
    return clause(who, verb, tense) + make_aligned_pair("that", "que") + inner + FULL_STOP


@register_construction(weight=3)
def before_doing(w: WordChooser) -> BilingualPhrase:
    """The fox rested before crossing the river. Le renard s'est reposé avant de traverser …"""
    subject, verb, obj = w.intended_action()
    rest = w.intransitive_verb()
    tense: Tense = w.pick_tense("past", "future")
    en, fr = w.pick((("before", "avant de"), ("without", "sans")))
    doing = make_aligned_pair(en, fr) + infinitive_phrase(verb, "-ing") + obj.phrase
    return clause(subject, rest, tense) + doing + FULL_STOP


@register_construction(weight=3)
def in_order_to(w: WordChooser) -> BilingualPhrase:
    """The fox hid to watch the goat. Le renard s'est caché pour regarder la chèvre."""
    subject, verb, obj = w.intended_action()
    ways = ("revenir", "courir", "rester", "partir", "lever")
    way = choose_intransitive_verb(w, *ways)
    to = BilingualPhrase((), make_aligned_words("pour"))
    return (
        clause(subject, way, w.pick_tense("past", "future"))
        + to
        + infinitive_phrase(verb)
        + obj.phrase
        + FULL_STOP
    )


@register_construction(weight=5)
def tale(w: WordChooser) -> BilingualPhrase:
    """Yesterday, while the girl was singing, the cat left and the dog ran, but the hen was shy."""
    background = make_aligned_pair("while", "pendant que") + random_clause(w, "imperfect")
    events = random_clause(w, "past") + make_aligned_pair("and", "et") + random_clause(w, "past")
    noun = w.noun(ANIMATE_KINDS)
    someone = w.noun_phrase(noun, w.pick((THE, THIS)), adjective_rate=0)
    end = copula_clause(someone, w.adjective(noun, attributive=False), "imperfect")
    start = (
        w.time_adverbial("past")
        + make_aligned_pair(",", ",")
        + background
        + make_aligned_pair(",", ",")
    )
    return (
        start
        + events
        + make_aligned_pair(",", ",")
        + make_aligned_pair("but", "mais")
        + end
        + FULL_STOP
    )


@register_construction(weight=4)
def prophecy(w: WordChooser) -> BilingualPhrase:
    """The owl says that if the wolf comes back, the goat will hide and the dog will run."""
    wise = definite_noun_phrase(w, ANIMATE_KINDS)
    says = clause(wise, w.reporting_verb(), "present") + make_aligned_pair("that", "que")
    future = (
        random_clause(w, "future") + make_aligned_pair("and", "et") + random_clause(w, "future")
    )
    return (
        says
        + make_aligned_pair("if", "si")
        + random_clause(w, "present")
        + COMMA
        + future
        + FULL_STOP
    )
