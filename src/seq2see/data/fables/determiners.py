"""Articles, possessives, demonstratives, numbers: what opens a noun phrase."""

from __future__ import annotations

from dataclasses import dataclass

from seq2see.data.fables.french import Gender


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article or what stands in its place; an empty French word has no such form."""

    singular: str
    plural: str
    masculine: str
    feminine: str
    french_plural: str

    def french(self, gender: Gender, plural: bool) -> str:
        """Return the French form, before elision."""
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
