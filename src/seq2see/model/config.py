"""Configuration of a Transformer.

The defaults are the `base` model of the paper. The configs check which options can be combined; how
a module works is documented in the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from pydantic import Field

from seq2see.config import Config, deep_merge
from seq2see.errors import ConfigError, Problem
from seq2see.model.attention import ATTENTION_KINDS, DOT_PRODUCT_KINDS, AttentionKind
from seq2see.model.basic_modules import Activation
from seq2see.model.positional_encodings import (
    POSITIONAL_ENCODINGS,
    PositionalEncoding,
    RelativePositions,
)
from seq2see.registries import PRESETS

AttentionSetting = Literal["encoder_attention", "decoder_attention", "cross_attention"]
ATTENTION_SETTINGS: tuple[AttentionSetting, ...] = get_args(AttentionSetting)

if TYPE_CHECKING:
    AttentionKindName: TypeAlias = str
    PositionsKindName: TypeAlias = str
else:
    AttentionKindName = Literal[*ATTENTION_KINDS]
    PositionsKindName = Literal[*POSITIONAL_ENCODINGS]


def _find_ignored_settings(
    config: AttentionFunctionConfig | PositionsConfig,
    kinds: Mapping[str, AttentionKind] | Mapping[str, type[PositionalEncoding]],
) -> Iterator[Problem]:
    """Yield a problem for each setting that is set although the chosen kind ignores it."""
    for field in dict.fromkeys(field for kind in kinds.values() for field in kind.settings):
        default = type(config).model_fields[field].default
        if field not in kinds[config.kind].settings and getattr(config, field) != default:
            users = ", ".join(name for name, kind in kinds.items() if field in kind.settings)
            yield Problem(
                field, f"must be left out with kind `{config.kind}`: it belongs to {users}"
            )


class AttentionFunctionConfig(Config):
    """The attention function and its projections."""

    kind: AttentionKindName = "scaled_dot"
    """`scaled_dot`: q·k/√d_k, as in the paper. `dot`: q·k. `additive`: v·tanh(q + k).
    `qk_norm`: LayerNorm(q)·LayerNorm(k). `linformer`: scaled, over `rank` mixtures of the keys."""
    scale: float | None = None
    """Factor of the dot product. By default that of the kind."""
    shared_qk: bool = False
    """Queries and keys share one projection matrix."""
    bias: bool = True
    """The projections Q, K, V and O have biases."""
    max_length: int = Field(default=512, ge=1, le=2**24)
    """linformer: maximum number of tokens of a sentence."""
    rank: int = Field(default=64, ge=1, le=2**16)
    """linformer: number of mixtures of the keys."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each setting that the chosen kind ignores."""
        yield from _find_ignored_settings(self, ATTENTION_KINDS)


class PositionsConfig(Config):
    """The positional encoding."""

    kind: PositionsKindName = "sinusoid"
    """`sinusoid` and `learned` are added to the embeddings. `relative` (Shaw et al.) is a part of
    self-attention. `none`: the encoder does not know the order of the tokens."""
    layout: Literal["interleaved", "halves"] = "interleaved"
    """sinusoid: sines and cosines alternate (the paper), or each fills one half of the vector."""
    frequencies: Literal["paper", "tensor2tensor"] = "paper"
    """sinusoid: `paper`: 10000^(-2i/d). `tensor2tensor`: the last frequency is exactly 1/10000."""
    max_length: int = Field(default=512, ge=1, le=2**24)
    """learned: number of positions, the maximum number of tokens of a sentence."""
    max_distance: int = Field(default=16, ge=1, le=2**16)
    """relative: larger distances are treated as this one."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each setting that the chosen kind ignores."""
        yield from _find_ignored_settings(self, POSITIONAL_ENCODINGS)


class NormConfig(Config):
    """The norm of the sublayers."""

    kind: Literal["layer", "batch", "none"] = "layer"
    """`layer`: over the features of each token. `batch`: over all tokens except padding."""
    placement: Literal["post", "pre"] = "post"
    """`post`: norm(x + f(x)), as in the paper. `pre`: x + f(norm(x)), and a final norm."""
    eps: float = Field(default=1e-6, gt=0)
    """Added to the variance. Marian's models were trained with 1e-5, BERT with 1e-12."""


class EmbeddingAndOutputConfig(Config):
    """Token embeddings and output projection."""

    tie: Literal["none", "decoder", "all"] = "all"
    """`decoder`: the decoder's embedding is also the output matrix. `all`: the encoder shares it
    too."""
    scale: bool = True
    """Multiply the embeddings by √d_model."""
    norm: bool = False
    """Normalize the sum of embeddings and positions, as BERT does."""
    token_types: int = Field(default=0, ge=0)
    """Number of token types of the encoder (2 in BERT). 0 (default): none."""
    output_bias: bool = False
    """The output projection has a bias."""


