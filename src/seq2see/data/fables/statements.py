"""Constructions of one clause: statements and descriptions.

A construction is a function that builds a sentence; its docstring is an example. Its name without
the underscore is stored with the sentences, and its position in the list is part of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from seq2see.data.fables import morphology
from seq2see.data.fables.morphology import Person, Tense
from seq2see.data.fables.nouns_adjectives_and_determiners import (
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
    NounKind,
)
from seq2see.data.fables.phrases_and_clauses import (
    AFFIRMATIVE,
    EMPTY_PHRASE,
    NEVER,
    NO_LONGER,
    NOT,
    NOTHING,
    AlignmentKey,
    BilingualPhrase,
    attach_alignment_keys,
    build_can_auxiliary,
    build_comparative_with_than,
    build_could_not_auxiliary,
    build_first_or_second_person_pronoun,
    build_noun_phrase,
    build_phrase,
    choose_past_tense,
    clause,
    coordinate_noun_phrases,
    copula_clause,
    infinitive_phrase,
    verb_group,
)
from seq2see.data.fables.verbs import BE_VERB, DRINK_VERB, HAVE_VERB
from seq2see.data.fables.word_choice import ANIMATE_KINDS, MANNER_ADVERBS, WordChooser

SentenceBuilder = Callable[[WordChooser], BilingualPhrase]


@dataclass(frozen=True, slots=True)
class Construction:
    """A kind of sentence, with the function that builds it."""

    name: str
    build: SentenceBuilder
    weight: int
    """Relative frequency."""
    in_short_corpus: bool


CONSTRUCTIONS: list[Construction] = []
"""All constructions, in the order in which the modules register them."""


def register_construction(
    weight: int = 3, in_short_corpus: bool = False
) -> Callable[[SentenceBuilder], SentenceBuilder]:
    """Return a decorator that adds a function to `CONSTRUCTIONS`."""

    def register(build: SentenceBuilder) -> SentenceBuilder:
        name = build.__name__.removeprefix("_")
        CONSTRUCTIONS.append(Construction(name, build, weight, in_short_corpus))
        return build

    return register


FULL_STOP, COMMA = build_phrase(".", "."), build_phrase(",", ",")


@register_construction(weight=4, in_short_corpus=True)
def _intransitive(chooser: WordChooser) -> BilingualPhrase:
    """The mouse was sleeping near the bridge. La souris dormait près du pont."""
    verb = chooser.intransitive_verb()
    tense = chooser.choose_tense(verb)
    where = chooser.optional_location(verb, 0.6)
    when = EMPTY_PHRASE if verb.is_stative or chooser.chance(0.6) else chooser.time_adverbial(tense)
    return (
        clause(chooser.random_noun_phrase(verb.subject_kinds), verb, tense)
        + where
        + when
        + FULL_STOP
    )


@register_construction()
def _manner(chooser: WordChooser) -> BilingualPhrase:
    """The goat walks slowly. La chèvre marche lentement."""
    verb = chooser.intransitive_verb(
        "courir", "marcher", "travailler", "nager", "respirer", "danser"
    )
    how = build_phrase(*chooser.pick(MANNER_ADVERBS))
    return (
        clause(
            chooser.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.5),
            verb,
            chooser.choose_tense(verb),
        )
        + how
        + FULL_STOP
    )


@register_construction(weight=7, in_short_corpus=True)
def _transitive(chooser: WordChooser) -> BilingualPhrase:
    """The fox crossed the deep river. Le renard a traversé la rivière profonde."""
    subject, verb, obj = chooser.transitive_action()
    return clause(subject, verb, chooser.choose_tense(verb), obj) + FULL_STOP


@register_construction(weight=4)
def _dated(chooser: WordChooser) -> BilingualPhrase:
    """Yesterday, the fox crossed the river. Hier, le renard a traversé la rivière."""
    subject, verb, obj = chooser.transitive_action()
    tense: Tense = "present" if verb.is_stative else chooser.choose_tense(verb)
    return chooser.time_adverbial(tense) + COMMA + clause(subject, verb, tense, obj) + FULL_STOP


@register_construction(weight=5, in_short_corpus=True)
def _negated(chooser: WordChooser) -> BilingualPhrase:
    """The fox didn't cross the river. Le renard n'a pas traversé la rivière."""
    subject, verb, _ = chooser.transitive_action()
    obj = chooser.definite_object(verb, subject.noun)
    return clause(subject, verb, chooser.choose_tense(verb), obj, NOT) + FULL_STOP


@register_construction(in_short_corpus=True)
def _never(chooser: WordChooser) -> BilingualPhrase:
    """The fox has never crossed the river. Le renard n'a jamais traversé la rivière."""
    subject, verb, _ = chooser.transitive_action()
    tense: Tense = (
        "present" if verb.is_stative else chooser.pick_tense("present", "perfect", "future")
    )
    return (
        clause(subject, verb, tense, chooser.definite_object(verb, subject.noun), NEVER) + FULL_STOP
    )


