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
    Noun,
    NounKind,
)
from seq2see.data.fables.morphology import Person, Tense
from seq2see.data.fables.phrases import (
    AFFIRMATIVE,
    EMPTY_PHRASE,
    NEVER,
    NO_LONGER,
    NOT,
    NOTHING,
    AlignmentKey,
    BilingualPhrase,
    NounPhrase,
    build_noun_phrase,
    choose_past_tense,
    clause,
    coordinate,
    copula_clause,
    infinitive_phrase,
    make_aligned_pair,
    make_aligned_words,
    personal_pronoun,
    verb_group,
)
from seq2see.data.fables.verbs import BE_VERB, DRINK_VERB, HAVE_VERB, Verb
from seq2see.data.fables.word_choice import ANIMATE_KINDS, MANNER_ADVERBS, WordChooser

SentenceBuilder = Callable[[WordChooser], BilingualPhrase]


@dataclass(frozen=True, slots=True)
class Construction:
    """A way to make a sentence."""

    name: str
    build: SentenceBuilder
    weight: int
    in_short_corpus: bool
    """Whether the short corpus has it."""


CONSTRUCTIONS: list[Construction] = []


def register_construction(
    weight: int = 3, in_short_corpus: bool = False
) -> Callable[[SentenceBuilder], SentenceBuilder]:
    """Add a function to the list under its name."""

    def add(make: SentenceBuilder) -> SentenceBuilder:
        CONSTRUCTIONS.append(Construction(make.__name__, make, weight, in_short_corpus))
        return make

    return add


FULL_STOP, COMMA = make_aligned_pair(".", "."), make_aligned_pair(",", ",")


def choose_transitive_verb(w: WordChooser, *infinitives: str) -> Verb:
    """Choose among the transitive verbs with these French infinitives."""
    return w.pick(
        [verb for verb in w.lexicon.transitive_verbs if verb.fr.infinitive in infinitives]
    )


def choose_intransitive_verb(w: WordChooser, *infinitives: str) -> Verb:
    """Choose among the intransitive verbs with these French infinitives."""
    return w.pick(
        [verb for verb in w.lexicon.intransitive_verbs if verb.fr.infinitive in infinitives]
    )


def optional_location(w: WordChooser, verb: Verb, probability: float) -> BilingualPhrase:
    """Return a place where it happens, perhaps; one does not leave near a bridge."""
    placeless = bool(verb.en_particle) or verb.fr.infinitive == "partir"
    return EMPTY_PHRASE if placeless or not w.chance(probability) else w.location()


def definite_noun_phrase(
    w: WordChooser, kinds: Sequence[NounKind], *but: Noun | None, adjective_rate: float = 0.3
) -> NounPhrase:
    """Return a noun phrase that speaks of something known."""
    return w.noun_phrase(
        w.noun(w.available_kinds(kinds), *but),
        w.pick((THE, THE, THIS, MY)),
        adjective_rate=adjective_rate,
    )


def definite_object(w: WordChooser, verb: Verb, *but: Noun | None) -> NounPhrase:
    """Return an object that is definite, as it must be after a negation."""
    return definite_noun_phrase(w, verb.object_kinds, *but)


@register_construction(weight=4, in_short_corpus=True)
def intransitive(w: WordChooser) -> BilingualPhrase:
    """The mouse was sleeping near the bridge. La souris dormait près du pont."""
    verb = w.intransitive_verb()
    tense = w.choose_tense(verb)
    where = optional_location(w, verb, 0.6)
    when = EMPTY_PHRASE if verb.is_stative or w.chance(0.6) else w.time_adverbial(tense)
    return clause(w.random_noun_phrase(verb.subject_kinds), verb, tense) + where + when + FULL_STOP


@register_construction()
def manner(w: WordChooser) -> BilingualPhrase:
    """The goat walks slowly. La chèvre marche lentement."""
    verb = choose_intransitive_verb(
        w, "courir", "marcher", "travailler", "nager", "respirer", "danser"
    )
    how = make_aligned_pair(*w.pick(MANNER_ADVERBS))
    return (
        clause(w.random_noun_phrase(ANIMATE_KINDS, adjective_rate=0.5), verb, w.choose_tense(verb))
        + how
        + FULL_STOP
    )


