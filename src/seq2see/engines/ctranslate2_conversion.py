"""Conversion of models to CTranslate2, and the cache of converted models."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.atomic_files import atomic_directory
from seq2see.bundle import Bundle
from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.model import AttentionFunctionConfig, ModelConfig, compute_sinusoids

CONVERTER_VERSION = 1
"""Must be increased when the conversion of the same model changes."""
DEFAULT_MAX_POSITIONS = 1024
"""Maximum number of tokens of a sentence if the model itself has no limit."""

Float32Array = NDArray[np.float32]

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


_ANY = None
_ATTENTION_SITES = ("encoder_attention", "decoder_attention", "cross_attention")
SUPPORTED_MODEL_SETTINGS: Mapping[str, Collection[object] | None] = {
    **dict.fromkeys(
        ("vocab_size", "target_vocab_size", "pad_id", "d_model", "heads", "d_ff"), _ANY
    ),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), _ANY),
    "activation": _ACTIVATIONS,
    **{f"{site}.kind": ("scaled_dot", "dot") for site in _ATTENTION_SITES},
    **{
        f"{site}.{field}": _ANY
        for site in _ATTENTION_SITES
        for field in ("scale", "shared_qk", "bias", "max_length", "rank")
    },
    "positions.kind": ("sinusoid", "learned", "none"),
    **{
        f"positions.{field}": _ANY
        for field in ("layout", "frequencies", "max_length", "max_distance")
    },
    "norm.kind": ("layer",),
    "norm.placement": _ANY,
    "norm.eps": _ANY,
    **{f"embeddings.{field}": _ANY for field in ("tie", "scale", "norm", "output_bias")},
    "embeddings.token_types": (0,),
    **{f"dropout.{field}": _ANY for field in ("embedding", "residual", "attention", "activation")},
}
"""The values of each setting of a model that CTranslate2 supports. A setting that is not listed
must have its default value."""


def find_ctranslate2_unsupported_features(config: ModelConfig) -> Iterator[str]:
    """Yield the settings of a model that CTranslate2 does not support, as reasons for users."""
    for setting, value, default in flatten_model_settings(config):
        allowed = SUPPORTED_MODEL_SETTINGS.get(setting, (default,))
        if allowed is not _ANY and value not in allowed:
            yield f"`{setting}` must be {' or '.join(map(str, allowed))}, but is {value}"


def flatten_model_settings(config: ModelConfig) -> Iterator[tuple[str, Any, Any]]:
    """Yield `flatten_settings` of a model, with the attention that each module really uses."""
    for setting, *rest in flatten_settings(config):
        if setting.partition(".")[0] not in {"attention", *_ATTENTION_SITES}:
            yield setting, *rest
    for site in _ATTENTION_SITES:
        for setting, *rest in flatten_settings(getattr(config, f"resolved_{site}")):
            yield f"{site}.{setting}", *rest


def flatten_settings(config: Config) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted name, the value and the default value of each setting.

    Sections that are left out by default are one setting.
    """
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(field.default, Config):
            for setting, *rest in flatten_settings(value):
                yield f"{name}.{setting}", *rest
        else:
            yield name, value, field.default


def write_ctranslate2_model(bundle: Bundle, directory: Path) -> None:
    """Write the model to `directory` in the format of CTranslate2."""
    spec = _SpecBuilder(bundle).build()
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(directory))