class DropoutConfig(Config):
    """Dropout rates. The paper uses the first two."""

    embedding: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate of the sum of embeddings and positions."""
    residual: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate of the output of each sublayer, before it is added to the input."""
    attention: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the attention weights."""
    activation: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the activations in the feed-forward network."""


class ModelConfig(Config):
    """The complete configuration of a Transformer. `from_preset` has the usual sizes."""

    vocab_size: int = Field(ge=1, le=2**31)
    """Vocabulary size of the source, and of the target unless `target_vocab_size` is set."""
    target_vocab_size: int | None = Field(default=None, ge=1, le=2**31)
    """Vocabulary size of the target, if the two sides have separate vocabularies."""
    pad_id: int = Field(default=0, ge=0)
    """Padding id. Padding in the source is masked in attention."""
    d_model: int = Field(default=512, ge=1, le=2**16)
    """Number of features of a token between the sublayers."""
    heads: int = Field(default=8, ge=1)
    """Number of attention heads; must divide `d_model`."""
    d_ff: int = Field(default=2048, ge=1, le=2**20)
    """Number of features inside the feed-forward network."""
    encoder_layers: int = Field(default=6, ge=1, le=1000)
    """Number of encoder layers."""
    decoder_layers: int = Field(default=6, ge=1, le=1000)
    """Number of decoder layers."""
    activation: Activation = "relu"
    """Activation of the feed-forward network; `gelu` is exact, `gelu_tanh` its approximation."""
    attention: AttentionFunctionConfig = AttentionFunctionConfig()
    """Default of the next three settings."""
    encoder_attention: AttentionFunctionConfig | None = None
    """Self-attention of the encoder."""
    decoder_attention: AttentionFunctionConfig | None = None
    """Self-attention of the decoder."""
    cross_attention: AttentionFunctionConfig | None = None
    """Attention of the decoder to the encoder output."""
    positions: PositionsConfig = PositionsConfig()
    norm: NormConfig = NormConfig()
    embeddings: EmbeddingAndOutputConfig = EmbeddingAndOutputConfig()
    dropout: DropoutConfig = DropoutConfig()

    @classmethod
    def from_preset(
        cls, name: str, overrides: Mapping[str, Any] | None = None, /, **settings: Any
    ) -> ModelConfig:
        """Return the config of a preset, changed by `overrides` and `settings`.

        `vocab_size` must be among them. Raises `ConfigError` if there is no such preset.
        """
        if name not in PRESETS:
            raise ConfigError(
                Problem("preset", f"must be one of {', '.join(PRESETS)}, but is {name!r} instead")
            )
        return cls.model_validate(deep_merge(PRESETS[name], {**(overrides or {}), **settings}))

    def resolve_attention(self, site: AttentionSetting) -> AttentionFunctionConfig:
        """Return the attention of `encoder_attention` and so on, by default `attention`."""
        resolved: AttentionFunctionConfig = getattr(self, site) or self.attention
        return resolved

    @property
    def output_vocab_size(self) -> int:
        """The vocabulary size of the target."""
        return self.target_vocab_size or self.vocab_size

    @property
    def max_positions(self) -> int | None:
        """The maximum number of tokens of a sentence for the positions; None: no limit."""
        settings = POSITIONAL_ENCODINGS[self.positions.kind].settings
        return self.positions.max_length if "max_length" in settings else None

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each inconsistent size or invalid combination of options."""
        if self.d_model % self.heads:
            yield Problem(
                "heads", f"must divide d_model = {self.d_model}, but is {self.heads} instead"
            )
        smallest = min(self.vocab_size, self.output_vocab_size)
        if self.pad_id >= smallest:
            yield Problem(
                "pad_id",
                f"must be below the vocabulary size {smallest}, but is {self.pad_id} instead",
            )
        if self.embeddings.tie == "all" and self.output_vocab_size != self.vocab_size:
            yield Problem(
                "embeddings.tie",
                "must be none or decoder with vocabularies of different sizes "
                f"({self.vocab_size} and {self.output_vocab_size}), but is all instead",
            )
        encoding = POSITIONAL_ENCODINGS[self.positions.kind]
        yield from encoding.conflicts(self)
        for setting in ATTENTION_SETTINGS:
            kind = self.resolve_attention(setting).kind
            if ATTENTION_KINDS[kind].is_encoder_only and setting != "encoder_attention":
                yield Problem(
                    f"{setting}.kind",
                    f"must not be {kind}: it mixes positions, so a query would attend to later "
                    "tokens and decoding could not be cached; set it only as `encoder_attention`",
                )
            is_relative = issubclass(encoding, RelativePositions) and setting != "cross_attention"
            if is_relative and not ATTENTION_KINDS[kind].is_dot_product:
                allowed = " or ".join(DOT_PRODUCT_KINDS)
                yield Problem(
                    f"{setting}.kind",
                    f"must be {allowed} with {encoding.kind} positions, "
                    f"which are added to q·k, but is {kind} instead",
                )