@register_construction(weight=7, in_short_corpus=True)
def transitive(w: WordChooser) -> BilingualPhrase:
    """The fox crossed the deep river. Le renard a traversé la rivière profonde."""
    subject, verb, obj = w.transitive_action()
    return clause(subject, verb, w.choose_tense(verb), obj) + FULL_STOP


@register_construction(weight=4)
def dated(w: WordChooser) -> BilingualPhrase:
    """Yesterday, the fox crossed the river. Hier, le renard a traversé la rivière."""
    subject, verb, obj = w.transitive_action()
    tense: Tense = "present" if verb.is_stative else w.choose_tense(verb)
    return w.time_adverbial(tense) + COMMA + clause(subject, verb, tense, obj) + FULL_STOP


@register_construction(weight=5, in_short_corpus=True)
def negated(w: WordChooser) -> BilingualPhrase:
    """The fox didn't cross the river. Le renard n'a pas traversé la rivière."""
    subject, verb, _ = w.transitive_action()
    obj = definite_object(w, verb, subject.noun)
    return clause(subject, verb, w.choose_tense(verb), obj, NOT) + FULL_STOP


@register_construction(in_short_corpus=True)
def never(w: WordChooser) -> BilingualPhrase:
    """The fox has never crossed the river. Le renard n'a jamais traversé la rivière."""
    subject, verb, _ = w.transitive_action()
    tense: Tense = "present" if verb.is_stative else w.pick_tense("present", "perfect", "future")
    return clause(subject, verb, tense, definite_object(w, verb, subject.noun), NEVER) + FULL_STOP


@register_construction()
def no_longer(w: WordChooser) -> BilingualPhrase:
    """The fox no longer sleeps in the cave. Le renard ne dort plus dans la grotte."""
    tense = w.pick_tense("present", "present", "future")
    if w.chance(0.5):
        verb = choose_transitive_verb(
            w, "jouer", "parler", "obéir", "traverser", "visiter", "nourrir", "habiter"
        )
        subject, obj = w.random_noun_phrase(verb.subject_kinds), definite_object(w, verb)
        return clause(subject, verb, tense, obj, NO_LONGER) + FULL_STOP
    verb = choose_intransitive_verb(
        w, "dormir", "courir", "chanter", "travailler", "danser", "nager"
    )
    return (
        clause(w.random_noun_phrase(verb.subject_kinds), verb, tense, negation=NO_LONGER)
        + w.location()
        + FULL_STOP
    )


@register_construction()
def nothing(w: WordChooser) -> BilingualPhrase:
    """The fox saw nothing in the cave. Le renard n'a rien vu dans la grotte."""
    verb = choose_transitive_verb(
        w, "voir", "manger", "trouver", "entendre", "acheter", "cacher", "voler"
    )
    where = w.location() if w.chance(0.6) else EMPTY_PHRASE
    tense = w.pick_tense("past", "past", "future", "present")
    return (
        clause(w.random_noun_phrase(verb.subject_kinds), verb, tense, negation=NOTHING)
        + where
        + FULL_STOP
    )


@register_construction(weight=4)
def frequency(w: WordChooser) -> BilingualPhrase:
    """The fox has already crossed the river. Le renard a déjà traversé la rivière."""
    subject, verb, obj = w.transitive_action()
    tense: Tense = "present" if verb.is_stative else w.pick_tense("present", "perfect", "future")
    return clause(subject, verb, tense, obj, adverb=w.frequency_adverb(tense)) + FULL_STOP


@register_construction(in_short_corpus=True)
def counted(w: WordChooser) -> BilingualPhrase:
    """Five little birds were sleeping. Cinq petits oiseaux dormaient."""
    verb = w.intransitive_verb()
    subject = w.noun_phrase(
        w.noun(verb.subject_kinds), w.pick((*NUMBERS, MANY, SEVERAL)), True, adjective_rate=0.5
    )
    where = optional_location(w, verb, 0.6)
    return clause(subject, verb, w.choose_tense(verb)) + where + FULL_STOP


