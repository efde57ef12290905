"""Constructions of one clause: statements and descriptions.

A construction is a function that builds a sentence; its docstring is an example. Its name without
the underscore is stored with the sentences, and its position in the list is part of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from seq2see.data.fables.lexicon import (
    BE_VERB,
    NUMBERS,
    VERBS,
    AgreementFeatures,
    Person,
    nouns_of_kinds,
)
from seq2see.data.fables.phrases import (
    EMPTY_PHRASE,
    MODALS,
    NO_DEGREE,
    TOO,
    VERY,
    AlignmentKey,
    BilingualPhrase,
    build_adjective,
    build_comparative_with_than,
    build_modal,
    build_noun_phrase,
    build_phrase,
    build_subject_pronoun,
    build_words,
    coordinate_noun_phrases,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.word_choice import ANIMATE, DEFINITE, WordChooser

SentenceBuilder = Callable[[WordChooser], BilingualPhrase]


@dataclass(frozen=True, slots=True)
class Construction:
    """A kind of sentence, with the function that builds it."""

    name: str
    build: SentenceBuilder
    weight: int
    """Relative frequency."""
    in_short_corpus: bool
    mark: str
    """The mark at the end, which `build` does not add."""


CONSTRUCTIONS: list[Construction] = []
"""All constructions, in the order in which the modules register them."""


def register_construction(
    weight: int = 3, in_short_corpus: bool = False, mark: str = "."
) -> Callable[[SentenceBuilder], SentenceBuilder]:
    """Return a decorator that adds a function to `CONSTRUCTIONS`."""

    def register(build: SentenceBuilder) -> SentenceBuilder:
        name = build.__name__.removeprefix("_")
        CONSTRUCTIONS.append(Construction(name, build, weight, in_short_corpus, mark))
        return build

    return register


@register_construction(weight=4, in_short_corpus=True)
def _intransitive(choose: WordChooser) -> BilingualPhrase:
    """The mouse was sleeping near the bridge. La souris dormait près du pont."""
    verb = choose.verb("intransitive")
    tense = choose.tense(verb)
    where = choose.optional_location(verb, 0.6)
    has_no_time = verb.is_stative or choose.chance(0.6)
    when = EMPTY_PHRASE if has_no_time else choose.adverbial("time", tense)
    return choose.noun_phrase(verb.subject_kinds).clause(verb, tense) + where + when


@register_construction()
def _manner(choose: WordChooser) -> BilingualPhrase:
    """The goat walks slowly. La chèvre marche lentement."""
    verb = choose.verb("manner")
    how = choose.adverbial("manner")
    return choose.noun_phrase(ANIMATE, adjective_rate=0.5).clause(verb, choose.tense(verb)) + how


@register_construction(weight=7, in_short_corpus=True)
def _transitive(choose: WordChooser) -> BilingualPhrase:
    """The fox crossed the deep river. Le renard a traversé la rivière profonde."""
    subject, verb, obj = choose.action()
    return subject.clause(verb, choose.tense(verb), obj)


@register_construction(weight=4)
def _dated(choose: WordChooser) -> BilingualPhrase:
    """Yesterday, the fox crossed the river. Hier, le renard a traversé la rivière."""
    subject, verb, obj = choose.action()
    tense = "present" if verb.is_stative else choose.tense(verb)
    comma = build_phrase(",", ",")
    return choose.adverbial("time", tense) + comma + subject.clause(verb, tense, obj)


@register_construction(weight=5, in_short_corpus=True)
def _negated(choose: WordChooser) -> BilingualPhrase:
    """The fox didn't cross the river. Le renard n'a pas traversé la rivière."""
    subject, verb, _ = choose.action()
    obj = choose.definite_object(verb, subject.noun)
    return subject.clause(verb, choose.tense(verb), obj, "not")


@register_construction(in_short_corpus=True)
def _never(choose: WordChooser) -> BilingualPhrase:
    """The fox has never crossed the river. Le renard n'a jamais traversé la rivière."""
    subject, verb, _ = choose.action()
    tense = choose.present_or(verb, "present", "perfect", "future")
    return subject.clause(verb, tense, choose.definite_object(verb, subject.noun), "never")


@register_construction()
def _no_longer(choose: WordChooser) -> BilingualPhrase:
    """The fox no longer sleeps in the cave. Le renard ne dort plus dans la grotte."""
    tense = choose.pick_tense("present", "present", "future")
    if choose.chance(0.5):
        verb = choose.verb("former_action")
        subject, obj = choose.noun_phrase(verb.subject_kinds), choose.definite_object(verb)
        return subject.clause(verb, tense, obj, "no longer")
    verb = choose.verb("former_activity")
    subject = choose.noun_phrase(verb.subject_kinds)
    return subject.clause(verb, tense, negation="no longer") + choose.location()