@register_construction()
def _no_longer(chooser: WordChooser) -> BilingualPhrase:
    """The fox no longer sleeps in the cave. Le renard ne dort plus dans la grotte."""
    tense = chooser.pick_tense("present", "present", "future")
    if chooser.chance(0.5):
        verb = chooser.transitive_verb(
            "jouer", "parler", "obéir", "traverser", "visiter", "nourrir", "habiter"
        )
        subject, obj = (
            chooser.random_noun_phrase(verb.subject_kinds),
            chooser.definite_object(verb),
        )
        return clause(subject, verb, tense, obj, NO_LONGER) + FULL_STOP
    verb = chooser.intransitive_verb("dormir", "courir", "chanter", "travailler", "danser", "nager")
    return (
        clause(chooser.random_noun_phrase(verb.subject_kinds), verb, tense, negation=NO_LONGER)
        + chooser.location()
        + FULL_STOP
    )


@register_construction()
def _nothing(chooser: WordChooser) -> BilingualPhrase:
    """The fox saw nothing in the cave. Le renard n'a rien vu dans la grotte."""
    verb = chooser.transitive_verb(
        "voir", "manger", "trouver", "entendre", "acheter", "cacher", "voler"
    )
    where = chooser.location() if chooser.chance(0.6) else EMPTY_PHRASE
    tense = chooser.pick_tense("past", "past", "future", "present")
    return (
        clause(chooser.random_noun_phrase(verb.subject_kinds), verb, tense, negation=NOTHING)
        + where
        + FULL_STOP
    )


@register_construction(weight=4)
def _frequency(chooser: WordChooser) -> BilingualPhrase:
    """The fox has already crossed the river. Le renard a déjà traversé la rivière."""
    subject, verb, obj = chooser.transitive_action()
    tense: Tense = (
        "present" if verb.is_stative else chooser.pick_tense("present", "perfect", "future")
    )
    return clause(subject, verb, tense, obj, adverb=chooser.frequency_adverb(tense)) + FULL_STOP


@register_construction(in_short_corpus=True)
def _counted(chooser: WordChooser) -> BilingualPhrase:
    """Five little birds were sleeping. Cinq petits oiseaux dormaient."""
    verb = chooser.intransitive_verb()
    subject = chooser.noun_phrase(
        chooser.noun(verb.subject_kinds),
        chooser.pick((*NUMBERS, MANY, SEVERAL)),
        True,
        adjective_rate=0.5,
    )
    where = chooser.optional_location(verb, 0.6)
    return clause(subject, verb, chooser.choose_tense(verb)) + where + FULL_STOP


@register_construction(weight=2)
def _everyone(chooser: WordChooser) -> BilingualPhrase:
    """All the goats are sleeping. Toutes les chèvres dorment."""
    noun = chooser.noun(ANIMATE_KINDS)
    plural = chooser.chance(0.6)
    subject = chooser.noun_phrase(
        noun, ALL[noun.gender] if plural else EVERY, plural, adjective_rate=0.2
    )
    verb = chooser.intransitive_verb()
    return clause(subject, verb, chooser.choose_tense(verb)) + FULL_STOP