@register_construction(weight=2)
def everyone(w: WordChooser) -> BilingualPhrase:
    """All the goats are sleeping. Toutes les chèvres dorment."""
    noun = w.noun(ANIMATE_KINDS)
    plural = w.chance(0.6)
    subject = w.noun_phrase(noun, ALL[noun.gender] if plural else EVERY, plural, adjective_rate=0.2)
    verb = w.intransitive_verb()
    return clause(subject, verb, w.choose_tense(verb)) + FULL_STOP


@register_construction(in_short_corpus=True)
def pair_of_subjects(w: WordChooser) -> BilingualPhrase:
    """The goat and the frog arrived. La chèvre et la grenouille sont arrivées."""
    first = w.random_noun_phrase(ANIMATE_KINDS, plural=False)
    second = w.random_noun_phrase(ANIMATE_KINDS, first.noun, plural=False)
    verb = w.intransitive_verb()
    where = optional_location(w, verb, 0.5)
    return clause(coordinate(first, second), verb, w.choose_tense(verb)) + where + FULL_STOP


@register_construction(weight=4)
def wanting(w: WordChooser) -> BilingualPhrase:
    """The fox tried to cross the street. Le renard a essayé de traverser la rue."""
    subject, verb, obj = w.intended_action()
    wanter = w.infinitive_verb()
    tense = w.pick_tense("present", choose_past_tense(wanter), "future")
    group = verb_group(wanter, tense, subject.agreement, NOT if w.chance(0.3) else AFFIRMATIVE)
    return subject.phrase + group + infinitive_phrase(verb) + obj.phrase + FULL_STOP


@register_construction(weight=4)
def ability(w: WordChooser) -> BilingualPhrase:
    """The fox can't cross the street. Le renard ne peut pas traverser la rue."""
    subject, verb, obj = w.intended_action()
    plural = subject.agreement.plural
    can = w.pick((can_phrase(plural, True), can_phrase(plural, False), could_not_phrase(plural)))
    return subject.phrase + can + infinitive_phrase(verb, "") + obj.phrase + FULL_STOP


def can_phrase(plural: bool, able: bool) -> BilingualPhrase:
    """Return "can" or "can't"."""
    fr = "peuvent" if plural else "peut"
    return make_aligned_pair("can", fr) if able else make_aligned_pair("can't", f"ne {fr} pas")


def could_not_phrase(plural: bool) -> BilingualPhrase:
    """Return "couldn't"."""
    return make_aligned_pair("couldn't", "ne ont pas pu" if plural else "ne a pas pu")


@register_construction(weight=4)
def giving(w: WordChooser) -> BilingualPhrase:
    """The girl gives an apple to the horse. La fille donne une pomme au cheval."""
    verb = w.giving_verb()
    giver = w.random_noun_phrase(verb.subject_kinds)
    gift = w.noun_phrase(w.noun(verb.object_kinds), w.pick((THE, A, MY, THIS)))
    receiver = w.noun_phrase(w.noun(ANIMATE_KINDS, giver.noun), w.pick((THE, A, MY)))
    group = verb_group(verb.without_particles, w.choose_tense(verb), giver.agreement)
    to = make_aligned_pair(verb.en_particle, verb.fr_particle)
    return giver.phrase + group + gift.phrase + to + receiver.phrase + FULL_STOP


@register_construction(weight=3)
def passive(w: WordChooser) -> BilingualPhrase:
    """The mouse was found by the cat. La souris a été trouvée par le chat."""
    verb = choose_transitive_verb(w, *PASSIVE_VERBS)
    agent = w.random_noun_phrase(w.available_kinds(verb.subject_kinds))
    victim = w.random_noun_phrase(w.available_kinds(verb.object_kinds), agent.noun)
    tense = w.pick_tense("past", "future")
    link, of = AlignmentKey(), victim.agreement
    form = morphology.inflect_participle(verb.fr.participle, of.gender, of.plural)
    done = BilingualPhrase(
        make_aligned_words(verb.en_participle, link), make_aligned_words(form, link)
    )
    be = verb_group(BE_VERB, tense, of, NOT if w.chance(0.2) else AFFIRMATIVE)
    return victim.phrase + be + done + make_aligned_pair("by", "par") + agent.phrase + FULL_STOP


