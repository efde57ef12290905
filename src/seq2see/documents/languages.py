"""Tags of languages: en and en-GB are one language in two regions."""

from __future__ import annotations

from seq2see.errors import InputError
from seq2see.text.languages import primary


def is_same(one: str, other: str) -> bool:
    """Tell if two tags name the same language."""
    return primary(one) == primary(other)


def refuse_other(name: str, what: str, found: str, wanted: str) -> None:
    """Raise an error if a file is in another language than the translator."""
    if found and not is_same(found, wanted):
        raise InputError(f"the {what} of {name} must be {wanted}, but is {found} instead")