@register_construction(in_short_corpus=True)
def _pair_of_subjects(chooser: WordChooser) -> BilingualPhrase:
    """The goat and the frog arrived. La chèvre et la grenouille sont arrivées."""
    first = chooser.random_noun_phrase(ANIMATE_KINDS, plural=False)
    second = chooser.random_noun_phrase(ANIMATE_KINDS, first.noun, plural=False)
    verb = chooser.intransitive_verb()
    where = chooser.optional_location(verb, 0.5)
    return (
        clause(coordinate_noun_phrases(first, second), verb, chooser.choose_tense(verb))
        + where
        + FULL_STOP
    )


@register_construction(weight=4)
def _wanting(chooser: WordChooser) -> BilingualPhrase:
    """The fox tried to cross the street. Le renard a essayé de traverser la rue."""
    subject, verb, obj = chooser.intended_action()
    main_verb = chooser.infinitive_verb()
    tense = chooser.pick_tense("present", choose_past_tense(main_verb), "future")
    group = verb_group(
        main_verb, tense, subject.agreement, NOT if chooser.chance(0.3) else AFFIRMATIVE
    )
    return subject.phrase + group + infinitive_phrase(verb) + obj.phrase + FULL_STOP


@register_construction(weight=4)
def _ability(chooser: WordChooser) -> BilingualPhrase:
    """The fox can't cross the street. Le renard ne peut pas traverser la rue."""
    subject, verb, obj = chooser.intended_action()
    plural = subject.agreement.plural
    can = chooser.pick(
        (
            build_can_auxiliary(plural, True),
            build_can_auxiliary(plural, False),
            build_could_not_auxiliary(plural),
        )
    )
    return subject.phrase + can + infinitive_phrase(verb, "") + obj.phrase + FULL_STOP


@register_construction(weight=4)
def _giving(chooser: WordChooser) -> BilingualPhrase:
    """The girl gives an apple to the horse. La fille donne une pomme au cheval."""
    verb = chooser.giving_verb()
    giver = chooser.random_noun_phrase(verb.subject_kinds)
    gift = chooser.noun_phrase(chooser.noun(verb.object_kinds), chooser.pick((THE, A, MY, THIS)))
    receiver = chooser.noun_phrase(
        chooser.noun(ANIMATE_KINDS, giver.noun), chooser.pick((THE, A, MY))
    )
    group = verb_group(verb.without_particles, chooser.choose_tense(verb), giver.agreement)
    to = build_phrase(verb.en_particle, verb.fr_particle)
    return giver.phrase + group + gift.phrase + to + receiver.phrase + FULL_STOP


@register_construction(weight=3)
def _passive(chooser: WordChooser) -> BilingualPhrase:
    """The mouse was found by the cat. La souris a été trouvée par le chat."""
    verb = chooser.transitive_verb(*PASSIVE_VERBS)
    agent = chooser.random_noun_phrase(chooser.available_kinds(verb.subject_kinds))
    victim = chooser.random_noun_phrase(chooser.available_kinds(verb.object_kinds), agent.noun)
    tense = chooser.pick_tense("past", "future")
    key, agreement = AlignmentKey(), victim.agreement
    form = morphology.inflect_participle(verb.fr.participle, agreement.gender, agreement.plural)
    participle = BilingualPhrase(
        attach_alignment_keys(verb.en_participle, key), attach_alignment_keys(form, key)
    )
    be = verb_group(BE_VERB, tense, agreement, NOT if chooser.chance(0.2) else AFFIRMATIVE)
    return victim.phrase + be + participle + build_phrase("by", "par") + agent.phrase + FULL_STOP


