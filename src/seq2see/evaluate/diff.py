"""Where two texts differ, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

Side = Literal["both", "first", "second"]

_UNIT = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\s+|[^\w\s]")
"""A word, a mark, white space; where words have no spaces between them, a character."""


class Stretch(NamedTuple):
    """Words that both texts have, or one of them."""

    side: Side
    text: str


def word_diff(first: str, second: str) -> list[Stretch]:
    """Return both texts as one. What is not of `second` alone adds up to the first, and so on."""
    return list(_stretches(_UNIT.findall(first), _UNIT.findall(second)))


def _stretches(first: list[str], second: list[str]) -> Iterator[Stretch]:
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield Stretch("both", "".join(first[a:b]))
            continue
        if a < b:
            yield Stretch("first", "".join(first[a:b]))
        if c < d:
            yield Stretch("second", "".join(second[c:d]))
