"""Nouns, adjectives and determiners in English and French.

Nouns have a kind, and adjectives apply to nouns of certain kinds. An adjective that fits only one
noun of a sentence decides which noun "it" refers to. The order of the tables is part of the
corpus: the most common words come first, with mixed genders, and the short lexicon takes the first
words of each table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seq2see.data.fables import morphology
from seq2see.data.fables.morphology import Gender

NounKind = Literal[
    "animal",
    "person",
    "road",
    "water",
    "height",
    "building",
    "hollow",
    "land",
    "fruit",
    "dish",
    "provision",
    "load",
    "belonging",
    "opening",
    "part",
]


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    gender: Gender
    kind: NounKind


# English, French, gender; an irregular plural follows a slash
NOUN_TABLES: dict[NounKind, str] = {
    "animal": """
        animal  animal  m
        mouse/mice  souris  f
        fox  renard  m
        goat  chèvre  f
        dog  chien  m
        frog  grenouille  f
        bear  ours  m
        cow  vache  f
        cat  chat  m
        tortoise  tortue  f
        hedgehog  hérisson  m
        ant  fourmi  f
        horse  cheval  m
        bee  abeille  f
        wolf/wolves  loup  m
        hen  poule  f
        donkey  âne  m
        spider  araignée  f
        owl  hibou/hiboux  m
        goose/geese  oie  f
        rabbit  lapin  m
        swallow  hirondelle  f
        heron  héron  m
        otter  loutre  f
        squirrel  écureuil  m
        magpie  pie  f
        pig  cochon  m
        giraffe  girafe  f
        lion  lion  m
        stork  cigogne  f
        duck  canard  m
        weasel  belette  f
        monkey  singe  m
        dove  colombe  f
        elephant  éléphant  m
        wasp  guêpe  f
        raven  corbeau  m
        mole  taupe  f
        lamb  agneau  m
        panther  panthère  f
        camel  chameau  m
        ostrich  autruche  f
        badger  blaireau  m
        cicada  cigale  f
        hare  lièvre  m
        bat  chauve-souris/chauves-souris  f
        tiger  tigre  m
        swan  cygne  m
    """,
    "person": """
        farmer  fermier  m
        girl  fille  f
        boy  garçon  m
        queen  reine  f
        king  roi  m
        princess  princesse  f
        miller  meunier  m
        woman/women  femme  f
        child/children  enfant  m
        neighbour  voisine  f
        hunter  chasseur  m
        grandmother  grand-mère/grands-mères  f
        shepherd  berger  m
        witch  sorcière  f
        man/men  homme  m
        aunt  tante  f
        baker  boulanger  m
        sister  sœur  f
        uncle  oncle  m
        shepherdess  bergère  f
        brother  frère  m
        thief/thieves  voleur  m
    """,
    "road": """
        street  rue  f
        bridge  pont  m
        road  route  f
        path  chemin  m
        alley  ruelle  f
        trail  sentier  m
        avenue  avenue  f
        boulevard  boulevard  m
    """,
    "water": """
        river  rivière  f
        stream  ruisseau  m
        pond  mare  f
        lake  lac  m
        lagoon  lagune  f
        canal  canal  m
        swamp  marais  m
        ford  gué  m
    """,
    "height": """
        hill  colline  f
        staircase  escalier  m
        mountain  montagne  f
        rock  rocher  m
        dune  dune  f
        volcano/volcanoes  volcan  m
        cliff  falaise  f
        embankment  talus  m
    """,
    "building": """
        house  maison  f
        castle  château  m
        barn  grange  f
        mill  moulin  m
        church  église  f
        shed  hangar  m
        inn  auberge  f
        palace  palais  m
        tower  tour  f
        hut  hutte  f
        school  école  f
        theatre  théâtre  m
    """,
    "hollow": """
        cave  grotte  f
        tunnel  tunnel  m
        cellar  cave  f
        attic  grenier  m
        den  tanière  f
        burrow  terrier  m
        stable  étable  f
        corridor  couloir  m
    """,
    "land": """
        forest  forêt  f
        garden  jardin  m
        meadow  prairie  f
        field  champ  m
        valley  vallée  f
        wood  bois  m
        clearing  clairière  f
        village  village  m
        city  ville  f
        orchard  verger  m
        jungle  jungle  f
        park  parc  m
        vineyard  vigne  f
        desert  désert  m
    """,
    "fruit": """
        apple  pomme  f
        melon  melon  m
        pear  poire  f
        lemon  citron  m
        cherry  cerise  f
        apricot  abricot  m
        plum  prune  f
        pineapple  ananas  m
        strawberry  fraise  f
        fig  figue  f
    """,
    "dish": """
        cake  gâteau  m
        pancake  crêpe  f
        egg  œuf  m
        pie  tourte  f
        biscuit  biscuit  m
        sausage  saucisse  f
        mushroom  champignon  m
        omelette  omelette  f
        cabbage  chou/choux  m
        carrot  carotte  f
    """,
    "provision": """
        bread/-  pain  m
        soup/-  soupe  f
        cheese/-  fromage  m
        meat/-  viande  f
        honey/-  miel  m
        salad/-  salade  f
        butter/-  beurre  m
        jam/-  confiture  f
        rice/-  riz  m
        garlic/-  ail  m
        fish/-  poisson  m
        cream/-  crème  f
        porridge/-  bouillie  f
    """,
    "load": """
        bag  sac  m
        box  caisse  f
        basket  panier  m
        branch  branche  f
        barrel  tonneau  m
        stone  pierre  f
        trunk  coffre  m
        log  bûche  f
        bench  banc  m
        table  table  f
        parcel  colis  m
        bell  cloche  f
        bucket  seau  m
        chair  chaise  f
    """,
    "belonging": """
        key  clé  f
        book  livre  m
        letter  lettre  f
        hat  chapeau  m
        lamp  lampe  f
        knife/knives  couteau  m
        crown  couronne  f
        coat  manteau  m
        shirt  chemise  f
        ring  anneau  m
        ball  balle  f
        umbrella  parapluie  m
        watch  montre  f
        mirror  miroir  m
        feather  plume  f
        necklace  collier  m
        axe  hache  f
        drum  tambour  m
    """,
    "opening": """
        door  porte  f
        window  fenêtre  f
        gate  portail  m
        shutter  volet  m
        drawer  tiroir  m
        cage  cage  f
    """,
    "part": """
        tail  queue  f
        belly  ventre  m
        head  tête  f
        back  dos  m
        voice  voix  f
        neck  cou  m
        paw  patte  f
        ear  oreille  f
    """,
}


def parse_noun(line: str, kind: NounKind) -> Noun:
    """Return the noun of a table row."""
    en, fr, gender = line.split()
    en, _, en_plural = en.partition("/")
    fr, _, fr_plural = fr.partition("/")
    assert gender in {"m", "f"}
    return Noun(
        en,
        en_plural or morphology.inflect_english_plural(en),
        fr,
        fr_plural or morphology.inflect_french_plural(fr),
        "m" if gender == "m" else "f",
        kind,
    )


NOUNS: tuple[Noun, ...] = tuple(
    parse_noun(line, kind)
    for kind, table in NOUN_TABLES.items()
    for line in table.strip().splitlines()
)


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    en: str
    fr: str
    feminine: str
    noun_kinds: frozenset[NounKind]
    precedes_noun: bool = False
    """Whether it comes before its noun in French."""
    is_hindrance: bool = False
    """Whether it can be a reason not to do something."""
    uses_avoir: bool = False
    """Whether it is "avoir" with a noun in French, as in "avoir faim" for "be hungry"."""
    is_gradable: bool = True

    def inflect(self, gender: Gender, plural: bool) -> str:
        """Return the French form for a gender and number."""
        if self.uses_avoir:
            return self.fr
        word = self.fr if gender == "m" else self.feminine
        return morphology.inflect_french_plural(word) if plural else word

    def fits_noun(self, noun: Noun) -> bool:
        """Return whether the adjective can describe a noun."""
        return noun.kind in self.noun_kinds


NOUN_KIND_GROUPS: dict[str, tuple[NounKind, ...]] = {
    "animate": ("animal", "person"),
    "place": ("road", "water", "height", "building", "hollow", "land"),
    "food": ("fruit", "dish", "provision"),
    "item": ("load", "belonging"),
}

# English | French (feminine) | noun kinds; "!" hindrance, "<" before its noun, "=" not gradable
ADJECTIVE_TABLE = """
tired       | fatigué              | animate !
wide        | large                | road water !
lazy        | paresseux            | animate !
deep        | profond              | water !
shy         | timide               | animate !
steep       | raide                | height !
sick        | malade               | animate !
muddy       | boueux               | road water land !
weak        | faible               | animate !
dark        | sombre               | hollow building land road !
proud       | fier                 | animate !
heavy       | lourd                | load !
nervous     | nerveux              | animate !
slippery    | glissant             | road height !
hungry      | avoir faim           | animate !
bitter      | amer                 | food !
sad         | triste               | animate !
narrow      | étroit               | road hollow opening !
worried     | inquiet/inquiète     | animate !
high        | haut                 | height ! <
wounded     | blessé               | animate !
salty       | salé                 | dish provision !
afraid      | avoir peur           | animate !
crowded     | bondé                | road building !
careful     | prudent              | animate !
damp        | humide               | hollow building land !
cowardly    | peureux              | animate !
dusty       | poussiéreux          | road building hollow item !
clumsy      | maladroit            | animate !
rocky       | rocailleux           | land !
thirsty     | avoir soif           | animate !
sour        | acide                | fruit !
stubborn    | têtu                 | animate !
bulky       | encombrant           | load !
impatient   | impatient            | animate !
greasy      | gras/grasse          | dish !
sleepy      | avoir sommeil        | animate !
snowy       | enneigé              | height road !
icy         | glacé                | water !
distracted  | distrait             | animate !
spicy       | épicé                | dish !
hesitant    | hésitant             | animate !
fragile     | fragile              | item !
careless    | étourdi              | animate !
smoky       | enfumé               | building hollow !
angry       | fâché                | animate !
winding     | sinueux              | road !
sticky      | collant              | item dish !
clever      | rusé                 | animate
brave       | courageux            | animate
happy       | heureux              | animate
kind        | gentil/gentille      | animate <
polite      | poli                 | animate
wise        | sage                 | animate
honest      | honnête              | animate
strong      | fort                 | animate
curious     | curieux              | animate
jealous     | jaloux/jalouse       | animate
generous    | généreux             | animate
young       | jeune                | animate <
ripe        | mûr                  | fruit
fresh       | frais/fraîche        | food
sweet       | sucré                | food
juicy       | juteux               | fruit
sunny       | ensoleillé           | road land
vast        | vaste                | land building <
quiet       | tranquille           | place animate
precious    | précieux             | belonging
solid       | solide               | load
small       | petit                | animate place item opening part fruit dish <
big         | grand                | animate place item opening part <
old         | vieux/vieille        | animate place item opening <
beautiful   | beau                 | animate place item opening part fruit <
pretty      | joli                 | animal place item part <
new         | nouveau              | building item opening road = <
long        | long/longue          | road part <
good        | bon                  | food = <
white       | blanc/blanche        | animal item building part =
black       | noir                 | animal item part =
grey        | gris                 | animal item building part =
red         | rouge                | item opening fruit =
green       | vert                 | item opening land fruit =
blue        | bleu                 | item opening =
strange     | étrange              | animate place item
famous      | célèbre              | person building
magnificent | magnifique           | animal place item part =
"""


def parse_adjective(line: str) -> Adjective:
    """Return the adjective of a table row."""
    en, fr, properties = (part.strip() for part in line.split("|"))
    codes = properties.split()
    uses_avoir = fr.startswith("avoir ")
    fr, _, feminine = fr.removeprefix("avoir ").partition("/")
    kinds = [
        kind for code in codes if code.isalpha() for kind in NOUN_KIND_GROUPS.get(code, (code,))
    ]
    return Adjective(
        en,
        fr,
        feminine or morphology.inflect_feminine(fr),
        frozenset(kinds),  # type: ignore[arg-type]
        precedes_noun="<" in codes,
        is_hindrance="!" in codes,
        uses_avoir=uses_avoir,
        is_gradable="=" not in codes,
    )


ADJECTIVES: tuple[Adjective, ...] = tuple(
    map(parse_adjective, ADJECTIVE_TABLE.strip().splitlines())
)


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article, possessive, demonstrative or number; forms that do not exist are empty."""

    singular: str
    plural: str
    masculine: str
    feminine: str
    french_plural: str

    def french_form(self, gender: Gender, plural: bool) -> str:
        """Return the French form for a gender and number, before elision."""
        if plural:
            return self.french_plural
        return self.masculine if gender == "m" else self.feminine


