"""What a translator is given from Python: lines and pairs, and nothing that only looks so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from seq2see.errors import InputError


def lines_of(given: Any) -> Iterable[Any]:
    """Return it if it can be lines: a text itself would be taken apart into characters."""
    if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
        raise InputError(f"lines must be a list of texts, but are {_kind(given)} instead")
    return given


def pairs_of(given: Any) -> list[tuple[str, str]]:
    """Return pairs of texts, if they are such."""
    pairs = list(lines_of(given))
    for number, pair in enumerate(pairs, 1):
        two = isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
        if not two or not all(isinstance(text, str) for text in pair):
            raise InputError(
                f"pair {number} must be a text and its translation, but is {_kind(pair)} instead"
            )
    return pairs


def _kind(given: Any) -> str:
    """Name what it is, shortly."""
    return f"{repr(given)[:40]} ({type(given).__name__})"
