"""Which text is for what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from seq2see.config import Config
from seq2see.data.corpora import Corpus, CorpusConfig, TrainingCorpusConfig
from seq2see.errors import ConfigError


class DataConfig(Config):
    """The text that a model learns from and is judged by."""

    root: str = "."
    """The folder that names of files start from, seen from the recipe; may have `$VARIABLES`."""
    languages: tuple[str, str] = Field(strict=False)  # TOML knows lists only
    """Source and target, by their codes."""
    train: tuple[TrainingCorpusConfig, ...] = Field(min_length=1, strict=False)
    """What to learn from, one corpus or several."""
    valid: CorpusConfig
    """What to watch while learning, and to choose by. Never learnt from."""
    test: CorpusConfig | None = None
    """What the result is judged by, once."""

    def conflicts(self) -> Iterator[str]:
        """Refuse languages that no file could be named by."""
        for language in self.languages:
            if not language.replace("-", "").replace("_", "").isalnum():
                yield f"`languages` must be codes such as en or pt-BR, but has {language!r} instead"

    def corpus(self, config: CorpusConfig, folder: Path) -> Corpus:
        """Return a corpus of a recipe that lies in this folder."""
        root = os.path.expandvars(self.root)
        if "$" in root:
            problem = f"`data.root` must name variables that are set, but is {root} instead"
            raise ConfigError([problem])
        return Corpus(config, self.languages, folder / root)
