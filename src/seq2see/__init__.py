"""seq2see: a Transformer that you train on your own text, run fast, serve, and see through."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = ["Translation", "TranslationOptions", "Translator", "explain", "load"]

_HOMES = {
    "Translation": "seq2see.translator",
    "TranslationOptions": "seq2see.translator",
    "Translator": "seq2see.translator",
    "load": "seq2see.translator",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, when it is asked for: torch alone takes a second.

    What a type checker must know of these names stands in `__init__.pyi`.
    """
    if name == "explain":  # the package is a function as well
        return import_module("seq2see.explain")
    if name not in _HOMES:
        raise AttributeError(f"module 'seq2see' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
