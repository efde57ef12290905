"""Letters to press in menus, `_File` or `Sa&ve`: out of a string for the model, and in again."""

from __future__ import annotations

import re

_SIGNS, _MARKUP = frozenset("_&"), frozenset("<>{}%$\n")
_WORD = re.compile(r"[^\W\d_][^\W_]*")


def without(text: str) -> tuple[str, str]:
    """Return a string without its accelerator, and the sign with its letter, or nothing.

    `my_name`, `AT&T` and `&amp;` have none, and where there is markup, nothing is sure.
    """
    places = [place for place, character in enumerate(text) if character in _SIGNS]
    if len(places) != 1 or _MARKUP & set(text):
        return text, ""
    (place,) = places
    behind = _WORD.match(text, place + 1)
    if not behind or text[behind.end() : behind.end() + 1] == ";":
        return text, ""
    start = place
    while start and text[start - 1].isalnum():
        start -= 1
    if start < place and not (text[start].isupper() and behind[0][0].islower()):
        return text, ""
    return text[:place] + text[place + 1 :], text[place : place + 2]


def with_one(text: str, accelerator: str) -> str:
    """Return a string with the accelerator: at a word with the same letter, or at the first."""
    if not accelerator:
        return text
    sign, letter = accelerator[0], accelerator[1]
    same = re.search(rf"\b{re.escape(letter)}", text, re.IGNORECASE)
    first = same or _WORD.search(text)
    return f"{text[: first.start()]}{sign}{text[first.start() :]}" if first else text
