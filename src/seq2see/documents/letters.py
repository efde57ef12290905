"""What is worth a translation."""

from __future__ import annotations


def has_letter(text: str) -> bool:
    """Tell if a text has a letter: numbers, signs and emoji are the same in every language."""
    return any(map(str.isalpha, text))
