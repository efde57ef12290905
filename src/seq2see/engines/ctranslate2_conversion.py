"""Conversion of models to CTranslate2, and the cache of converted models."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.bundle import Bundle
from seq2see.errors import InputError
from seq2see.model import AttentionConfig, ModelConfig, compute_sinusoids

CONVERTER_VERSION = 1
"""Raise it when the same model would be converted to something else."""


DEFAULT_MAX_POSITIONS = 1024
"""Tokens of the longest sentence, where the model itself sets no limit."""


Float32Array = NDArray[np.float32]


_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}


def unsupported_features(config: ModelConfig) -> Iterator[str]:
    """Yield what ctranslate2 cannot do of a model."""
    attentions = (
        config.resolved_encoder_attention,
        config.resolved_decoder_attention,
        config.resolved_cross_attention,
    )
    for kind in dict.fromkeys(a.kind for a in attentions if a.kind not in {"scaled_dot", "dot"}):
        yield f"it has no {kind} attention"
    if config.positions.kind == "relative":
        yield "its relative positions are of another form"
    if config.norm.kind != "layer":
        yield f"it has no norm of kind {config.norm.kind}"
    if config.embeddings.token_types:
        yield "it has no token types"


def get_max_positions(config: ModelConfig) -> int:
    """Return how many tokens a sentence may have, its ends included."""
    return config.max_positions or DEFAULT_MAX_POSITIONS


def write_ctranslate2_model(bundle: Bundle, directory: Path) -> None:
    """Write the model as ctranslate2 reads it."""
    spec = _Conversion(bundle).spec()
    spec.validate()
    spec.optimize(quantization=None)
    spec.save(str(directory))


class _Conversion:
    """Fills ctranslate2's form with the weights of one model."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._config = bundle.config
        self._weights: Mapping[str, Tensor] = bundle.weights

    def spec(self) -> Any:
        from ctranslate2 import specs  # type: ignore[import-untyped] # noqa: PLC0415

        config = self._config
        spec = specs.TransformerSpec.from_config(
            (config.encoder_layers, config.decoder_layers),
            config.heads,
            pre_norm=config.norm.placement == "pre",
            activation=getattr(specs.Activation, _ACTIVATIONS[config.activation]),
            layernorm_embedding=config.embeddings.norm,
        )
        self._fill_tables(spec)
        for stack, side in (("encoder", spec.encoder), ("decoder", spec.decoder)):
            for number, layer in enumerate(side.layer):
                self._fill_layer(layer, f"{stack}.layers.{number}", stack)
        self._describe(spec)
        return spec

    def _fill_tables(self, spec: Any) -> None:
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

    def _fill_self_attention(self, part: Any, name: str, attention: AttentionConfig) -> None:
        for kind in self._kinds(attention):
            first, *others = np.split(self._array(f"{name}.qkv.{kind}"), _blocks(attention))
            keys, values = [first, *others] if attention.shared_qk else others
            queries = first * self._query_factor(attention)
            setattr(part.linear[0], kind, np.concatenate((queries, keys, values)))
            setattr(part.linear[1], kind, self._array(f"{name}.output.{kind}"))

    def _fill_cross_attention(self, part: Any, name: str) -> None:
        attention = self._config.resolved_cross_attention
        for kind in self._kinds(attention):
            queries = self._array(f"{name}.query.{kind}")
            memory = self._array(f"{name}.key_value.{kind}")
            both = np.concatenate((queries, memory)) if attention.shared_qk else memory
            setattr(part.linear[0], kind, queries * self._query_factor(attention))
            setattr(part.linear[1], kind, both)
            setattr(part.linear[2], kind, self._array(f"{name}.output.{kind}"))

    def _query_factor(self, attention: AttentionConfig) -> np.float32:
        """Return what makes of its scale, which is 1/√d of a head, the one of this attention."""
        usual = (self._config.d_model // self._config.heads) ** -0.5
        own = 1.0 if attention.kind == "dot" else usual
        scale = own if attention.scale is None else attention.scale
        return np.float32(scale / usual)

    def _positions(self, stack: str) -> Float32Array:
        """Return the table as it is added: its own starts at 1 and has another layout."""
        positions, d_model = self._config.positions, self._config.d_model
        if positions.kind == "learned":
            return self._array(f"{stack}.embeddings.positions.weight_NM")
        if positions.kind == "none":
            return np.zeros((DEFAULT_MAX_POSITIONS, d_model), np.float32)
        waves = compute_sinusoids(
            torch.arange(DEFAULT_MAX_POSITIONS), d_model, positions.layout, positions.frequencies
        )
        return waves.float().numpy()

    def _fill_linear(self, part: Any, name: str) -> None:
        part.weight, part.bias = (self._array(f"{name}.{kind}") for kind in ("weight", "bias"))

    def _fill_norm(self, part: Any, name: str) -> None:
        part.gamma, part.beta = (self._array(f"{name}.{kind}") for kind in ("weight", "bias"))

    @staticmethod
    def _kinds(attention: AttentionConfig) -> tuple[str, ...]:
        return ("weight", "bias") if attention.bias else ("weight",)

    def _array(self, name: str) -> Float32Array:
        """Return a copy: to make int8 of it would scale the caller's own."""
        return self._weights[name].numpy().copy()

    def _describe(self, spec: Any) -> None:
        bundle = self._bundle
        source, target = bundle.tokenizers.source, bundle.tokenizers.target
        spec.register_source_vocabulary(list(source.pieces))
        spec.register_target_vocabulary(list(target.pieces))
        unknown = target.special_ids.unk
        spec.config.unk_token = target.pieces[unknown if unknown is not None else 0]
        spec.config.bos_token = target.pieces[bundle.special_tokens.decoder_start_id]
        spec.config.eos_token = target.pieces[bundle.special_tokens.target_eos_id]
        spec.config.decoder_start_token = target.pieces[bundle.special_tokens.decoder_start_id]
        spec.config.add_source_bos = False  # sources come with their ends
        spec.config.add_source_eos = False
        spec.config.layer_norm_epsilon = bundle.config.norm.eps


def _blocks(attention: AttentionConfig) -> int:
    return 2 if attention.shared_qk else 3


CACHE_DIRECTORY_NAME = "ctranslate2"


def compute_conversion_key(config_json: bytes, version: int) -> str:
    """Return the name of a conversion: of these bytes of `config.json`, which has the checksums of
    all that belongs to the model, by this number of the converter."""
    return hashlib.sha256(b"%d " % version + config_json).hexdigest()[:16]


class CacheNotWritableError(InputError):
    """A conversion that can be kept nowhere."""


def find_user_cache_directory() -> Path | None:
    """Return where this user keeps what can be made again; a user without a home has no such."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named, "seq2see")
    try:
        return Path.home() / ".cache/seq2see"
    except RuntimeError:
        return None


def get_cached_conversion(
    model_directory: Path, name: str, convert: Callable[[Path], None]
) -> Path:
    """Return the directory of this name, made anew where there is none; others beside are stale."""
    places = [
        folder / CACHE_DIRECTORY_NAME
        for folder in (model_directory, find_user_cache_directory())
        if folder
    ]
    for place in places:
        if _is_there(place / name):
            return place / name
    reasons = []
    for place in places:
        try:
            path = _made(place, name, convert)
        except OSError as error:
            reasons.append(f"{place} ({error.strerror or error})")
            continue
        if place == places[0]:
            _remove_others(place, name)
        return path
    raise CacheNotWritableError(
        f"its copy of the model cannot be written to {' nor to '.join(reasons)}: "
        "let XDG_CACHE_HOME name a folder that can be written"
    )


def _is_there(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:  # in the home of another, say
        return False


def _remove_others(place: Path, name: str) -> None:
    for other in place.iterdir():
        if not other.name.startswith(name):
            shutil.rmtree(other, ignore_errors=True)


def _made(place: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Make it aside and rename it: whoever comes meanwhile finds it whole or not at all."""
    place.mkdir(parents=True, exist_ok=True)
    aside = Path(mkdtemp(prefix=f"{name}.partial-", dir=place))
    try:
        make(aside)
        aside.chmod(0o755)
        aside.rename(place / name)
    except OSError:
        if not (place / name).is_dir():  # nobody was faster
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return place / name