class _SpecBuilder:
    """Copies the weights of one model into a CTranslate2 model specification."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._config = bundle.config
        self._weights: Mapping[str, Tensor] = bundle.weights

    def build(self) -> Any:
        from ctranslate2 import specs  # type: ignore[import-untyped] # noqa: PLC0415

        config = self._config
        spec = specs.TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.heads,
            pre_norm=config.norm.placement == "pre",
            activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
            layernorm_embedding=config.embeddings.norm,
        )
        self._fill_embeddings(spec)
        for stack, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
            for number, layer in enumerate(side.layer):
                self._fill_layer(layer, f"{stack}.layers.{number}", stack)
        self._fill_config(spec)
        return spec

    def _fill_embeddings(self, spec: Any) -> None:
        source = self._array("encoder.embeddings.tokens.weight_VM")
        tie = self._config.embeddings.tie
        target = source if tie == "all" else self._array("decoder.embeddings.tokens.weight_VM")
        output = self._array("output.tokens.weight_VM") if tie == "none" else target
        spec.encoder.embeddings[0].weight = source
        spec.decoder.embeddings.weight = target
        spec.decoder.projection.weight = output
        if self._config.embeddings.output_bias:
            spec.decoder.projection.bias = self._array("output.bias_V")
        for stack, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
            side.scale_embeddings = self._config.embeddings.scale
            side.position_encodings.encodings = self._positions(stack)
            if self._config.embeddings.norm:
                self._fill_norm(side.layernorm_embedding, f"{stack}.embeddings.norm")
            if self._config.norm.placement == "pre":
                self._fill_norm(side.layer_norm, f"{stack}.norm")

    def _fill_layer(self, layer: Any, name: str, stack: str) -> None:
        config = self._config
        attention = (
            config.resolved_encoder_attention
            if stack == "encoder"
            else config.resolved_decoder_attention
        )
        self._fill_self_attention(layer.self_attention, f"{name}.attention", attention)
        self._fill_norm(layer.self_attention.layer_norm, f"{name}.attention_residual.norm")
        if stack == "decoder":
            self._fill_cross_attention(layer.attention, f"{name}.cross_attention")
            self._fill_norm(layer.attention.layer_norm, f"{name}.cross_attention_residual.norm")
        self._fill_linear(layer.ffn.linear_0, f"{name}.feed_forward.up")
        self._fill_linear(layer.ffn.linear_1, f"{name}.feed_forward.down")
        self._fill_norm(layer.ffn.layer_norm, f"{name}.feed_forward_residual.norm")

    def _fill_self_attention(
        self, part: Any, name: str, attention: AttentionFunctionConfig
    ) -> None:
        for kind in self._parameter_names(attention):
            first, *others = np.split(self._array(f"{name}.qkv.{kind}"), _num_stacked(attention))
            keys, values = [first, *others] if attention.shared_qk else others
            queries = first * self._query_factor(attention)
            setattr(part.linear[0], kind, np.concatenate((queries, keys, values)))
            setattr(part.linear[1], kind, self._array(f"{name}.output.{kind}"))

    def _fill_cross_attention(self, part: Any, name: str) -> None:
        attention = self._config.resolved_cross_attention
        for kind in self._parameter_names(attention):
            queries = self._array(f"{name}.query.{kind}")
            memory = self._array(f"{name}.key_value.{kind}")
            both = np.concatenate((queries, memory)) if attention.shared_qk else memory
            setattr(part.linear[0], kind, queries * self._query_factor(attention))
            setattr(part.linear[1], kind, both)
            setattr(part.linear[2], kind, self._array(f"{name}.output.{kind}"))

    def _query_factor(self, attention: AttentionFunctionConfig) -> np.float32:
        """Return the factor on the queries that replaces CTranslate2's fixed scale of 1/√d_head."""
        fixed = (self._config.d_model // self._config.heads) ** -0.5
        default = 1.0 if attention.kind == "dot" else fixed
        scale = default if attention.scale is None else attention.scale
        return np.float32(scale / fixed)

    def _positions(self, stack: str) -> Float32Array:
        """Return the positional encodings that are added to the embeddings.

        CTranslate2's own encodings start at position 1 and have another layout.
        """
        positions, d_model = self._config.positions, self._config.d_model
        if positions.kind == "learned":
            return self._array(f"{stack}.embeddings.positions.weight_NM")
        if positions.kind == "none":
            return np.zeros((DEFAULT_MAX_POSITIONS, d_model), np.float32)
        assert positions.kind == "sinusoid", f"{positions.kind} positions are not supported"
        sinusoids = compute_sinusoids(
            torch.arange(DEFAULT_MAX_POSITIONS), d_model, positions.layout, positions.frequencies
        )
        return sinusoids.float().numpy()

    def _fill_linear(self, part: Any, name: str) -> None:
        part.weight, part.bias = (self._array(f"{name}.{kind}") for kind in ("weight", "bias"))

    def _fill_norm(self, part: Any, name: str) -> None:
        part.gamma, part.beta = (self._array(f"{name}.{kind}") for kind in ("weight", "bias"))

    @staticmethod
    def _parameter_names(attention: AttentionFunctionConfig) -> tuple[str, ...]:
        return ("weight", "bias") if attention.bias else ("weight",)

    def _array(self, name: str) -> Float32Array:
        """Return a copy, because quantization to int8 scales the array in place."""
        return self._weights[name].numpy().copy()

    def _fill_config(self, spec: Any) -> None:
        bundle = self._bundle
        source, target = bundle.tokenizers.source, bundle.tokenizers.target
        spec.register_source_vocabulary(list(source.pieces))
        spec.register_target_vocabulary(list(target.pieces))
        unk = target.special_ids.unk
        spec.config.unk_token = target.pieces[unk if unk is not None else 0]
        spec.config.bos_token = target.pieces[bundle.special_tokens.decoder_start_id]
        spec.config.eos_token = target.pieces[bundle.special_tokens.target_eos_id]
        spec.config.decoder_start_token = target.pieces[bundle.special_tokens.decoder_start_id]
        spec.config.add_source_bos = False  # the engine adds the special tokens
        spec.config.add_source_eos = False
        spec.config.layer_norm_epsilon = bundle.config.norm.eps


def _num_stacked(attention: AttentionFunctionConfig) -> int:
    return 2 if attention.shared_qk else 3


CACHE_DIRECTORY_NAME = "ctranslate2"


class CacheNotWritableError(InputError):
    """Raised if a converted model can be written to none of the cache directories."""


def find_user_cache_directory() -> Path | None:
    """Return the cache directory of the user, or None for a user without a home directory."""
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path, "seq2see")
    try:
        return Path.home() / ".cache/seq2see"
    except RuntimeError:
        return None