PASSIVE_VERBS = (
    *("trouver", "porter", "pousser", "aider", "remercier", "saluer", "mordre", "réveiller"),
    *("inviter", "protéger", "consoler", "gronder", "nourrir", "caresser", "brosser", "acheter"),
    *("vendre", "cacher", "nettoyer", "peindre", "réparer", "balayer", "construire", "décorer"),
    *("ouvrir", "fermer", "dessiner", "garder", "poursuivre", "effrayer", "admirer", "voler"),
)


@register_construction(weight=4)
def _first_person(chooser: WordChooser) -> BilingualPhrase:
    """I saw my horse near the bridge. J'ai vu mon cheval près du pont."""
    person: Person = chooser.pick(("I", "I", "we"))
    verb = chooser.transitive_verb(*FIRST_PERSON_VERBS)
    determiner = chooser.pick((MY if person == "I" else OUR, THE, *NUMBERS[:4], A, THIS))
    plural = True if determiner in NUMBERS else None
    obj = chooser.noun_phrase(chooser.noun(verb.object_kinds), determiner, plural)
    where = chooser.location(obj.noun) if chooser.chance(0.4) else EMPTY_PHRASE
    negation = NOT if determiner in (THE, THIS, MY, OUR) and chooser.chance(0.3) else AFFIRMATIVE
    return (
        clause(
            build_first_or_second_person_pronoun(person),
            verb,
            chooser.pick_tense(*FIRST_PERSON_TENSES),
            obj,
            negation,
        )
        + where
        + FULL_STOP
    )


FIRST_PERSON_VERBS = (
    "voir",
    "chercher",
    "trouver",
    "regarder",
    "suivre",
    "porter",
    "dessiner",
    "acheter",
)
FIRST_PERSON_TENSES: tuple[Tense, ...] = ("present", "past", "past", "future")


@register_construction(weight=4)
def _ownership(chooser: WordChooser) -> BilingualPhrase:
    """The princess lost her crown. La princesse a perdu sa couronne."""
    verb = chooser.transitive_verb(
        "chercher", "perdre", "trouver", "cacher", "vendre", "porter", "toucher"
    )
    owner = chooser.random_noun_phrase(verb.subject_kinds)
    assert owner.noun is not None
    own = ITS if owner.noun.kind == "animal" else HER if owner.noun.gender == "f" else HIS
    own = THEIR if owner.agreement.plural else own
    kinds = chooser.available_kinds(
        [kind for kind in verb.object_kinds if kind in {"load", "belonging"}]
    )
    thing = chooser.noun_phrase(chooser.noun(kinds, owner.noun), own)
    return clause(owner, verb, chooser.choose_tense(verb), thing) + FULL_STOP


VERY, TOO, SO = ("very", "très"), ("too", "trop"), ("so", "si")
COMPARED_KINDS: tuple[NounKind, ...] = (
    "animal",
    "person",
    "road",
    "water",
    "height",
    "building",
    "load",
)


@register_construction(weight=5, in_short_corpus=True)
def _property_of(chooser: WordChooser) -> BilingualPhrase:
    """The river was very deep. La rivière était très profonde."""
    noun = chooser.pick(
        [noun for noun in chooser.lexicon.nouns if noun.kind not in {"part", "opening"}]
    )
    subject = chooser.noun_phrase(noun, chooser.pick((THE, THE, THIS, MY)), adjective_rate=0)
    adjective = chooser.adjective(noun, attributive=False)
    negation = NOT if chooser.chance(0.25) else AFFIRMATIVE
    degree = build_phrase(*chooser.pick((VERY, TOO) if adjective.is_hindrance else (VERY,)))
    if negation is NOT or chooser.chance(0.4):
        degree = EMPTY_PHRASE
    tense = chooser.pick_tense("present", "imperfect", "future")
    return copula_clause(subject, adjective, tense, negation, degree) + FULL_STOP


