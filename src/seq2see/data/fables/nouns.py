"""The nouns: English, French, gender, and what kind of thing they name.

The commonest stand first, the genders mixed: the short lexicon is the beginning of each list.
An irregular plural follows a stroke.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seq2see.data.fables import english, french
from seq2see.data.fables.french import Gender

Kind = Literal[
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
    kind: Kind


TABLES: dict[Kind, str] = {
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


def noun(line: str, kind: Kind) -> Noun:
    """Read a line of a table."""
    en, fr, gender = line.split()
    en, _, en_plural = en.partition("/")
    fr, _, fr_plural = fr.partition("/")
    assert gender in {"m", "f"}
    return Noun(
        en,
        en_plural or english.plural(en),
        fr,
        fr_plural or french.plural(fr),
        "m" if gender == "m" else "f",
        kind,
    )


NOUNS: tuple[Noun, ...] = tuple(
    noun(line, kind) for kind, table in TABLES.items() for line in table.strip().splitlines()
)
