"""Convert models of other systems to bundles, which are saved as model directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from seq2see.bundle import Bundle
from seq2see.errors import InputError
from seq2see.interop.marian import convert_marian, read_json_object

__all__ = ["IMPORTERS", "import_model"]

Importer = Callable[[Path, Mapping[str, Any], tuple[str, str] | None], Bundle]
"""Converts the model in a directory, given the content of its `config.json` and the languages."""
IMPORTERS: Mapping[str, Importer] = {"marian": convert_marian}
"""The importer of each `model_type` in the `config.json` of a model in Hugging Face format."""


def import_model(directory: Path | str, languages: tuple[str, str] | None = None) -> Bundle:
    """Read a model in Hugging Face format of a type in `IMPORTERS`.

    Args:
        directory: Directory with `config.json`, the weights and the files of the tokenizer.
        languages: Source and target language. Default: read from the configuration or the name.

    Raises InputError if the model cannot be read or is not supported.
    """
    directory = Path(directory)
    if not directory.is_dir():
        what = "is a file" if directory.exists() else "does not exist"
        raise InputError(f"`{directory}` {what}: give the directory of a MarianMT model")
    settings = read_json_object(directory / "config.json")
    if "checksums" in settings:
        raise InputError(f"`{directory}` is a model of seq2see already: there is nothing to import")
    importer = IMPORTERS.get(str(settings.get("model_type")))
    if importer is None:
        raise InputError(
            f"`{directory}` must contain a model of type {' or '.join(IMPORTERS)}, but its "
            f"config.json has model_type {settings.get('model_type')!r}"
        )
    return importer(directory, settings, languages)
