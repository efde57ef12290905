"""A model with its tokenizers and settings, in memory and as a directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from seq2see.atomic_files import atomic_write
from seq2see.bundle import files
from seq2see.bundle.manifest import (
    BundleMetadata,
    Manifest,
    Provenance,
    StartAndEndTokenIds,
    format_model_card,
    parse_manifest,
)
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer, count_parameters
from seq2see.regular_files import read_regular_file
from seq2see.text import Tokenizer, TokenizerPair
from seq2see.text.tokenizer import MAX_TOKENIZER_BYTES
from seq2see.text.training_text_statistics import TrainingTextStatistics

MAX_HEADER_BYTES = 100_000_000
"""Maximum size of the header of a safetensors file, as in the library."""
_STORABLE_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_MANIFEST_FIELDS = ("languages", "special_tokens", "max_length", "provenance", "training_text")
"""Fields that the bundle and `config.json` have in common."""


@dataclass(frozen=True, eq=False)
class Bundle:
    """A model with its tokenizers and settings.

    Raises:
        ConfigError: If a setting is invalid.
        InputError: If the parts do not fit together.
    """

    config: ModelConfig
    tokenizers: TokenizerPair
    languages: tuple[str, str]
    weights: Mapping[str, Tensor]
    """Weights by their names in `Transformer.state_dict()`. Shared weights may be given under one
    or all of their names, and are stored under the first. They are not copied."""
    special_tokens: StartAndEndTokenIds = field(default_factory=StartAndEndTokenIds)
    max_length: int | None = None
    """Length of the longest training sentence in tokens, without special tokens, if known."""
    provenance: Provenance = field(default_factory=Provenance)
    training_text: TrainingTextStatistics | None = None
    """Statistics of the training text, if known."""
    directory: Path | None = field(init=False, default=None)
    """The model directory that the bundle was loaded from."""
    config_checksum: str | None = field(init=False, default=None)
    """SHA-256 of the `config.json` that the bundle was loaded from; it contains the checksums of
    all other files."""

    def __post_init__(self) -> None:
        BundleMetadata(**self._manifest_fields())
        if problems := list(self._find_problems()):
            raise InputError("; ".join(problems))
        object.__setattr__(
            self, "weights", _check_and_deduplicate_weights(self.config, self.weights)
        )

    @classmethod
    def load(cls, directory: Path | str) -> Self:
        """Load a model directory. The weights are memory-mapped.

        If another process replaces the model in the meantime, loading starts again.

        Raises:
            InputError: If the directory is not a model directory or is damaged.
        """
        path = Path(directory)
        while True:
            stamp = files.stat_config_file(path)
            config = files.read_config_bytes(path)
            try:
                bundle = cls._read(path, config)
                object.__setattr__(bundle, "directory", path)
                object.__setattr__(bundle, "config_checksum", sha256(config).hexdigest())
            except FileNotFoundError:
                continue  # the temporary file has got its final name in the meantime
            except InputError:
                if stamp == files.stat_config_file(path):
                    raise
                continue  # the model was replaced in the meantime
            if stamp == files.stat_config_file(path):
                return bundle

    def save(self, directory: Path | str, dtype: torch.dtype = torch.float32) -> None:
        """Write a model directory, or replace the model in it. Other files are kept.

        With float16 or bfloat16 the weights need half the space and are rounded. Only one process
        may save to a directory at a time; any number may load from it.

        Raises:
            InputError: If the directory cannot be written or a weight is not finite.
        """
        path, weights = Path(directory), _cast_weights(self.weights, dtype)
        try:
            path.mkdir(parents=True, exist_ok=True)
            try:
                self._write(path, weights)
            finally:
                _remove_leftovers(path)
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"`{path}` cannot be written: {reason}") from error

    @property
    def max_sentences_per_line(self) -> int:
        """Number of sentences per line that the model has seen; 1 if that is not known."""
        return self.training_text.max_sentences_per_line if self.training_text else 1

    def build_model(self) -> Transformer:
        """Return a new model with a copy of the weights, in evaluation mode."""
        model = _build_meta_model(self.config)
        copies = {name: weight.clone() for name, weight in self.weights.items()}
        state = {name: copies[first] for name, first in _find_first_names(model).items()}
        model.load_state_dict(state, assign=True)
        return model.eval()

    def format_card(self) -> str:
        """Return the model card in Markdown."""
        num_parameters = count_parameters(_build_meta_model(self.config))
        info = BundleMetadata(**self._manifest_fields())
        return format_model_card(info, self.tokenizers.is_joint, num_parameters)

    def _find_problems(self) -> Iterator[str]:
        sides = (
            ("source", self.tokenizers.source, self.config.vocab_size),
            ("target", self.tokenizers.target, self.config.output_vocab_size),
        )
        for side, tokenizer, size in sides:
            if tokenizer.vocab_size != size:
                yield (
                    f"the {side} tokenizer must have {size} pieces as the model has, "
                    f"but has {tokenizer.vocab_size} instead"
                )
            for name, number in self.special_tokens.model_dump().items():
                is_of_side = name.startswith("source") == (side == "source")
                if is_of_side and number is not None and number >= size:
                    yield f"`special_tokens.{name}` must be below {size}, but is {number} instead"

    @classmethod
    def _read(cls, directory: Path, config: bytes) -> Self:
        manifest = parse_manifest(directory / files.CONFIG_FILE, config)
        max_bytes = {files.WEIGHTS_FILE: _max_weights_bytes(manifest.model)}
        paths = {
            name: files.find_file_by_checksum(
                directory, name, checksum, max_bytes.get(name, MAX_TOKENIZER_BYTES)
            )
            for name, checksum in manifest.checksums.items()
        }
        tokenizers = _load_tokenizers(paths)
        with files.error_context(paths[files.WEIGHTS_FILE]):
            weights = load_file(paths[files.WEIGHTS_FILE])
        with files.error_context(directory / files.CONFIG_FILE):
            fields = {name: getattr(manifest, name) for name in _MANIFEST_FIELDS}
            return cls(config=manifest.model, tokenizers=tokenizers, weights=weights, **fields)

    def _write(self, directory: Path, weights: dict[str, Tensor]) -> None:
        writers: dict[str, files.FileWriter] = {
            name: partial(Path.write_bytes, data=tokenizer.serialized_model)
            for name, tokenizer in self.tokenizers.files.items()
        }
        writers[files.WEIGHTS_FILE] = partial(save_file, weights)
        checksums = {
            name: files.write_temporary_and_checksum(directory, name, write)
            for name, write in writers.items()
        }
        manifest = Manifest(**self._manifest_fields(), checksums=checksums)
        with atomic_write(directory / files.CONFIG_FILE) as path:
            path.write_text(manifest.model_dump_json(indent=1) + "\n", "utf-8", newline="\n")
        files.rename_to_final_names(directory, checksums)
        with atomic_write(directory / files.CARD_FILE) as path:
            path.write_text(self.format_card(), "utf-8", newline="\n")

    def _manifest_fields(self) -> dict[str, Any]:
        return {"model": self.config, **{name: getattr(self, name) for name in _MANIFEST_FIELDS}}


def _load_tokenizers(paths: Mapping[str, Path]) -> TokenizerPair:
    tokenizers = {}
    for name in [name for name in paths if name != files.WEIGHTS_FILE]:
        with files.error_context(paths[name]):
            tokenizers[name] = Tokenizer(read_regular_file(paths[name], MAX_TOKENIZER_BYTES))
    return TokenizerPair.from_files(tokenizers)


def _remove_leftovers(directory: Path) -> None:
    """Remove temporary files of interrupted saves, except those that `config.json` refers to."""
    try:
        manifest = parse_manifest(directory / files.CONFIG_FILE, files.read_config_bytes(directory))
        checksums = manifest.checksums
    except InputError:
        checksums = {}
    files.remove_leftovers(directory, checksums.items())


class _SkipInitialization(TorchFunctionMode):
    """Skips the random initialization of a new model.

    The values would be discarded. On the meta device, the first such operation also imports 800
    modules, which takes longer than the rest of loading.
    """

    _INITIALIZERS = (Tensor.uniform_, Tensor.normal_, Tensor.mul, Tensor.__mul__)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self._INITIALIZERS:
            return args[0]
        func = torch.empty if func is torch.randn else func
        return func(*args, **(kwargs or {}))


def _build_meta_model(config: ModelConfig) -> Transformer:
    """Return the model with weights on the meta device: names and shapes without values."""
    with torch.device("meta"), _SkipInitialization():
        return Transformer.from_config(config)


def count_weights(config: ModelConfig) -> int:
    """Return the number of parameters of a model. Only one layer of each stack is built."""
    model = _build_meta_model(config.replace(encoder_layers=1, decoder_layers=1))
    stacks = (
        (model.encoder.layers[0], config.encoder_layers),
        (model.decoder.layers[0], config.decoder_layers),
    )
    return count_parameters(model) + sum(
        (num_layers - 1) * count_parameters(layer) for layer, num_layers in stacks
    )


def _max_weights_bytes(config: ModelConfig) -> int:
    """Return the maximum size of a file of weights that may be stored twice as float32."""
    return 8 * count_weights(config) + MAX_HEADER_BYTES


def _check_and_deduplicate_weights(
    config: ModelConfig, weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return each weight once, in order, as float32.

    Raises:
        InputError: If the weights do not fit the config.
    """
    num_layers = config.encoder_layers + config.decoder_layers
    if len(weights) < num_layers:  # before thousands of layers are built
        raise InputError(
            f"the weights must fit the config, but there are only {len(weights)} for "
            f"{num_layers} layers"
        )
    model = _build_meta_model(config)
    first_names, expected = _find_first_names(model), model.state_dict()
    problems = _find_weight_problems(first_names, expected, weights)
    if text := _join_first(problems):
        raise InputError(f"the weights must fit the config, but {text}")
    by_first_name = {first_names[name]: weights[name] for name in expected if name in weights}
    return {
        name: _cast(torch.float32, by_first_name[name])
        for name in dict.fromkeys(first_names.values())
    }