@register_construction()
def _nothing(choose: WordChooser) -> BilingualPhrase:
    """The fox saw nothing in the cave. Le renard n'a rien vu dans la grotte."""
    verb = choose.verb("nothing")
    where = choose.location() if choose.chance(0.6) else EMPTY_PHRASE
    tense = choose.pick_tense("past", "past", "future", "present")
    subject = choose.noun_phrase(verb.subject_kinds)
    return subject.clause(verb, tense, negation="nothing") + where


@register_construction(weight=4)
def _frequency(choose: WordChooser) -> BilingualPhrase:
    """The fox has already crossed the river. Le renard a déjà traversé la rivière."""
    subject, verb, obj = choose.action()
    tense = choose.present_or(verb, "present", "perfect", "future")
    adverb = choose.adverbial("frequency", tense)
    return subject + verb_group(verb, tense, subject.agreement, adverb=adverb) + obj


@register_construction(in_short_corpus=True)
def _counted(choose: WordChooser) -> BilingualPhrase:
    """Five little birds were sleeping. Cinq petits oiseaux dormaient."""
    verb = choose.verb("intransitive")
    determiners = (*NUMBERS, "many", "several")
    subject = choose.noun_phrase(verb.subject_kinds, determiners, True, adjective_rate=0.5)
    where = choose.optional_location(verb, 0.6)
    return subject.clause(verb, choose.tense(verb)) + where


@register_construction(weight=2)
def _everyone(choose: WordChooser) -> BilingualPhrase:
    """All the goats are sleeping. Toutes les chèvres dorment."""
    noun = choose.noun(ANIMATE)
    plural = choose.chance(0.6)
    subject = choose.noun_phrase(noun, "all" if plural else "every", plural, adjective_rate=0.2)
    verb = choose.verb("intransitive")
    return subject.clause(verb, choose.tense(verb))


@register_construction(in_short_corpus=True)
def _pair_of_subjects(choose: WordChooser) -> BilingualPhrase:
    """The goat and the frog arrived. La chèvre et la grenouille sont arrivées."""
    first = choose.noun_phrase(ANIMATE, plural=False)
    second = choose.noun_phrase(ANIMATE, plural=False, exclude=[first.noun])
    verb = choose.verb("intransitive")
    where = choose.optional_location(verb, 0.5)
    return coordinate_noun_phrases(first, second).clause(verb, choose.tense(verb)) + where


@register_construction(weight=4)
def _wanting(choose: WordChooser) -> BilingualPhrase:
    """The fox tried to cross the street. Le renard a essayé de traverser la rue."""
    subject, verb, obj = choose.action(intended=True)
    main_verb = choose.verb("infinitive")
    tense = choose.pick_tense("present", main_verb.past_tense, "future")
    action = infinitive_phrase(verb) + obj
    return subject.clause(main_verb, tense, action, choose.negation(0.3))


@register_construction(weight=4)
def _ability(choose: WordChooser) -> BilingualPhrase:
    """The fox can't cross the street. Le renard ne peut pas traverser la rue."""
    subject, verb, obj = choose.action(intended=True)
    modal = build_modal(choose.pick(tuple(MODALS)), subject.agreement.plural)
    return subject + modal + infinitive_phrase(verb, "") + obj


@register_construction(weight=4)
def _giving(choose: WordChooser) -> BilingualPhrase:
    """The girl gives an apple to the horse. La fille donne une pomme au cheval."""
    verb = choose.verb("giving")
    giver = choose.noun_phrase(verb.subject_kinds)
    gift = choose.noun_phrase(verb.object_kinds, ("the", "a", "my", "this"))
    receiver = choose.noun_phrase(ANIMATE, ("the", "a", "my"), exclude=[giver.noun])
    objects = gift + build_phrase(verb.en_particle, verb.fr_particle) + receiver
    without_particles = replace(verb, en_particle="", fr_particle="")
    return giver.clause(without_particles, choose.tense(verb), objects)


@register_construction(weight=3)
def _passive(choose: WordChooser) -> BilingualPhrase:
    """The mouse was found by the cat. La souris a été trouvée par le chat."""
    verb = choose.verb("passive")
    agent = choose.noun_phrase(verb.subject_kinds)
    victim = choose.noun_phrase(verb.object_kinds, exclude=[agent.noun])
    tense = choose.pick_tense("past", "future")
    participle = build_phrase(verb.en_participle, verb.fr.inflect_participle(victim.agreement))
    predicate = participle + build_phrase("by", "par") + agent
    return victim.clause(BE_VERB, tense, predicate, choose.negation(0.2))


