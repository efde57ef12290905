"""Conversion of models to CTranslate2, and the cache of converted models."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seq2see.atomic_files import atomic_directory, read_verified_manifest, write_manifest
from seq2see.bundle import Bundle
from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.model import (
    POSITIONAL_ENCODINGS,
    AbsolutePositions,
    CrossAttention,
    Decoder,
    DecoderLayer,
    DotProductAttention,
    Encoder,
    ModelConfig,
    MultiHeadAttention,
    SelfAttention,
)
from seq2see.model.attention import DOT_PRODUCT_KINDS
from seq2see.model.config import ATTENTION_SETTINGS
from seq2see.progress_callbacks import MessageCallback

CONVERTER_VERSION = 2
"""Must be increased when the conversion of the same model changes."""
DEFAULT_MAX_POSITIONS = 1024
"""Maximum number of tokens of a sentence if the model itself has no limit."""

_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


_ANY = None
SUPPORTED_MODEL_SETTINGS: Mapping[str, Collection[object] | None] = {
    **dict.fromkeys(
        ("vocab_size", "target_vocab_size", "pad_id", "d_model", "heads", "d_ff"), _ANY
    ),
    **dict.fromkeys(("encoder_layers", "decoder_layers"), _ANY),
    "activation": _ACTIVATIONS,
    "attention.kind": DOT_PRODUCT_KINDS,
    **dict.fromkeys(("attention.scale", "attention.shared_qk", "attention.bias"), _ANY),
    **dict.fromkeys(("attention.max_length", "attention.rank"), _ANY),
    "positions.kind": tuple(
        kind
        for kind, encoding in POSITIONAL_ENCODINGS.items()
        if issubclass(encoding, AbsolutePositions)
    ),
    **dict.fromkeys(("positions.layout", "positions.frequencies"), _ANY),
    **dict.fromkeys(("positions.max_length", "positions.max_distance"), _ANY),
    "norm.kind": ("layer",),
    **dict.fromkeys(("norm.placement", "norm.eps"), _ANY),
    **{f"embeddings.{field}": _ANY for field in ("tie", "scale", "norm", "output_bias")},
    "embeddings.token_types": (0,),
    **{f"dropout.{field}": _ANY for field in ("embedding", "residual", "attention", "activation")},
}
"""The values of each setting of a model that CTranslate2 supports. A setting that is not listed
must have its default value. Absolute positions of any kind are converted to a table of vectors."""


def find_ctranslate2_unsupported_features(config: ModelConfig) -> Iterator[str]:
    """Yield the settings of a model that CTranslate2 does not support, as reasons for users."""
    settings = [
        (setting, setting, value, default)
        for setting, value, default in flatten_settings(config)
        if setting.partition(".")[0] not in {"attention", *ATTENTION_SETTINGS}
    ]
    for site in ATTENTION_SETTINGS:
        for name, value, default in flatten_settings(config.resolve_attention(site)):
            settings.append((f"attention.{name}", f"{site}.{name}", value, default))
    for key, setting, value, default in settings:
        allowed = SUPPORTED_MODEL_SETTINGS.get(key, (default,))
        if allowed is not _ANY and value not in allowed:
            yield f"`{setting}` must be {' or '.join(map(str, allowed))}, but is {value}"


def flatten_settings(config: Config) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dotted name, the value and the default value of each setting.

    Sections that are left out by default are one setting.
    """
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        if isinstance(info.default, Config):
            for setting, *rest in flatten_settings(value):
                yield f"{name}.{setting}", *rest
        else:
            yield name, value, info.default