def get_cached_conversion(bundle: Bundle) -> Path:
    """Return the directory of the converted model, converting the model on first use.

    The bundle must have been loaded from a model directory. The conversion is stored there, or in
    the user's cache if that is not writable. Other conversions in the model directory are outdated
    and are removed.

    Raises:
        CacheNotWritableError: If no cache directory is writable.
    """
    assert bundle.directory is not None
    # `config.json` contains the checksums of all files of the model.
    key = f"{CONVERTER_VERSION} {bundle.config_checksum}"
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    caches = [
        directory / CACHE_DIRECTORY_NAME
        for directory in (bundle.directory, find_user_cache_directory())
        if directory
    ]
    for cache in caches:
        if _is_directory(cache / name):
            return cache / name
    reasons = []
    for cache in caches:
        try:
            path = _convert_atomically(bundle, cache / name)
        except OSError as error:
            reasons.append(f"{cache} ({error.strerror or error})")
            continue
        if cache == caches[0]:
            _remove_others(cache, name)
        return path
    raise CacheNotWritableError(
        f"the converted model cannot be written to {' nor to '.join(reasons)}: "
        "set XDG_CACHE_HOME to a writable directory"
    )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # for example in the home directory of another user
        return False


def _remove_others(cache: Path, name: str) -> None:
    for other in cache.iterdir():
        if not other.name.startswith(name):
            shutil.rmtree(other, ignore_errors=True)


def _convert_atomically(bundle: Bundle, path: Path) -> Path:
    """Convert into a temporary directory and rename it when it is complete."""
    try:
        with atomic_directory(path) as directory:
            write_ctranslate2_model(bundle, directory)
    except OSError:
        if not path.is_dir():  # otherwise another process has converted the model
            raise
    return path
