"""Verbs in English and French: their forms, and the kinds of nouns they take."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from seq2see.data.fables import morphology
from seq2see.data.fables.morphology import Conjugation, Person, Tense, build_conjugation
from seq2see.data.fables.nouns_adjectives_and_determiners import NOUN_KIND_GROUPS, NounKind

BE_PAST: dict[Person, str] = {"I": "was", "we": "were", "you": "were", "it": "was", "they": "were"}
BE_PRESENT: dict[Person, str] = {"I": "am", "we": "are", "you": "are", "it": "is", "they": "are"}
ETRE_VERBS = frozenset(
    ["aller", "venir", "revenir", "entrer", "arriver", "partir", "tomber", "rester", "passer"]
)
"""Verbs whose compound tenses are formed with être."""


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages, with its particle or preposition in each."""

    en: str
    en_past: str
    en_participle: str
    en_particle: str
    fr: Conjugation
    fr_particle: str
    is_reflexive: bool = False
    subject_kinds: tuple[NounKind, ...] = ()
    object_kinds: tuple[NounKind, ...] = ()
    is_stative: bool = False
    """Whether it describes a state: the past is the imparfait, and there is no progressive."""
    is_momentary: bool = False
    """Whether it describes a moment: there is no imparfait and no progressive."""

    @property
    def uses_etre(self) -> bool:
        """Whether compound tenses are formed with être."""
        return self.is_reflexive or self.fr.infinitive in ETRE_VERBS

    @property
    def without_particles(self) -> Verb:
        """The verb without its particles."""
        return replace(self, en_particle="", fr_particle="")

    def english_form(self, tense: Tense, person: Person) -> tuple[str, str]:
        """Return the auxiliary, or "", and the main verb."""
        if self.en == "be":
            return self._form_of_be(tense, person)
        if tense == "present" or (self.is_stative and tense == "progressive"):
            return "", morphology.inflect_third_person(self.en) if person == "it" else self.en
        if tense == "past" or (self.is_stative and tense == "imperfect"):
            return "", self.en_past
        if tense == "perfect":
            return "has" if person == "it" else "have", self.en_participle
        if tense == "future":
            return "will", self.en
        auxiliary = (BE_PRESENT if tense == "progressive" else BE_PAST)[person]
        return auxiliary, morphology.inflect_ing_form(self.en)

    def _form_of_be(self, tense: Tense, person: Person) -> tuple[str, str]:
        if tense == "future":
            return "will", "be"
        return (BE_PRESENT if tense == "present" else BE_PAST)[person], ""

    def french_form(self, tense: Tense, person: Person) -> str:
        """Return the verb in a simple tense, or the auxiliary of a compound tense."""
        if tense in {"present", "progressive"}:
            return self.fr.present(person)
        if tense in {"past", "perfect"}:
            return (ETRE if self.uses_etre else AVOIR).present(person)
        return self.fr.imperfect(person) if tense == "imperfect" else self.fr.simple_future(person)