@torch.no_grad()
def write_ctranslate2_model(bundle: Bundle, directory: Path) -> None:
    """Write the model to `directory` in the format of CTranslate2."""
    from ctranslate2 import specs  # type: ignore[import-untyped] # noqa: PLC0415

    config, model = bundle.config, bundle.build_model()
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm.placement == "pre",
        activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
        layernorm_embedding=config.embeddings.norm,
    )
    _fill_stack(spec.encoder, model.encoder, config)
    _fill_stack(spec.decoder, model.decoder, config)
    spec.encoder.embeddings[0].weight = _array(model.encoder.embeddings.tokens.weight_VM)
    spec.decoder.embeddings.weight = _array(model.decoder.embeddings.tokens.weight_VM)
    spec.decoder.projection.weight = _array(model.output.tokens.weight_VM)
    if model.output.bias_V is not None:
        spec.decoder.projection.bias = _array(model.output.bias_V)
    _fill_vocabularies(spec, bundle)
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(directory))


def _fill_stack(spec: Any, stack: Encoder | Decoder, config: ModelConfig) -> None:
    """Copy embeddings, layers and the final norm of the encoder or decoder."""
    spec.scale_embeddings = config.embeddings.scale
    # CTranslate2's own encodings start at position 1 and have another layout.
    zeros_1TM = torch.zeros(1, config.max_positions or DEFAULT_MAX_POSITIONS, config.d_model)
    spec.position_encodings.encodings = _array(stack.embeddings.positions(zeros_1TM)[0])
    if config.embeddings.norm:
        _fill_norm(spec.layernorm_embedding, stack.embeddings.norm)
    if config.norm.placement == "pre":
        _fill_norm(spec.layer_norm, stack.norm)
    for part, layer in zip(spec.layer, stack.layers, strict=True):
        _fill_layer(part, layer)


def _fill_layer(spec: Any, layer: Any) -> None:
    _fill_self_attention(spec.self_attention, layer.attention)
    _fill_norm(spec.self_attention.layer_norm, layer.attention_residual.norm)
    if isinstance(layer, DecoderLayer):
        _fill_cross_attention(spec.attention, layer.cross_attention)
        _fill_norm(spec.attention.layer_norm, layer.cross_attention_residual.norm)
    _fill_linear(spec.ffn.linear_0, layer.feed_forward.up)
    _fill_linear(spec.ffn.linear_1, layer.feed_forward.down)
    _fill_norm(spec.ffn.layer_norm, layer.feed_forward_residual.norm)


def _fill_self_attention(spec: Any, module: SelfAttention) -> None:
    for name, parameter in module.qkv.named_parameters():
        first, *others = np.split(_array(parameter), module.qkv.num_stacked)
        keys, values = [first, *others] if module.shared_qk else others
        queries = first * _query_factor(module)
        setattr(spec.linear[0], name, np.concatenate((queries, keys, values)))
    _fill_linear(spec.linear[1], module.output)


def _fill_cross_attention(spec: Any, module: CrossAttention) -> None:
    for name, parameter in module.query.named_parameters():
        queries, memory = _array(parameter), _array(getattr(module.key_value, name))
        both = np.concatenate((queries, memory)) if module.shared_qk else memory
        setattr(spec.linear[0], name, queries * _query_factor(module))
        setattr(spec.linear[1], name, both)
    _fill_linear(spec.linear[2], module.output)


def _query_factor(module: MultiHeadAttention) -> np.float32:
    """Return the factor on the queries that replaces CTranslate2's fixed scale of 1/√d_head."""
    assert isinstance(module.attention, DotProductAttention)
    d_head = module.output.in_features // module.heads
    return np.float32(module.attention.scale / d_head**-0.5)


def _fill_linear(spec: Any, module: nn.Linear) -> None:
    for name, parameter in module.named_parameters():
        setattr(spec, name, _array(parameter))


def _fill_norm(spec: Any, module: nn.Module) -> None:
    assert isinstance(module, nn.LayerNorm)
    spec.gamma, spec.beta = _array(module.weight), _array(module.bias)


def _array(weight: Tensor) -> NDArray[np.float32]:
    """Return a copy, because quantization to int8 scales the array in place."""
    return weight.numpy().copy()


