"""The adjectives: English, French, where French puts them, and what they can be said of.

An adjective that fits one noun of a sentence and not the other decides what "it" means.
"""

from __future__ import annotations

from dataclasses import dataclass

from seq2see.data.fables import french
from seq2see.data.fables.french import Gender
from seq2see.data.fables.nouns import Kind, Noun


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    en: str
    fr: str
    feminine: str
    fits: frozenset[Kind]
    before: bool = False
    """Whether it stands before its noun in French."""
    hindrance: bool = False
    """Whether it is a reason not to do something."""
    idiom: bool = False
    """Whether French says "avoir faim" where English says "be hungry"."""
    gradable: bool = True

    def agreed(self, gender: Gender, plural: bool) -> str:
        """Return the French form."""
        if self.idiom:
            return self.fr
        word = self.fr if gender == "m" else self.feminine
        return french.plural(word) if plural else word

    def suits(self, noun: Noun) -> bool:
        """Say whether a noun can have this quality."""
        return noun.kind in self.fits


GROUPS: dict[str, tuple[Kind, ...]] = {
    "animate": ("animal", "person"),
    "place": ("road", "water", "height", "building", "hollow", "land"),
    "food": ("fruit", "dish", "provision"),
    "item": ("load", "belonging"),
}

# English | French | kinds; "!" a hindrance, "<" before its noun, "=" not gradable
TABLE = """
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


def adjective(line: str) -> Adjective:
    """Read a line of the table."""
    en, fr, rest = (part.strip() for part in line.split("|"))
    codes = rest.split()
    idiom = fr.startswith("avoir ")
    fr, _, feminine = fr.removeprefix("avoir ").partition("/")
    kinds = [kind for code in codes if code.isalpha() for kind in GROUPS.get(code, (code,))]
    return Adjective(
        en,
        fr,
        feminine or french.feminine(fr),
        frozenset(kinds),  # type: ignore[arg-type]
        before="<" in codes,
        hindrance="!" in codes,
        idiom=idiom,
        gradable="=" not in codes,
    )


ADJECTIVES: tuple[Adjective, ...] = tuple(map(adjective, TABLE.strip().splitlines()))