THE = Determiner("the", "the", "le", "la", "les")
A = Determiner("a", "some", "un", "une", "des")
THIS = Determiner("this", "these", "ce", "cette", "ces")
MY = Determiner("my", "my", "mon", "ma", "mes")
ITS = Determiner("its", "its", "son", "sa", "ses")
HIS = Determiner("his", "his", "son", "sa", "ses")
HER = Determiner("her", "her", "son", "sa", "ses")
OUR = Determiner("our", "our", "notre", "notre", "nos")
YOUR = Determiner("your", "your", "votre", "votre", "vos")
THEIR = Determiner("their", "their", "leur", "leur", "leurs")
EVERY = Determiner("every", "", "chaque", "chaque", "")
SOME = Determiner("some", "", "de le", "de la", "")
ANY = Determiner("any", "any", "de", "de", "de")
MANY = Determiner("", "many", "", "", "beaucoup de")
SEVERAL = Determiner("", "several", "", "", "plusieurs")
NUMBERS = tuple(
    Determiner("", en, "", "", fr)
    for en, fr in zip(
        [
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "twenty",
        ],
        [
            "deux",
            "trois",
            "quatre",
            "cinq",
            "six",
            "sept",
            "huit",
            "neuf",
            "dix",
            "onze",
            "douze",
            "vingt",
        ],
        strict=True,
    )
)
ALL = {
    gender: Determiner("", "all the", "", "", fr)
    for gender, fr in (("m", "tous les"), ("f", "toutes les"))
}
