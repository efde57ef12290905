"""French morphology, and what happens where words meet: elision, contraction, euphony."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal

from seq2see.data.fables.phrases import Word

Gender = Literal["m", "f"]

ASPIRATED = re.compile(r"(hibou|hérisson|héron|hamster|haut|hache|hutte|hangar|huit|onze)")
VOWEL = re.compile(r"[aeiouyhàâéèêëîïôûœ]", re.IGNORECASE)
ELISION = frozenset(
    ["le", "la", "je", "me", "te", "se", "ne", "de", "ce", "que", "lorsque", "puisque", "jusque"]
)
CONTRACTION = {
    ("à", "le"): "au",
    ("à", "les"): "aux",
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("de", "des"): "de",
    ("de", "de"): "de",  # il rêve de pommes, de vieilles maisons
}
EUPHONY = {
    "ce": "cet",
    "ma": "mon",
    "ta": "ton",
    "sa": "son",
    "beau": "bel",
    "vieux": "vieil",
    "nouveau": "nouvel",
}


@cache
def opens(word: str) -> bool:
    """Say whether a word begins with a vowel or a silent h, so that the one before it elides."""
    return bool(VOWEL.match(word)) and not ASPIRATED.match(word.lower())


def euphonic(phrase: Sequence[Word]) -> tuple[Word, ...]:
    """Give "cet", "mon", "bel" before a vowel; for a singular noun with what stands before it."""
    following = [*phrase[1:], Word("")]
    return tuple(
        word._replace(text=EUPHONY.get(word.text, word.text)) if opens(after.text) else word
        for word, after in zip(phrase, following, strict=True)
    )


def finished(sentence: Sequence[Word]) -> tuple[Word, ...]:
    """Contract and elide."""
    done: list[Word] = []
    for word in reversed(_contracted(sentence)):
        after = done[-1].text if done else ""
        if word.text in ELISION and opens(after):
            word = word._replace(text=word.text[:-1] + "'")  # noqa: PLW2901
        elif word.text == "si" and after in {"il", "ils"}:
            word = word._replace(text="s'")  # noqa: PLW2901
        done.append(word)
    return tuple(reversed(done))


def _contracted(sentence: Sequence[Word]) -> list[Word]:
    """Join "de le" to "du"; a contraction has the links of both its words."""
    done: list[Word] = []
    for i, word in enumerate(sentence):
        joined = CONTRACTION.get((done[-1].text, word.text)) if i else None
        if joined and not (word.text == "le" and opens(sentence[i + 1].text)):
            done[-1] = Word(joined, done[-1].links + word.links)
        else:
            done.append(word)
    return done


def plural(word: str) -> str:
    """Return the plural of a noun or of a masculine adjective: renards, animaux, oiseaux, gris."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith(("eau", "eu")) and word != "bleu" else "s")


FEMININE = [
    (r"e$", "e"),
    (r"er$", "ère"),
    (r"eux$", "euse"),
    (r"eau$", "elle"),
    (r"if$", "ive"),
    (r"on$", "onne"),
    (r"ien$", "ienne"),
    (r"el$", "elle"),
    (r"$", "e"),
]


def feminine(adjective: str) -> str:
    """Return the feminine of a regular adjective: grande, fière, heureuse, belle, craintive."""
    ending, new = next(rule for rule in FEMININE if re.search(rule[0], adjective))
    return re.sub(ending, new, adjective, count=1)


def agreed(participle: str, gender: Gender, plural: bool) -> str:
    """Return a participle in gender and number: mangé, mangée, mangés, mangées."""
    word = participle + ("e" if gender == "f" else "")
    return word + ("s" if plural and not word.endswith("s") else "")