@register_construction(weight=4, in_short_corpus=True)
def _comparison(chooser: WordChooser) -> BilingualPhrase:
    """The street is wider than the path. La rue est plus large que le chemin."""
    noun = chooser.noun(chooser.available_kinds(COMPARED_KINDS))
    subject = chooser.noun_phrase(noun, chooser.pick((THE, THIS, MY)), adjective_rate=0)
    other = chooser.noun_phrase(
        chooser.noun((noun.kind,), noun), chooser.pick((THE, THIS, MY)), adjective_rate=0.1
    )
    verb = verb_group(BE_VERB, chooser.pick_tense("present", "imperfect"), subject.agreement)
    adjective = chooser.comparable_adjective(noun)
    adverb = chooser.pick(("plus", "plus", "moins", "aussi"))
    comparative = build_comparative_with_than(adverb, adjective, subject.agreement)
    return subject.phrase + verb + comparative + other.phrase + FULL_STOP


@register_construction()
def _superlative(chooser: WordChooser) -> BilingualPhrase:
    """The lion is the strongest animal in the forest. … l'animal le plus fort de la forêt."""
    animal, *others = chooser.lexicon.nouns_of_kinds(("animal",))
    adjective = chooser.comparable_adjective(animal)
    if adjective.precedes_noun:
        return _superlative(chooser)
    quality = build_phrase(morphology.inflect_superlative(adjective.en), f"le plus {adjective.fr}")
    kind = build_noun_phrase(THE, animal).phrase
    subject = chooser.noun_phrase(chooser.pick(others), THE, plural=False, adjective_rate=0)
    named_ = BilingualPhrase(kind.en[:1] + quality.en + kind.en[1:], kind.fr + quality.fr)
    verb = verb_group(BE_VERB, "present", subject.agreement)
    there = chooser.noun_phrase(chooser.noun(("land",)), THE, plural=False).phrase
    return subject.phrase + verb + named_ + build_phrase("in", "de") + there + FULL_STOP


@register_construction(weight=4)
def _partitive(chooser: WordChooser) -> BilingualPhrase:
    """The girl is eating some bread. La fille mange du pain."""
    verb = chooser.transitive_verb("manger", "acheter", "vendre")
    food = build_noun_phrase(SOME, chooser.noun(("provision",)))
    tense = chooser.choose_tense(verb)
    where = chooser.location() if chooser.chance(0.4) else EMPTY_PHRASE
    when = chooser.time_adverbial(tense) if chooser.chance(0.4) else EMPTY_PHRASE
    return (
        clause(chooser.random_noun_phrase(verb.subject_kinds), verb, tense, food)
        + where
        + when
        + FULL_STOP
    )


@register_construction()
def _none(chooser: WordChooser) -> BilingualPhrase:
    """The girl doesn't eat any bread. La fille ne mange pas de pain."""
    verb = chooser.transitive_verb("manger", "acheter", "vendre")
    many = chooser.noun(("fruit", "dish"))
    food = (
        build_noun_phrase(ANY, chooser.noun(("provision",)))
        if chooser.chance(0.5)
        else build_noun_phrase(ANY, many, (), True)
    )
    return (
        clause(
            chooser.random_noun_phrase(verb.subject_kinds),
            verb,
            chooser.pick_tense("present", "past"),
            food,
            NOT,
        )
        + FULL_STOP
    )


@register_construction(weight=2)
def _drinking(chooser: WordChooser) -> BilingualPhrase:
    """The cat drinks some milk. Le chat boit du lait."""
    en, article, fr = chooser.pick(DRINKS)
    if chooser.chance(0.4):
        negation, drink = (NOT, build_phrase("any", "de") + build_phrase(en, fr))
    else:
        negation, drink = (AFFIRMATIVE, build_phrase("some", article) + build_phrase(en, fr))
    tense = chooser.choose_tense(DRINK_VERB)
    when = chooser.time_adverbial(tense) if chooser.chance(0.4) else EMPTY_PHRASE
    return (
        clause(chooser.random_noun_phrase(ANIMATE_KINDS), DRINK_VERB, tense, negation=negation)
        + drink
        + when
        + FULL_STOP
    )