@register_construction(weight=4)
def _first_person(choose: WordChooser) -> BilingualPhrase:
    """I saw my horse near the bridge. J'ai vu mon cheval près du pont."""
    person: Person = choose.pick(("I", "I", "we"))
    verb = choose.verb("first_person")
    mine = "my" if person == "I" else "our"
    determiner = choose.pick((mine, "the", *NUMBERS[:4], "a", "this"))
    plural = True if determiner in NUMBERS else None
    obj = choose.noun_phrase(verb.object_kinds, determiner, plural)
    where = choose.location(obj.noun) if choose.chance(0.4) else EMPTY_PHRASE
    negation = choose.negation(0.3) if determiner in {"the", "this", "my", "our"} else ""
    tense = choose.pick_tense("present", "past", "past", "future")
    subject = build_subject_pronoun(AgreementFeatures("m", person))
    return subject.clause(verb, tense, obj, negation) + where


@register_construction(weight=4)
def _ownership(choose: WordChooser) -> BilingualPhrase:
    """The princess lost her crown. La princesse a perdu sa couronne."""
    verb = choose.verb("ownership")
    owner = choose.noun_phrase(verb.subject_kinds)
    own = "its" if owner.noun.kind == "animal" else "her" if owner.noun.gender == "f" else "his"
    own = "their" if owner.agreement.plural else own
    kinds = tuple(kind for kind in verb.object_kinds if kind in {"load", "belonging"})
    thing = choose.noun_phrase(kinds, own, exclude=[owner.noun])
    return owner.clause(verb, choose.tense(verb), thing)


@register_construction(weight=5, in_short_corpus=True)
def _property_of(choose: WordChooser) -> BilingualPhrase:
    """The river was very deep. La rivière était très profonde."""
    nouns = [noun for noun in choose.lexicon.nouns if noun.kind not in NO_PROPERTIES]
    subject = choose.noun_phrase(choose.pick(nouns), DEFINITE, adjective_rate=0)
    adjective = choose.adjective(subject.noun, "predicative")
    negation = choose.negation(0.25)
    degree = choose.pick((VERY, TOO) if adjective.is_hindrance else (VERY,))
    if negation or choose.chance(0.4):
        degree = NO_DEGREE
    tense = choose.pick_tense("present", "imperfect", "future")
    return subject + subject.predicate(adjective, tense, negation, degree)


NO_PROPERTIES = frozenset({"part", "opening", "drink"})
COMPARED_KINDS = ("animal", "person", "road", "water", "height", "building", "load")


@register_construction(weight=4, in_short_corpus=True)
def _comparison(choose: WordChooser) -> BilingualPhrase:
    """The street is wider than the path. La rue est plus large que le chemin."""
    determiners = ("the", "this", "my")
    subject = choose.noun_phrase(COMPARED_KINDS, determiners, adjective_rate=0)
    noun = subject.noun
    other = choose.noun_phrase((noun.kind,), determiners, adjective_rate=0.1, exclude=[noun])
    tense = choose.pick_tense("present", "imperfect")
    adjective = choose.adjective(noun, "comparable")
    adverb = choose.pick(("plus", "plus", "moins", "aussi"))
    comparative = build_comparative_with_than(adverb, adjective, subject.agreement)
    return subject.clause(BE_VERB, tense, comparative + other)


@register_construction()
def _superlative(choose: WordChooser) -> BilingualPhrase:
    """The lion is the strongest animal in the forest. … l'animal le plus fort de la forêt."""
    animal, *others = nouns_of_kinds(choose.lexicon, ("animal",))
    adjective = choose.adjective(animal, "comparable")
    if adjective.precedes_noun:
        return _superlative(choose)
    french = f"le plus {adjective.masculine}"
    superlative = replace(adjective, en=adjective.superlative, masculine=french)
    subject = choose.noun_phrase(choose.pick(others), "the", plural=False, adjective_rate=0)
    strongest = build_noun_phrase("the", animal, (superlative,))
    there = choose.noun_phrase(("land",), "the", plural=False)
    return subject.clause(BE_VERB, "present", strongest + build_phrase("in", "de") + there)


