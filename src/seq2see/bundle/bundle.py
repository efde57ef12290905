"""A model with all that belongs to it, in memory and as a directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2see.bundle import files
from seq2see.bundle.manifest import Description, Framing, Manifest, Origin, card, parse
from seq2see.bundle.weights import filled, fitted, stored
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import Tokenizer, Tokenizers


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model with all that belongs to it. Parts that do not fit together are refused."""

    config: ModelConfig
    tokenizers: Tokenizers
    languages: tuple[str, str]
    weights: Mapping[str, Tensor]
    """By the names of `Transformer.state_dict()`. What is shared may be given under any or all of
    its names; here it stands under the first. They are not copied."""
    framing: Framing = field(default_factory=Framing)
    max_length: int | None = None
    """The longest sentence of training, in pieces without its ends, where that is known."""
    origin: Origin = field(default_factory=Origin)

    def __post_init__(self) -> None:
        Description(**self._description())
        if problems := list(self._misfits()):
            raise InputError("; ".join(problems))
        object.__setattr__(self, "weights", fitted(self.config, self.weights))

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Read a directory, or say in one line what is wrong with it. The weights are mapped."""
        home = Path(directory)
        while True:
            stamp = files.config_stamp(home)
            config = files.read_config(home)
            try:
                bundle = cls._assemble(home, config)
            except FileNotFoundError:
                continue  # it was found aside, but has its usual name by now
            except InputError:
                if stamp == files.config_stamp(home):
                    raise
            else:
                if stamp == files.config_stamp(home):
                    return bundle
            # Another model has come in the meantime.

    def save(self, directory: Path | str, dtype: torch.dtype = torch.float32) -> None:
        """Write a directory, or replace the model in it; files that are not ours stay.

        As float16 or bfloat16 the weights take half the room, and come back rounded. Only one may
        save at a time; any number may load meanwhile.
        """
        home, weights = Path(directory), stored(self.weights, dtype)
        try:
            home.mkdir(parents=True, exist_ok=True)
            try:
                self._write(home, weights)
            finally:
                _sweep(home)
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"`{home}` cannot be written: {reason}") from error

    def model(self) -> Transformer:
        """Return the model with weights of its own, ready to translate."""
        return filled(self.config, self.weights).eval()

    def card(self) -> str:
        """Return the model card, in Markdown."""
        return card(Description(**self._description()), self.tokenizers.joint)

    def _misfits(self) -> Iterator[str]:
        sides = (
            ("source", self.tokenizers.source, self.config.vocab_size),
            ("target", self.tokenizers.target, self.config.output_size),
        )
        for side, tokenizer, size in sides:
            if tokenizer.vocab_size != size:
                yield (
                    f"the {side} tokenizer must have {size} pieces like the model, "
                    f"but has {tokenizer.vocab_size} instead"
                )
            for name, number in self.framing.model_dump().items():
                if name.startswith(side) and number is not None and number >= size:
                    yield f"`framing.{name}` must be below {size}, but is {number} instead"

    @classmethod
    def _assemble(cls, home: Path, config: bytes) -> Self:
        manifest = parse(home / files.CONFIG, config)
        paths = {name: files.find(home, name, sha) for name, sha in manifest.checksums.items()}
        tokenizers = _tokenizers(paths)
        with files.about(paths[files.WEIGHTS]):
            weights = load_file(paths[files.WEIGHTS])
        with files.about(home / files.CONFIG):
            return cls(
                manifest.model,
                tokenizers,
                manifest.languages,
                weights,
                manifest.framing,
                manifest.max_length,
                manifest.origin,
            )

    def _write(self, home: Path, weights: dict[str, Tensor]) -> None:
        writers = _tokenizer_writers(self.tokenizers)
        writers[files.WEIGHTS] = lambda path: save_file(weights, path)
        checksums = {name: files.put_aside(home, name, write) for name, write in writers.items()}
        manifest = Manifest(**self._description(), checksums=checksums)
        files.replace(home / files.CONFIG, manifest.model_dump_json(indent=1) + "\n")
        files.rename(home, checksums)
        files.replace(home / files.CARD, self.card())

    def _description(self) -> dict[str, Any]:
        return {
            "languages": self.languages,
            "model": self.config,
            "framing": self.framing,
            "max_length": self.max_length,
            "origin": self.origin,
        }


def _tokenizers(paths: Mapping[str, Path]) -> Tokenizers:
    if files.JOINT in paths:
        both = _tokenizer(paths[files.JOINT])
        return Tokenizers(both, both)
    return Tokenizers(_tokenizer(paths[files.SOURCE]), _tokenizer(paths[files.TARGET]))


def _tokenizer(path: Path) -> Tokenizer:
    with files.about(path):
        return Tokenizer(path.read_bytes())


def _tokenizer_writers(tokenizers: Tokenizers) -> dict[str, files.Writer]:
    if tokenizers.joint:
        return {files.JOINT: tokenizers.source.save}
    return {files.SOURCE: tokenizers.source.save, files.TARGET: tokenizers.target.save}


def _sweep(home: Path) -> None:
    try:
        checksums = parse(home / files.CONFIG, files.read_config(home)).checksums
    except InputError:
        checksums = {}
    files.sweep(home, checksums.items())
