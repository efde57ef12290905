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
from seq2see.bundle.manifest import (
    Manifest,
    ModelInfo,
    Provenance,
    SpecialTokens,
    format_model_card,
    parse_manifest,
)
from seq2see.bundle.weights import build_model_with_weights, cast_weights, check_weights
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import Tokenizer, TokenizerPair


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model with all that belongs to it. Parts that do not fit together are refused."""

    config: ModelConfig
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    weights: Mapping[str, Tensor]
    """By the names of `Transformer.state_dict()`. What is shared may be given under any or all of
    its names; here it stands under the first. They are not copied."""
    special_tokens: SpecialTokens = field(default_factory=SpecialTokens)
    max_length: int | None = None
    """The longest sentence of training, in pieces without its ends, where that is known."""
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        ModelInfo(**self._description())
        if problems := list(self._misfits()):
            raise InputError("; ".join(problems))
        object.__setattr__(self, "weights", check_weights(self.config, self.weights))

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Read a directory, or say in one line what is wrong with it. The weights are mapped."""
        home = Path(directory)
        while True:
            stamp = files.read_config_stamp(home)
            config = files.read_config(home)
            try:
                bundle = cls._assemble(home, config)
            except FileNotFoundError:
                continue  # it was found aside, but has its usual name by now
            except InputError:
                if stamp == files.read_config_stamp(home):
                    raise
            else:
                if stamp == files.read_config_stamp(home):
                    return bundle
            # Another model has come in the meantime.

    def save(self, directory: Path | str, dtype: torch.dtype = torch.float32) -> None:
        """Write a directory, or replace the model in it; files that are not ours stay.

        As float16 or bfloat16 the weights take half the room, and come back rounded. Only one may
        save at a time; any number may load meanwhile.
        """
        home, weights = Path(directory), cast_weights(self.weights, dtype)
        try:
            home.mkdir(parents=True, exist_ok=True)
            try:
                self._write(home, weights)
            finally:
                _sweep(home)
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"`{home}` cannot be written: {reason}") from error

    def build_model(self) -> Transformer:
        """Return the model with weights of its own, ready to translate."""
        return build_model_with_weights(self.config, self.weights).eval()

    def format_card(self) -> str:
        """Return the model card, in Markdown."""
        return format_model_card(ModelInfo(**self._description()), self.tokenizers.is_joint)

    def _misfits(self) -> Iterator[str]:
        sides = (
            ("source", self.tokenizers.source, self.config.vocab_size),
            ("target", self.tokenizers.target, self.config.output_vocab_size),
        )
        for side, tokenizer, size in sides:
            if tokenizer.vocab_size != size:
                yield (
                    f"the {side} tokenizer must have {size} pieces like the model, "
                    f"but has {tokenizer.vocab_size} instead"
                )
            for name, number in self.special_tokens.model_dump().items():
                is_of_side = name.startswith("source") == (side == "source")
                if is_of_side and number is not None and number >= size:
                    yield f"`special_tokens.{name}` must be below {size}, but is {number} instead"

    @classmethod
    def _assemble(cls, home: Path, config: bytes) -> Self:
        manifest = parse_manifest(home / files.CONFIG_FILE, config)
        paths = {name: files.find_file(home, name, sha) for name, sha in manifest.checksums.items()}
        tokenizers = _tokenizers(paths)
        with files.error_context(paths[files.WEIGHTS_FILE]):
            weights = load_file(paths[files.WEIGHTS_FILE])
        with files.error_context(home / files.CONFIG_FILE):
            return cls(
                manifest.model,
                tokenizers,
                manifest.languages,
                weights,
                manifest.special_tokens,
                manifest.max_length,
                manifest.provenance,
            )

    def _write(self, home: Path, weights: dict[str, Tensor]) -> None:
        writers = _tokenizer_writers(self.tokenizers)
        writers[files.WEIGHTS_FILE] = lambda path: save_file(weights, path)
        checksums = {
            name: files.write_temporary(home, name, write) for name, write in writers.items()
        }
        manifest = Manifest(**self._description(), checksums=checksums)
        files.atomic_write(home / files.CONFIG_FILE, manifest.model_dump_json(indent=1) + "\n")
        files.publish_files(home, checksums)
        files.atomic_write(home / files.CARD_FILE, self.format_card())

    def _description(self) -> dict[str, Any]:
        return {
            "languages": self.languages,
            "model": self.config,
            "special_tokens": self.special_tokens,
            "max_length": self.max_length,
            "provenance": self.provenance,
        }


def _tokenizers(paths: Mapping[str, Path]) -> TokenizerPair:
    if files.JOINT_TOKENIZER_FILE in paths:
        both = _tokenizer(paths[files.JOINT_TOKENIZER_FILE])
        return TokenizerPair(both, both)
    return TokenizerPair(
        _tokenizer(paths[files.SOURCE_TOKENIZER_FILE]),
        _tokenizer(paths[files.TARGET_TOKENIZER_FILE]),
    )


def _tokenizer(path: Path) -> Tokenizer:
    with files.error_context(path):
        return Tokenizer(path.read_bytes())


def _tokenizer_writers(tokenizers: TokenizerPair) -> dict[str, files.FileWriter]:
    if tokenizers.is_joint:
        return {files.JOINT_TOKENIZER_FILE: tokenizers.source.save}
    return {
        files.SOURCE_TOKENIZER_FILE: tokenizers.source.save,
        files.TARGET_TOKENIZER_FILE: tokenizers.target.save,
    }


def _sweep(home: Path) -> None:
    try:
        checksums = parse_manifest(home / files.CONFIG_FILE, files.read_config(home)).checksums
    except InputError:
        checksums = {}
    files.remove_leftovers(home, checksums.items())