DRINKS = (
    ("water", "de la", "eau"),
    ("milk", "de le", "lait"),
    ("tea", "de le", "thé"),
    ("lemonade", "de la", "limonade"),
    ("wine", "de le", "vin"),
)


@register_construction(weight=4, in_short_corpus=True)
def _existence(chooser: WordChooser) -> BilingualPhrase:
    """There are three foxes in the old barn. Il y a trois renards dans la vieille grange."""
    determiner = chooser.pick((A, A, *NUMBERS, MANY, SEVERAL))
    noun = chooser.noun(chooser.available_kinds((*ANIMATE_KINDS, "load", "belonging")))
    thing = chooser.noun_phrase(noun, determiner, plural=determiner is not A)
    now, then = ("are", "were") if thing.agreement.plural else ("is", "was")
    en, fr = chooser.pick(((now, "il y a"), (then, "il y avait")))
    return build_phrase(f"there {en}", fr) + thing.phrase + chooser.location(noun) + FULL_STOP


@register_construction(weight=2)
def _absence(chooser: WordChooser) -> BilingualPhrase:
    """There is no bread in the house. Il n'y a pas de pain dans la maison."""
    en, fr = chooser.pick((("there is", "a"), ("there was", "avait")))
    be, negation_key = AlignmentKey(), AlignmentKey()
    there = (
        attach_alignment_keys("il", be)
        + attach_alignment_keys("ne", negation_key)
        + attach_alignment_keys(f"y {fr}", be)
        + attach_alignment_keys("pas de", negation_key)
    )
    noun = chooser.noun(("provision",))
    thing = build_phrase(noun.en, noun.fr)
    return (
        BilingualPhrase(
            attach_alignment_keys(en, be) + attach_alignment_keys("no", negation_key), there
        )
        + thing
        + chooser.location()
        + FULL_STOP
    )


@register_construction()
def _feature(chooser: WordChooser) -> BilingualPhrase:
    """The fox has a long tail. Le renard a une longue queue."""
    owner = chooser.noun_phrase(
        chooser.noun(("animal",)), chooser.pick((THE, THIS, MY)), plural=False, adjective_rate=0.1
    )
    part = chooser.noun(("part",))
    detail = build_noun_phrase(A, part, (chooser.adjective(part),))
    tense = chooser.pick_tense("present", "imperfect")
    return clause(owner, HAVE_VERB, tense, detail) + FULL_STOP


@register_construction()
def _identity(chooser: WordChooser) -> BilingualPhrase:
    """This is my old house. C'est ma vieille maison."""
    noun = chooser.noun(("animal", "person", "building", "load", "belonging"))
    thing = chooser.noun_phrase(noun, chooser.pick((THE, A, MY)), plural=False, adjective_rate=0.6)
    en, fr = chooser.pick((("is", "est"), ("was", "était")))
    return build_phrase("this", "ce") + build_phrase(en, fr) + thing.phrase + FULL_STOP


@register_construction()
def _pair_of_adjectives(chooser: WordChooser) -> BilingualPhrase:
    """The goats are tired but happy. Les chèvres sont fatiguées mais heureuses."""
    noun = chooser.noun(ANIMATE_KINDS)
    subject = chooser.noun_phrase(noun, chooser.pick((THE, THIS, MY)), adjective_rate=0)
    first, second = (chooser.comparable_adjective(noun), chooser.comparable_adjective(noun))
    if first == second or first.precedes_noun or second.precedes_noun:
        return _pair_of_adjectives(chooser)
    agreement = subject.agreement
    join = (
        build_phrase("and", "et")
        if first.is_hindrance == second.is_hindrance
        else build_phrase("but", "mais")
    )
    more = build_phrase(second.en, second.inflect(agreement.gender, agreement.plural))
    return (
        copula_clause(subject, first, chooser.pick_tense("present", "imperfect"))
        + join
        + more
        + FULL_STOP
    )
