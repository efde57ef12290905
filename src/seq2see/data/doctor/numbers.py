"""Do the numbers of both sides agree? Careful: 10,000 is 1万, 2:30 p.m. is 14 h 30."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"\d+")


def numbers_differ(source: str, target: str) -> bool:
    """Tell if both sides have numbers, and none of one is in the other."""
    if not (_NUMBER.search(source) and _NUMBER.search(target)):
        return False
    here, there = _figures(source), _figures(target)
    return bool(here and there) and not any(_agree(a, b) for a in here for b in there)


def _figures(text: str) -> set[str]:
    """Return the digits of each number, as ASCII and without the zeros at its end."""
    found = _NUMBER.findall(text)
    plain = ("".join(str(unicodedata.digit(c, 0)) for c in number) for number in found)
    return {number.rstrip("0") for number in plain} - {""}


def _agree(a: str, b: str) -> bool:
    """Tell if one could be written as the other: 1980 and 80er, 230 and 2 h 30."""
    return a in b or b in a
