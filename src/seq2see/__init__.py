"""seq2see: train, run, serve and explain Transformer models for translation."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

__all__ = ["Translation", "TranslationOptions", "Translator", "explain", "load"]

_MODULES = {
    "Translation": "seq2see.translator",
    "TranslationOptions": "seq2see.translator",
    "Translator": "seq2see.translator",
    "load": "seq2see.translator",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, because importing torch takes a second.

    Their types are declared in `__init__.pyi`.
    """
    if name == "explain":  # the package is callable
        return import_module("seq2see.explain")
    if name not in _MODULES:
        raise AttributeError(f"module 'seq2see' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