ETRE, AVOIR = build_conjugation("être"), build_conjugation("avoir")
# English (irregular past and participle) | French | kinds of subjects | kinds of objects;
# "*" a state, "~" a moment
TRANSITIVE_TABLE = """
cross                    | traverser        | animate | road water land
see (saw seen) ~         | voir             | animate | animate place item fruit
eat (ate eaten)          | manger           | animate | food
climb                    | gravir           | animate | height
enter                    | entrer dans      | animate | hollow building land
carry                    | porter           | animate | load
find (found) ~           | trouver          | animate | animate item fruit hollow
love *                   | aimer            | animate | animate land food water
look at                  | regarder         | animate | animate place item
leave (left) ~           | quitter          | animate | building hollow land
look for                 | chercher         | animate | animate item fruit
push                     | pousser          | animate | load
avoid ~                  | éviter           | animate | animate road water building
taste                    | goûter           | animate | food
follow                   | suivre           | animate | animate road water
explore                  | explorer         | animate | hollow land
lift                     | soulever         | animate | load
wait for                 | attendre         | animate | animate
go around (went gone)    | contourner       | animate | water height building
steal (stole stolen) ~   | voler            | animate | fruit belonging dish
hate *                   | détester         | animate | animate food water
hear (heard) ~           | entendre         | animate | animate
help                     | aider            | animate | animate
thank ~                  | remercier        | animate | animate
greet ~                  | saluer           | animate | animate
chase                    | poursuivre       | animate | animal
bite (bit bitten) ~      | mordre           | animal  | animate
frighten ~               | effrayer         | animate | animate
wake (woke woken) ~      | réveiller        | animate | animate
admire                   | admirer          | animate | animate place item
fear *                   | craindre         | animate | animate
know (knew known) *      | connaître        | animate | animate road land building
recognise ~              | reconnaître      | animate | animate road building belonging
invite ~                 | inviter          | animate | animate
protect                  | protéger         | animate | animate
comfort                  | consoler         | animate | animate
scold                    | gronder          | person  | animate
feed (fed)               | nourrir          | person  | animal
stroke                   | caresser         | person  | animal
wash                     | laver            | person  | animal
brush                    | brosser          | person  | animal
call                     | appeler          | person  | animate
buy (bought)             | acheter          | person  | fruit dish provision load belonging
sell (sold)              | vendre           | person  | fruit dish provision load belonging
lose (lost) ~            | perdre           | person  | belonging
hide (hid hidden)        | cacher           | animate | belonging fruit
touch ~                  | toucher          | animate | item
pull                     | tirer            | animate | load
visit                    | visiter          | person  | building land hollow
clean                    | nettoyer         | person  | building hollow item
paint                    | peindre          | person  | building opening
repair                   | réparer          | person  | building road opening
sweep (swept)            | balayer          | person  | building hollow road
build (built)            | construire       | person  | building
decorate                 | décorer          | person  | building hollow
open ~                   | ouvrir           | animate | opening
close ~                  | fermer           | animate | opening
draw (drew drawn)        | dessiner         | person  | animal building height
guard                    | garder           | animate | building load
go to (went gone)        | aller à          | animate | building water
come back from (came come) | revenir de     | animate | land building
fall into (fell fallen) ~ | tomber dans      | animate | water
walk past                | passer devant    | animate | building
stop in_front_of ~       | se arrêter devant | animate | building opening hollow
think of (thought)       | penser à         | animate | animate land
dream of                 | rêver de         | animate | animate land fruit
talk to                  | parler à         | animate | animate
answer                   | répondre à       | animate | animate
obey ~                   | obéir à          | animal  | person
play with                | jouer avec       | animate | animate
laugh at                 | se moquer de     | animate | animate
take care of (took taken) | se occuper de   | person  | animal
live in *                | habiter dans     | animate | building hollow
jump over                | sauter par-dessus | animal | load
hold (held)              | tenir            | person  | item
"""
INTRANSITIVE_TABLE = """
sleep (slept)            | dormir           | animate
run (ran run)            | courir           | animate
sing (sang sung)         | chanter          | animate
arrive ~                 | arriver          | animate
rest                     | se reposer       | animate
laugh                    | rire             | animate
fall (fell fallen) ~     | tomber           | animate
work                     | travailler       | animate
jump                     | sauter           | animate
wake up (woke woken)     | se réveiller     | animate
swim (swam swum)         | nager            | animate
dance                    | danser           | animate
leave (left) ~           | partir           | animate
hide (hid hidden)        | se cacher        | animate
tremble                  | trembler         | animate
cry                      | pleurer          | animate
come back (came come)    | revenir          | animate
hurry                    | se dépêcher      | animate
smile                    | sourire          | person
walk                     | marcher          | animate
fall asleep (fell fallen) | se endormir     | animate
wait                     | attendre         | animate
get up (got)             | se lever         | animate
snore                    | ronfler          | animate
stay ~                   | rester           | animate
go for_a_walk (went gone) | se promener     | animate
breathe                  | respirer         | animate
grow up (grew grown)     | grandir          | animate
"""
GIVING_TABLE = """
give to (gave given)     | donner à         | person  | item fruit dish
show to (showed shown)   | montrer à        | person  | item fruit dish
bring to (brought)       | apporter à       | animate | item fruit dish
sell to (sold)           | vendre à         | person  | item fruit dish
send to (sent)           | envoyer à        | person  | item
offer to                 | offrir à         | animate | belonging fruit dish
lend to (lent)           | prêter à         | person  | belonging
steal from (stole stolen) | voler à         | animate | belonging fruit
"""
INFINITIVE_TABLE = """
want *                   | vouloir          | animate
try                      | essayer de       | animate
begin (began begun)      | commencer à      | animate
refuse ~                 | refuser de       | animate
decide ~                 | décider de       | animate
hope *                   | espérer          | animate
learn                    | apprendre à      | animate
forget (forgot forgotten) ~ | oublier de   | animate
"""
REPORTING_TABLE = """
say (said)               | dire             | animate
think (thought) *        | croire           | animate
know (knew known) *      | savoir           | animate
explain                  | expliquer        | animate
"""


def _expand_groups(codes: str) -> tuple[NounKind, ...]:
    return tuple(kind for code in codes.split() for kind in NOUN_KIND_GROUPS.get(code, (code,)))  # type: ignore[misc]


def parse_verb(line: str) -> Verb:
    """Return the verb of a table row."""
    en, fr, subjects, objects = [*(part.strip() for part in line.split("|")), "", ""][:4]
    base, *en_particle = re.sub(r"\(.*\)|[*~]", "", en).replace("_", " ").split(" ")
    irregular = re.search(r"\((.*)\)", en)
    past = irregular[1].split() if irregular else [morphology.inflect_regular_past(base)]
    infinitive, *fr_particle = fr.removeprefix("se ").split(" ")
    return Verb(
        en=base,
        en_past=past[0],
        en_participle=past[-1],
        en_particle=" ".join(en_particle).strip(),
        fr=build_conjugation(infinitive),
        fr_particle=" ".join(fr_particle).replace("_", " "),
        is_reflexive=fr.startswith("se "),
        subject_kinds=_expand_groups(subjects),
        object_kinds=_expand_groups(objects),
        is_stative=en.endswith("*"),
        is_momentary=en.endswith("~"),
    )


def _parse_table(table: str) -> tuple[Verb, ...]:
    return tuple(parse_verb(line) for line in table.strip().splitlines())


TRANSITIVE_VERBS = _parse_table(TRANSITIVE_TABLE)
INTRANSITIVE_VERBS = _parse_table(INTRANSITIVE_TABLE)
GIVING_VERBS = _parse_table(GIVING_TABLE)
INFINITIVE_VERBS = _parse_table(INFINITIVE_TABLE)
"""Verbs that take an infinitive."""
REPORTING_VERBS = _parse_table(REPORTING_TABLE)
"""Verbs that take a clause with "that"."""
BE_VERB = Verb("be", "was", "been", "", build_conjugation("être"), "", is_stative=True)
BE_AS_AVOIR = Verb("be", "was", "been", "", build_conjugation("avoir"), "", is_stative=True)
"""The verb "be" where French has "avoir", as in "be hungry" and "avoir faim"."""
HAVE_VERB = Verb("have", "had", "had", "", build_conjugation("avoir"), "", is_stative=True)
DRINK_VERB = parse_verb("drink (drank drunk) | boire | animate | provision")
