"""Import packages that only some formats require."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from seq2see.errors import InputError

_EXTRA = "tables"


def import_package(name: str, path: str) -> Any:
    """Return a package; raise InputError with the command that installs it if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            f"{path} cannot be read without {name.partition('.')[0]}: install it with "
            f"`pip install 'seq2see[{_EXTRA}]'`"
        ) from None