@register_construction(weight=4)
def _partitive(choose: WordChooser) -> BilingualPhrase:
    """The girl is eating some bread. La fille mange du pain."""
    verb = choose.verb("partitive")
    food = build_noun_phrase("some", choose.noun(("provision",)))
    tense = choose.tense(verb)
    where = choose.location() if choose.chance(0.4) else EMPTY_PHRASE
    when = choose.adverbial("time", tense) if choose.chance(0.4) else EMPTY_PHRASE
    return choose.noun_phrase(verb.subject_kinds).clause(verb, tense, food) + where + when


@register_construction()
def _none(choose: WordChooser) -> BilingualPhrase:
    """The girl doesn't eat any bread. La fille ne mange pas de pain."""
    verb = choose.verb("partitive")
    food = build_noun_phrase("any", choose.noun(("fruit", "dish")), plural=True)
    if choose.chance(0.5):
        food = build_noun_phrase("any", choose.noun(("provision",)))
    subject = choose.noun_phrase(verb.subject_kinds)
    return subject.clause(verb, choose.pick_tense("present", "past"), food, "not")


@register_construction(weight=2)
def _drinking(choose: WordChooser) -> BilingualPhrase:
    """The cat drinks some milk. Le chat boit du lait."""
    drink = choose.noun(("drink",))
    negation = choose.negation(0.4)
    (verb,) = VERBS["drinking"]
    tense = choose.tense(verb)
    when = choose.adverbial("time", tense) if choose.chance(0.4) else EMPTY_PHRASE
    obj = build_noun_phrase("any" if negation else "some", drink)
    return choose.noun_phrase(ANIMATE).clause(verb, tense, obj, negation) + when


@register_construction(weight=4, in_short_corpus=True)
def _existence(choose: WordChooser) -> BilingualPhrase:
    """There are three foxes in the old barn. Il y a trois renards dans la vieille grange."""
    determiner = choose.pick(("a", "a", *NUMBERS, "many", "several"))
    kinds = (*ANIMATE, "load", "belonging")
    thing = choose.noun_phrase(kinds, determiner, plural=determiner != "a")
    now, then = ("are", "were") if thing.agreement.plural else ("is", "was")
    en, fr = choose.pick(((now, "il y a"), (then, "il y avait")))
    return build_phrase(f"there {en}", fr) + thing + choose.location(thing.noun)


@register_construction(weight=2)
def _absence(choose: WordChooser) -> BilingualPhrase:
    """There is no bread in the house. Il n'y a pas de pain dans la maison."""
    en, fr = choose.pick((("there is", "a"), ("there was", "avait")))
    be, negation = AlignmentKey(), AlignmentKey()
    french = build_words("il", be) + build_words("ne", negation)
    french += build_words(f"y {fr}", be) + build_words("pas de", negation)
    there = BilingualPhrase(build_words(en, be) + build_words("no", negation), french)
    noun = choose.noun(("provision",))
    return there + build_phrase(noun.en, noun.fr) + choose.location()


@register_construction()
def _feature(choose: WordChooser) -> BilingualPhrase:
    """The fox has a long tail. Le renard a une longue queue."""
    owner = choose.noun_phrase(("animal",), ("the", "this", "my"), False, adjective_rate=0.1)
    part = choose.noun(("part",))
    detail = build_noun_phrase("a", part, (choose.adjective(part),))
    (have,) = VERBS["having"]
    return owner.clause(have, choose.pick_tense("present", "imperfect"), detail)


@register_construction()
def _identity(choose: WordChooser) -> BilingualPhrase:
    """This is my old house. C'est ma vieille maison."""
    kinds = (*ANIMATE, "building", "load", "belonging")
    thing = choose.noun_phrase(kinds, ("the", "a", "my"), plural=False, adjective_rate=0.6)
    en, fr = choose.pick((("is", "est"), ("was", "était")))
    return build_phrase("this", "ce") + build_phrase(en, fr) + thing


@register_construction()
def _pair_of_adjectives(choose: WordChooser) -> BilingualPhrase:
    """The goats are tired but happy. Les chèvres sont fatiguées mais heureuses."""
    subject = choose.noun_phrase(ANIMATE, ("the", "this", "my"), adjective_rate=0)
    first, second = (choose.adjective(subject.noun, "comparable") for _ in range(2))
    if first == second or first.precedes_noun or second.precedes_noun:
        return _pair_of_adjectives(choose)
    are_alike = first.is_hindrance == second.is_hindrance
    conjunction = build_phrase("and", "et") if are_alike else build_phrase("but", "mais")
    tense = choose.pick_tense("present", "imperfect")
    other = build_adjective(second, subject.agreement)
    return subject + subject.predicate(first, tense) + conjunction + other
