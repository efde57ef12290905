"""Models of other systems: read here into a bundle, which is then saved as a model directory."""

from __future__ import annotations

from pathlib import Path

from seq2see.bundle import Bundle
from seq2see.interop.marian import read_marian

__all__ = ["read", "read_marian"]


def read(directory: Path | str, languages: tuple[str, str] | None = None) -> Bundle:
    """Return the model in a directory of another system.

    `languages` are those of source and target, where the directory does not tell.
    """
    return read_marian(Path(directory), languages)
