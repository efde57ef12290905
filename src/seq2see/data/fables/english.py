"""English morphology: regular forms by rule, and the verb with its auxiliary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seq2see.data.fables.phrases import Word

SHORT = re.compile(r"[^aeiou]*[aeiou][^aeiouwxy]")
"""One syllable with a short vowel: the last letter is doubled."""
LONG = frozenset({"cowardly", "slippery", "sour", "vast"})
"""Adjectives that take "more" though their form would allow "-er"."""


def plural(noun: str) -> str:
    """fox, foxes; berry, berries; wolf is not regular."""
    if re.search(r"[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + ("es" if re.search(r"(s|x|ch|sh)$", noun) else "s")


def third(verb: str) -> str:
    """Return the third person: crosses, carries, goes."""
    if verb == "have":
        return "has"
    return verb + "es" if verb.endswith("o") else plural(verb)


def past(verb: str) -> str:
    """Return the past: crossed, carried, stopped, liked."""
    if re.search(r"[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return _doubled(verb).removesuffix("e") + "ed"


def gerund(verb: str) -> str:
    """Return the -ing form: crossing, stopping, liking, seeing, lying."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    return re.sub(r"(?<=[^aeiouy])e$|(?<=u)e$", "", _doubled(verb)) + "ing"


def comparative(adjective: str) -> str:
    """Return "wider", "bigger", "heavier" or "more careful"."""
    if adjective in LONG:
        return f"more {adjective}"
    if adjective.endswith("y") and len(adjective) > 3:
        return adjective[:-1] + "ier"
    syllables = re.findall(r"[aeiouy]+", adjective.removesuffix("e"))
    if len(syllables) > 1:
        return f"more {adjective}"
    return _doubled(adjective).removesuffix("e") + "er"


def superlative(adjective: str) -> str:
    """Return "widest" or "most careful"."""
    more = comparative(adjective)
    return more.replace("more ", "most ") if more.startswith("more ") else more[:-2] + "est"


def _doubled(word: str) -> str:
    return word + word[-1] if SHORT.fullmatch(word) else word


def finished(sentence: Sequence[Word]) -> tuple[Word, ...]:
    """Turn "a" into "an" before a vowel."""
    done = list(sentence)
    for i, word in enumerate(done):
        if word.text == "a" and done[i + 1].text[0] in "aeio":
            done[i] = word._replace(text="an")
    return tuple(done)
