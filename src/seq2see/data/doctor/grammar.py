"""One pair has, two pairs have."""

from __future__ import annotations

_SINGULAR = {"have": "has", "seem": "seems", "are": "is"}


def counted(count: int, noun: str) -> str:
    """Say how many."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def agreeing(meaning: str, count: int) -> str:
    """Say "has" of one and "have" of more: the verb comes first."""
    verb, space, rest = meaning.partition(" ")
    return f"{_SINGULAR.get(verb, verb) if count == 1 else verb}{space}{rest}"
