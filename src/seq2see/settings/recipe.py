"""What a recipe has. Each part declares its own settings; a recipe only puts them together."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from seq2see.config import Config
from seq2see.data.batches import BatchConfig
from seq2see.data.config import DataConfig
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig
from seq2see.settings.commented import overrides, section, toml
from seq2see.text import PAD_ID, TokenizerConfig

_FROM_TOKENIZER = ("vocab_size", "target_vocab_size", "pad_id")


class Recipe(Config):
    """What to learn from, and how."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    batches: BatchConfig = BatchConfig()
    model: dict[str, Any] = Field(default_factory=lambda: {"preset": "base"})
    """The architecture: a usual size (tiny, small, base, big), and what differs from it."""

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Read a TOML file; all that is wrong with it is reported at once."""
        try:
            return cls(**tomllib.loads(Path(path).read_text("utf-8")))
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path} must be UTF-8, but is not") from None
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path} must be TOML, but: {error}") from None
        except ConfigError as error:
            raise ConfigError([f"{path}: {problem}" for problem in error.problems]) from None

    def conflicts(self) -> Iterator[str]:
        """Refuse a model that cannot be, and tags that the tokenizer would cut."""
        try:
            self.architecture(self.tokenizer.vocab_size)
        except ConfigError as error:
            yield from (problem.replace("`", "`model.", 1) for problem in error.problems)
        for corpus in self.data.train:
            if corpus.tag and corpus.tag not in self.tokenizer.symbols:
                yield f"`tokenizer.symbols` must have {corpus.tag!r}, the tag of {corpus.files[0]}"

    def architecture(self, vocab_size: int, target_vocab_size: int | None = None) -> ModelConfig:
        """Return the model's config for these vocabularies."""
        settings = {"preset": "base", **self.model}
        if taken := [name for name in _FROM_TOKENIZER if name in settings]:
            problems = [f"`{name}` must be left out: the tokenizer decides it" for name in taken]
            raise ConfigError(problems)
        sizes = {"vocab_size": vocab_size, "target_vocab_size": target_vocab_size}
        return ModelConfig.preset(settings.pop("preset"), **sizes, pad_id=PAD_ID, **settings)

    def to_toml(self) -> str:
        """Return the recipe as a file that explains itself.

        Of the model, only what differs from the preset is set; the rest is shown beside it.
        """
        model = self.architecture(self.tokenizer.vocab_size)
        lines = [
            *section("data", self.data),
            *section("tokenizer", self.tokenizer),
            *section("batches", self.batches),
            *("", "", f"# {type(self).model_fields['model'].description}", "[model]"),
            *(f"{key} = {toml(value)}" for key, value in self.model.items()),
            *overrides(model, without=_FROM_TOKENIZER),
        ]
        return "\n".join(lines).strip() + "\n"