PASSIVE_VERBS = (
    *("trouver", "porter", "pousser", "aider", "remercier", "saluer", "mordre", "réveiller"),
    *("inviter", "protéger", "consoler", "gronder", "nourrir", "caresser", "brosser", "acheter"),
    *("vendre", "cacher", "nettoyer", "peindre", "réparer", "balayer", "construire", "décorer"),
    *("ouvrir", "fermer", "dessiner", "garder", "poursuivre", "effrayer", "admirer", "voler"),
)


@register_construction(weight=4)
def first_person(w: WordChooser) -> BilingualPhrase:
    """I saw my horse near the bridge. J'ai vu mon cheval près du pont."""
    person: Person = w.pick(("I", "I", "we"))
    verb = choose_transitive_verb(w, *FIRST_PERSON_VERBS)
    determiner = w.pick((MY if person == "I" else OUR, THE, *NUMBERS[:4], A, THIS))
    plural = True if determiner in NUMBERS else None
    obj = w.noun_phrase(w.noun(verb.object_kinds), determiner, plural)
    where = w.location(obj.noun) if w.chance(0.4) else EMPTY_PHRASE
    polarity = NOT if determiner in (THE, THIS, MY, OUR) and w.chance(0.3) else AFFIRMATIVE
    return (
        clause(personal_pronoun(person), verb, w.pick_tense(*FIRST_PERSON_TENSES), obj, polarity)
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
def ownership(w: WordChooser) -> BilingualPhrase:
    """The princess lost her crown. La princesse a perdu sa couronne."""
    verb = choose_transitive_verb(
        w, "chercher", "perdre", "trouver", "cacher", "vendre", "porter", "toucher"
    )
    owner = w.random_noun_phrase(verb.subject_kinds)
    assert owner.noun is not None
    own = ITS if owner.noun.kind == "animal" else HER if owner.noun.gender == "f" else HIS
    own = THEIR if owner.agreement.plural else own
    kinds = w.available_kinds([kind for kind in verb.object_kinds if kind in {"load", "belonging"}])
    thing = w.noun_phrase(w.noun(kinds, owner.noun), own)
    return clause(owner, verb, w.choose_tense(verb), thing) + FULL_STOP


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
def property_of(w: WordChooser) -> BilingualPhrase:
    """The river was very deep. La rivière était très profonde."""
    noun = w.pick([noun for noun in w.lexicon.nouns if noun.kind not in {"part", "opening"}])
    subject = w.noun_phrase(noun, w.pick((THE, THE, THIS, MY)), adjective_rate=0)
    adjective = w.adjective(noun, attributive=False)
    polarity = NOT if w.chance(0.25) else AFFIRMATIVE
    degree = make_aligned_pair(*w.pick((VERY, TOO) if adjective.is_hindrance else (VERY,)))
    if polarity is NOT or w.chance(0.4):
        degree = EMPTY_PHRASE
    tense = w.pick_tense("present", "imperfect", "future")
    return copula_clause(subject, adjective, tense, polarity, degree) + FULL_STOP


def choose_comparable_adjective(w: WordChooser, noun: Noun) -> Adjective:
    """Choose an adjective that can be compared."""
    fitting = [each for each in w.lexicon.adjectives if each.fits_noun(noun)]
    return w.pick([each for each in fitting if each.is_gradable and not each.uses_avoir])


@register_construction(weight=4, in_short_corpus=True)
def comparison(w: WordChooser) -> BilingualPhrase:
    """The street is wider than the path. La rue est plus large que le chemin."""
    noun = w.noun(w.available_kinds(COMPARED_KINDS))
    subject = w.noun_phrase(noun, w.pick((THE, THIS, MY)), adjective_rate=0)
    other = w.noun_phrase(w.noun((noun.kind,), noun), w.pick((THE, THIS, MY)), adjective_rate=0.1)
    verb = verb_group(BE_VERB, w.pick_tense("present", "imperfect"), subject.agreement)
    return (
        subject.phrase
        + verb
        + comparison_phrase(w, choose_comparable_adjective(w, noun), subject)
        + other.phrase
        + FULL_STOP
    )


def comparison_phrase(w: WordChooser, adjective: Adjective, subject: NounPhrase) -> BilingualPhrase:
    """Return "wider than", "less wide than" or "as wide as"."""
    degree, own, than = AlignmentKey(), AlignmentKey(), AlignmentKey()
    fr = adjective.inflect(subject.agreement.gender, subject.agreement.plural)
    more, _, long = morphology.comparative_form(adjective.en).partition(" ")
    choices = {
        "plus": (make_aligned_words(more, degree) + make_aligned_words(long, own), "than"),
        "moins": (
            make_aligned_words("less", degree) + make_aligned_words(adjective.en, own),
            "than",
        ),
        "aussi": (make_aligned_words("as", degree) + make_aligned_words(adjective.en, own), "as"),
    }
    adverb = w.pick(("plus", "plus", "moins", "aussi"))
    en, second = choices[adverb]
    if not long and adverb == "plus":
        en = make_aligned_words(more, degree, own)
    french_words = (
        make_aligned_words(adverb, degree)
        + make_aligned_words(fr, own)
        + make_aligned_words("que", than)
    )
    return BilingualPhrase(en + make_aligned_words(second, than), french_words)


@register_construction()
def superlative(w: WordChooser) -> BilingualPhrase:
    """The lion is the strongest animal in the forest. … l'animal le plus fort de la forêt."""
    animal, *others = w.lexicon.nouns_of_kinds(("animal",))
    adjective = choose_comparable_adjective(w, animal)
    if adjective.precedes_noun:
        return superlative(w)
    quality = make_aligned_pair(
        morphology.superlative_form(adjective.en), f"le plus {adjective.fr}"
    )
    kind = build_noun_phrase(THE, animal).phrase
    subject = w.noun_phrase(w.pick(others), THE, plural=False, adjective_rate=0)
    named_ = BilingualPhrase(kind.en[:1] + quality.en + kind.en[1:], kind.fr + quality.fr)
    verb = verb_group(BE_VERB, "present", subject.agreement)
    there = w.noun_phrase(w.noun(("land",)), THE, plural=False).phrase
    return subject.phrase + verb + named_ + make_aligned_pair("in", "de") + there + FULL_STOP


@register_construction(weight=4)
def partitive(w: WordChooser) -> BilingualPhrase:
    """The girl is eating some bread. La fille mange du pain."""
    verb = choose_transitive_verb(w, "manger", "acheter", "vendre")
    food = build_noun_phrase(SOME, w.noun(("provision",)))
    tense = w.choose_tense(verb)
    where = w.location() if w.chance(0.4) else EMPTY_PHRASE
    when = w.time_adverbial(tense) if w.chance(0.4) else EMPTY_PHRASE
    return (
        clause(w.random_noun_phrase(verb.subject_kinds), verb, tense, food)
        + where
        + when
        + FULL_STOP
    )


@register_construction()
def none(w: WordChooser) -> BilingualPhrase:
    """The girl doesn't eat any bread. La fille ne mange pas de pain."""
    verb = choose_transitive_verb(w, "manger", "acheter", "vendre")
    many = w.noun(("fruit", "dish"))
    food = (
        build_noun_phrase(ANY, w.noun(("provision",)))
        if w.chance(0.5)
        else build_noun_phrase(ANY, many, (), True)
    )
    return (
        clause(
            w.random_noun_phrase(verb.subject_kinds),
            verb,
            w.pick_tense("present", "past"),
            food,
            NOT,
        )
        + FULL_STOP
    )


@register_construction(weight=2)
def drinking(w: WordChooser) -> BilingualPhrase:
    """The cat drinks some milk. Le chat boit du lait."""
    en, article, fr = w.pick(DRINKS)
    if w.chance(0.4):
        polarity, drink = NOT, make_aligned_pair("any", "de") + make_aligned_pair(en, fr)
    else:
        polarity, drink = (
            AFFIRMATIVE,
            make_aligned_pair("some", article) + make_aligned_pair(en, fr),
        )
    tense = w.choose_tense(DRINK_VERB)
    when = w.time_adverbial(tense) if w.chance(0.4) else EMPTY_PHRASE
    return (
        clause(w.random_noun_phrase(ANIMATE_KINDS), DRINK_VERB, tense, negation=polarity)
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
def existence(w: WordChooser) -> BilingualPhrase:
    """There are three foxes in the old barn. Il y a trois renards dans la vieille grange."""
    determiner = w.pick((A, A, *NUMBERS, MANY, SEVERAL))
    noun = w.noun(w.available_kinds((*ANIMATE_KINDS, "load", "belonging")))
    thing = w.noun_phrase(noun, determiner, plural=determiner is not A)
    now, then = ("are", "were") if thing.agreement.plural else ("is", "was")
    en, fr = w.pick(((now, "il y a"), (then, "il y avait")))
    return make_aligned_pair(f"there {en}", fr) + thing.phrase + w.location(noun) + FULL_STOP


@register_construction(weight=2)
def absence(w: WordChooser) -> BilingualPhrase:
    """There is no bread in the house. Il n'y a pas de pain dans la maison."""
    en, fr = w.pick((("there is", "a"), ("there was", "avait")))
    be, no = AlignmentKey(), AlignmentKey()
    there = (
        make_aligned_words("il", be)
        + make_aligned_words("ne", no)
        + make_aligned_words(f"y {fr}", be)
        + make_aligned_words("pas de", no)
    )
    noun = w.noun(("provision",))
    thing = make_aligned_pair(noun.en, noun.fr)
    return (
        BilingualPhrase(make_aligned_words(en, be) + make_aligned_words("no", no), there)
        + thing
        + w.location()
        + FULL_STOP
    )


@register_construction()
def feature(w: WordChooser) -> BilingualPhrase:
    """The fox has a long tail. Le renard a une longue queue."""
    owner = w.noun_phrase(
        w.noun(("animal",)), w.pick((THE, THIS, MY)), plural=False, adjective_rate=0.1
    )
    part = w.noun(("part",))
    detail = build_noun_phrase(A, part, (w.adjective(part),))
    tense = w.pick_tense("present", "imperfect")
    return clause(owner, HAVE_VERB, tense, detail) + FULL_STOP


@register_construction()
def identity(w: WordChooser) -> BilingualPhrase:
    """This is my old house. C'est ma vieille maison."""
    noun = w.noun(("animal", "person", "building", "load", "belonging"))
    thing = w.noun_phrase(noun, w.pick((THE, A, MY)), plural=False, adjective_rate=0.6)
    en, fr = w.pick((("is", "est"), ("was", "était")))
    return make_aligned_pair("this", "ce") + make_aligned_pair(en, fr) + thing.phrase + FULL_STOP


@register_construction()
def pair_of_adjectives(w: WordChooser) -> BilingualPhrase:
    """The goats are tired but happy. Les chèvres sont fatiguées mais heureuses."""
    noun = w.noun(ANIMATE_KINDS)
    subject = w.noun_phrase(noun, w.pick((THE, THIS, MY)), adjective_rate=0)
    first, second = choose_comparable_adjective(w, noun), choose_comparable_adjective(w, noun)
    if first == second or first.precedes_noun or second.precedes_noun:
        return pair_of_adjectives(w)
    of = subject.agreement
    join = (
        make_aligned_pair("and", "et")
        if first.is_hindrance == second.is_hindrance
        else make_aligned_pair("but", "mais")
    )
    more = make_aligned_pair(second.en, second.inflect(of.gender, of.plural))
    return (
        copula_clause(subject, first, w.pick_tense("present", "imperfect"))
        + join
        + more
        + FULL_STOP
    )


@register_construction()
def motive(w: WordChooser) -> BilingualPhrase:
    """The fox is too tired to cross the street. … trop fatigué pour traverser la rue."""
    actor, verb, obj = w.intended_action()
    assert actor.noun is not None
    subject = w.noun_phrase(actor.noun, w.pick((THE, THIS, MY)), adjective_rate=0)
    hindrances = [a for a in w.lexicon.adjectives if a.is_hindrance and a.fits_noun(actor.noun)]
    said = copula_clause(
        subject,
        w.pick(hindrances),
        w.pick_tense("present", "imperfect"),
        AFFIRMATIVE,
        make_aligned_pair(*TOO),
    )
    return (
        said
        + BilingualPhrase((), make_aligned_words("pour"))
        + infinitive_phrase(verb)
        + obj.phrase
        + FULL_STOP
    )