def _cast_weights(weights: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the weights in the given dtype, for a file.

    Raises:
        InputError: If the dtype is not supported or a weight is not finite in it.
    """
    if dtype not in _STORABLE_DTYPES:
        raise InputError(f"`dtype` must be one of {_STORABLE_DTYPES}, but is {dtype} instead")
    result = {name: _cast(dtype, weight) for name, weight in weights.items()}
    if text := _join_first(name for name, weight in result.items() if not weight.isfinite().all()):
        raise InputError(f"weights must be finite in {dtype}, but these are not: {text}")
    return result


def _find_first_names(model: Transformer) -> dict[str, str]:
    """Map all names of each weight to its first name."""
    first_names: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)  # otherwise each name has another tensor object
    return {name: first_names.setdefault(id(weight), name) for name, weight in state.items()}


def _find_weight_problems(
    first_names: Mapping[str, str], expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]
) -> Iterator[str]:
    yield from (f"{name} is not in the model" for name in weights if name not in expected)
    shared: dict[str, Tensor] = {}
    for name in expected:
        if name in weights:
            weight = weights[name]
            expected_form, form = _describe(expected[name]), _describe(weight)
            if form != expected_form:
                yield f"{name} must be {expected_form}, but is {form} instead"
            elif not _is_equal(weight, shared.setdefault(first_names[name], weight)):
                yield f"{name} must be equal to {first_names[name]}, but is different"
    # A weight may be given under any of its names.
    given = {first for name, first in first_names.items() if name in weights}
    yield from (f"{name} is missing" for name in expected if first_names[name] not in given)


def _is_equal(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b)


def _describe(weight: Tensor) -> str:
    """Return shape and number type of a weight, for an error message."""
    dtype = "floats" if weight.is_floating_point() else str(weight.dtype)
    return f"{' × '.join(map(str, weight.shape)) or 'one'} {dtype}"


def _cast(dtype: torch.dtype, weight: Tensor) -> Tensor:
    weight = weight.detach().to("cpu").contiguous()
    return weight.to(dtype) if weight.is_floating_point() else weight


def _join_first(problems: Iterable[str]) -> str:
    """Join the first three problems. With a wrong config, there is one per weight."""
    remaining = iter(problems)
    return "; ".join(islice(remaining, 3)) + ("; and so on" if any(remaining) else "")