def _fill_vocabularies(spec: Any, bundle: Bundle) -> None:
    target, special_tokens = bundle.tokenizers.target, bundle.special_tokens
    spec.register_source_vocabulary(list(bundle.tokenizers.source.pieces))
    spec.register_target_vocabulary(list(target.pieces))
    spec.config.unk_token = target.pieces[target.special_ids.unk or 0]
    spec.config.bos_token = target.pieces[special_tokens.decoder_start_id]
    spec.config.eos_token = target.pieces[special_tokens.target_eos_id]
    spec.config.decoder_start_token = target.pieces[special_tokens.decoder_start_id]
    spec.config.add_source_bos = False  # the engine adds the special tokens
    spec.config.add_source_eos = False
    spec.config.layer_norm_epsilon = bundle.config.norm.eps


CACHE_DIRECTORY_NAME = "ctranslate2"


@dataclass(frozen=True, slots=True)
class CachedConversion:
    """A converted model in a cache. Its directory has a manifest."""

    directory: Path
    source: str
    """Version of the converter, and SHA-256 of the model's `config.json`, which contains the
    checksums of the weights and the tokenizers."""
    int8_chrf: dict[str, float] = field(default_factory=dict)
    """chrF of int8 with float32 as reference, per CPU model and set of probe sentences."""

    @classmethod
    def read_verified(cls, directory: Path, source: str) -> Self | None:
        """Return the conversion, or None if it is missing, damaged or of another source."""
        content = read_verified_manifest(directory)
        if content is None or content.get("source") != source:
            return None
        try:
            return cls(directory, **content)
        except TypeError:  # other names
            return None

    def write_manifest(self) -> None:
        """Write the manifest, which is the last file of a conversion."""
        write_manifest(self.directory, {"source": self.source, "int8_chrf": self.int8_chrf})


def get_cached_conversion(bundle: Bundle, on_message: MessageCallback) -> CachedConversion:
    """Return the converted model, converting the model on first use.

    The bundle must have been loaded from a model directory. The conversion is stored there, or in
    the user's cache if that is not writable. A conversion that is damaged or belongs to another
    model is replaced and reported. Other conversions in the model directory are outdated and are
    removed.

    Raises:
        InputError: If no cache directory is writable.
    """
    assert bundle.directory is not None
    source = f"{CONVERTER_VERSION} {bundle.config_checksum}"
    name = hashlib.sha256(source.encode()).hexdigest()[:16]
    parents = filter(None, (bundle.directory, find_user_cache_directory()))
    caches = [parent / CACHE_DIRECTORY_NAME for parent in parents]
    for cache in caches:
        if conversion := CachedConversion.read_verified(cache / name, source):
            return conversion
    reasons = []
    for cache in caches:
        path = cache / name
        if os.path.lexists(path):
            on_message(f"`{path}` is damaged or outdated: the model is converted again")
        try:
            conversion = _convert_atomically(bundle, path, source)
        except OSError as error:
            reasons.append(f"{cache} ({error.strerror or error})")
            continue
        for other in cache.iterdir() if cache == caches[0] else ():
            if not other.name.startswith(name):
                shutil.rmtree(other, ignore_errors=True)
        return conversion
    raise InputError(
        f"the converted model cannot be written to {' nor to '.join(reasons)}: "
        "set XDG_CACHE_HOME to a writable directory"
    )


def find_user_cache_directory() -> Path | None:
    """Return the cache directory of the user, or None for a user without a home directory."""
    if path := os.environ.get("XDG_CACHE_HOME"):
        return Path(path, "seq2see")
    try:
        return Path.home() / ".cache/seq2see"
    except RuntimeError:
        return None


def _convert_atomically(bundle: Bundle, path: Path, source: str) -> CachedConversion:
    """Convert into a temporary directory and rename it when it is complete."""
    shutil.rmtree(path, ignore_errors=True)
    try:
        with atomic_directory(path) as directory:
            write_ctranslate2_model(bundle, directory)
            CachedConversion(directory, source).write_manifest()
    except OSError:
        if conversion := CachedConversion.read_verified(path, source):
            return conversion  # another process has converted the model
        raise
    return CachedConversion(path, source)
