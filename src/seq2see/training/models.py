"""Models that a run builds on: the one it starts from, and its teacher."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seq2see.bundle import Bundle, Framing
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig
from seq2see.text import PAD_ID, Tokenizers


@dataclass(frozen=True)
class Foundations:
    """What a run builds on, if anything."""

    start: Bundle | None = None
    """Whose weights are trained on."""
    teacher: Bundle | None = None
    """Whose answers are learnt."""

    @classmethod
    def load(cls, start: str | None, teacher: str | None, origin: Path) -> Foundations:
        """Read the directories, seen from the recipe's; refuse what does not go together."""
        found = cls(
            _trainable(start, origin, "train.start"), _trainable(teacher, origin, "loss.teacher")
        )
        prints = {bundle.tokenizers.fingerprint for bundle in found if bundle}
        if len(prints) > 1:
            raise InputError(
                "`train.start` and `loss.teacher` must have the same tokenizer, but do not"
            )
        return found

    def __iter__(self) -> Iterator[Bundle | None]:
        return iter((self.start, self.teacher))

    @property
    def tokenizers(self) -> Tokenizers | None:
        """Their tokenizers, which the run must take over."""
        return next((bundle.tokenizers for bundle in self if bundle), None)

    def refuse_longer(self, max_length: int) -> None:
        """Refuse text that one of them could not take, which would show only midway."""
        named = {"train.start": self.start, "loss.teacher": self.teacher}
        problems = [
            f"`batches.max_length` must be at most {limit - 1}, since `{key}` takes {limit} "
            f"tokens with the sentence's end, but is {max_length} instead"
            for key, bundle in named.items()
            for limit in (greatest_lengths(bundle.config).values() if bundle else ())
            if limit <= max_length
        ]
        if problems:
            raise ConfigError(problems)


def greatest_lengths(config: ModelConfig) -> dict[str, int]:
    """Return the tokens that a model can take at most, by what sets the limit."""
    attention = config.source_attention
    limits = {
        "positions": config.longest,
        "encoder_attention": attention.max_length if attention.kind == "linformer" else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def fine_tuned(config: ModelConfig, settings: Mapping[str, Any]) -> ModelConfig:
    """Return the config of a model to be trained on; only its dropout may become another."""
    changed = config.replace(**settings)
    before, now = dict(_leaves(config.model_dump())), dict(_leaves(changed.model_dump()))
    problems = [
        f"`model.{path}` must be {before.get(path)} as in `train.start`, but is {value} instead: "
        f"leave it out, or add model.{path}={before.get(path)}"
        for path, value in now.items()
        if before.get(path) != value and not path.startswith("dropout.")
    ]
    if problems:
        raise ConfigError(problems)
    return changed


def _leaves(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and of those inside it, by their paths."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def checksums(start: str | None, teacher: str | None, origin: Path) -> dict[str, str]:
    """Return what tells other weights in the same place: the SHA-256 of their files."""
    named = {"train.start": start, "loss.teacher": teacher}
    return {key: _checksum(_path(path, origin, key)) for key, path in named.items() if path}


def _trainable(path: str | None, origin: Path, key: str) -> Bundle | None:
    """Read a model that has its sentence ends where training puts them."""
    if path is None:
        return None
    bundle = Bundle.load(_path(path, origin, key))
    if bundle.framing != Framing() or bundle.config.pad_id != PAD_ID:
        raise InputError(
            f"`{key}` must be a model that seq2see has trained, but {path} frames its sentences "
            "in another way"
        )
    return bundle


def _path(path: str, origin: Path, key: str) -> Path:
    expanded = os.path.expandvars(path)
    if "$" in expanded:
        raise ConfigError([f"`{key}` must name variables that are set, but is {expanded} instead"])
    return origin / expanded


def _checksum(directory: Path) -> str:
    try:
        with (directory / "model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}") from None
