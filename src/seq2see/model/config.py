"""What a Transformer is made of, by name: every choice that the builder reads.

The defaults are `base` of the paper. A config says what may be together and what not; how a part
works is said in the part's own file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from seq2see.config import Config, deep_merge
from seq2see.errors import ConfigError

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


def _ignored(config: AttentionConfig | PositionsConfig, owners: Mapping[str, str]) -> Iterator[str]:
    """Name each field that was set although only another kind reads it."""
    for field, kind in owners.items():
        default = type(config).model_fields[field].default
        if config.kind != kind and getattr(config, field) != default:
            yield f"`{field}` must be left out with kind `{config.kind}`: only {kind} has it"


class AttentionConfig(Config):
    """How a query meets its keys."""

    kind: Literal["scaled_dot", "dot", "additive", "qk_norm", "linformer"] = "scaled_dot"
    """`scaled_dot`: q·k/√d_k, as in the paper. `dot`: q·k. `additive`: v·tanh(q + k).
    `qk_norm`: LayerNorm(q)·LayerNorm(k). `linformer`: scaled, over `rank` mixtures of the keys."""
    scale: float | None = None
    """Factor on the dot product, instead of the kind's own."""
    shared_qk: bool = False
    """One matrix makes both queries and keys."""
    bias: bool = True
    """The projections Q, K, V and O have biases."""
    max_length: int = Field(default=512, ge=1, le=2**24)
    """linformer: the longest sentence."""
    rank: int = Field(default=64, ge=1, le=2**16)
    """linformer: how many mixtures stand for all the keys."""

    def conflicts(self) -> Iterator[str]:
        """Refuse settings that the chosen kind would ignore."""
        if self.kind == "additive" and self.scale is not None:
            yield "`scale` must be left out with kind `additive`, which multiplies no q and k"
        yield from _ignored(self, {"max_length": "linformer", "rank": "linformer"})


class PositionsConfig(Config):
    """How a token knows where it stands."""

    kind: Literal["sinusoid", "learned", "relative", "none"] = "sinusoid"
    """`sinusoid` and `learned` are added to the embeddings; `relative` (Shaw et al.) works inside
    self-attention; `none` leaves the encoder blind to order."""
    layout: Literal["interleaved", "halves"] = "interleaved"
    """sinusoid: sine and cosine take turns (the paper), or fill one half of the dimensions each."""
    frequencies: Literal["paper", "tensor2tensor"] = "paper"
    """sinusoid: 10000^(-2i/d), or Tensor2Tensor's, whose last one is exactly 1/10000."""
    max_length: int = Field(default=512, ge=1, le=2**24)
    """learned: the longest sentence."""
    max_distance: int = Field(default=16, ge=1, le=2**16)
    """relative: distances beyond it count as this one."""

    def conflicts(self) -> Iterator[str]:
        """Refuse settings that the chosen kind would ignore."""
        owners = {
            "layout": "sinusoid",
            "frequencies": "sinusoid",
            "max_length": "learned",
            "max_distance": "relative",
        }
        yield from _ignored(self, owners)


class NormConfig(Config):
    """What keeps the activations in range, and where it stands."""

    kind: Literal["layer", "batch", "none"] = "layer"
    """`layer`: over the features of each token. `batch`: over all tokens but padding."""
    placement: Literal["post", "pre"] = "post"
    """`post`: norm(x + f(x)), as in the paper. `pre`: x + f(norm(x)), and a last norm on top."""
    eps: float = Field(default=1e-6, gt=0)
    """Added to the variance. Marian's models were trained with 1e-5, BERT with 1e-12."""


class EmbeddingsConfig(Config):
    """How ids become vectors, and vectors ids again."""

    tie: Literal["none", "decoder", "all"] = "all"
    """`decoder`: the decoder's table is also the output matrix. `all`: the encoder's as well."""
    scale: bool = True
    """Multiply by √d_model."""
    norm: bool = False
    """Normalise the sum of embeddings and positions, as BERT does."""
    token_types: int = Field(default=0, ge=0)
    """Kinds of token that the encoder tells apart (BERT has 2); 0 for none."""
    output_bias: bool = False
    """The output layer has a bias."""


class DropoutConfig(Config):
    """The rate at each of the four places. The paper names the first two."""

    embedding: float = Field(default=0.1, ge=0, lt=1)
    """On the sum of embeddings and positions."""
    residual: float = Field(default=0.1, ge=0, lt=1)
    """On the output of each sublayer, before it is added."""
    attention: float = Field(default=0.0, ge=0, lt=1)
    """On the attention weights."""
    activation: float = Field(default=0.0, ge=0, lt=1)
    """Behind the activation of the feed-forward network."""


class ModelConfig(Config):
    """One Transformer, whole. `ModelConfig.preset` has the usual sizes."""

    vocab_size: int = Field(ge=1, le=2**31)
    """Pieces of the source, and of the target unless `target_vocab_size` says otherwise."""
    target_vocab_size: int | None = Field(default=None, ge=1, le=2**31)
    """Pieces of the target where each side has a vocabulary of its own."""
    pad_id: int = Field(default=0, ge=0)
    """The id that fills a batch up; where the source has it, nobody looks."""
    d_model: int = Field(default=512, ge=1, le=2**16)
    """Features of a token between the sublayers."""
    heads: int = Field(default=8, ge=1)
    """Attention heads; must divide `d_model`."""
    d_ff: int = Field(default=2048, ge=1, le=2**20)
    """Features inside the feed-forward network."""
    encoder_layers: int = Field(default=6, ge=1, le=1000)
    """Layers of the encoder."""
    decoder_layers: int = Field(default=6, ge=1, le=1000)
    """Layers of the decoder."""
    activation: Activation = "relu"
    """Non-linearity of the feed-forward network; `gelu` is exact, `gelu_tanh` its approximation."""
    attention: AttentionConfig = AttentionConfig()
    """All three attentions, where the next three do not say otherwise."""
    encoder_attention: AttentionConfig | None = None
    """Self-attention of the encoder."""
    decoder_attention: AttentionConfig | None = None
    """Self-attention of the decoder."""
    cross_attention: AttentionConfig | None = None
    """Attention of the decoder to the encoder's memory."""
    positions: PositionsConfig = PositionsConfig()
    norm: NormConfig = NormConfig()
    embeddings: EmbeddingsConfig = EmbeddingsConfig()
    dropout: DropoutConfig = DropoutConfig()

    @classmethod
    def from_preset(
        cls, name: str, overrides: Mapping[str, Any] | None = None, /, **settings: Any
    ) -> ModelConfig:
        """Return a usual size by its name, with settings (the vocabulary at least) on top."""
        if name not in PRESETS:
            raise ConfigError(
                [f"`preset` must be one of {', '.join(PRESETS)}, but is {name!r} instead"]
            )
        return cls.model_validate(deep_merge(PRESETS[name], {**(overrides or {}), **settings}))

    @property
    def resolved_encoder_attention(self) -> AttentionConfig:
        """The encoder's self-attention, resolved."""
        return self.encoder_attention or self.attention

    @property
    def resolved_decoder_attention(self) -> AttentionConfig:
        """The decoder's self-attention, resolved."""
        return self.decoder_attention or self.attention

    @property
    def resolved_cross_attention(self) -> AttentionConfig:
        """The decoder's attention to the memory, resolved."""
        return self.cross_attention or self.attention

    @property
    def output_vocab_size(self) -> int:
        """Pieces of the target."""
        return self.target_vocab_size or self.vocab_size

    @property
    def max_positions(self) -> int | None:
        """The tokens of the longest sentence, where positions are learned; None: no limit."""
        return self.positions.max_length if self.positions.kind == "learned" else None

    def conflicts(self) -> Iterator[str]:
        """Refuse sizes that do not fit and choices that exclude each other."""
        if self.d_model % self.heads:
            yield f"`heads` must divide d_model = {self.d_model}, but is {self.heads} instead"
        smallest = min(self.vocab_size, self.output_vocab_size)
        if self.pad_id >= smallest:
            yield f"`pad_id` must be below {smallest}, the vocabulary, but is {self.pad_id} instead"
        if self.embeddings.tie == "all" and self.output_vocab_size != self.vocab_size:
            yield (
                "`embeddings.tie` must be none or decoder with two vocabularies "
                f"({self.vocab_size} and {self.output_vocab_size} pieces), but is all instead"
            )
        if self.positions.kind == "sinusoid" and self.d_model % 2:
            yield f"`d_model` must be even for sinusoid positions, but is {self.d_model} instead"
        yield from self._attention_conflicts()

    def _attention_conflicts(self) -> Iterator[str]:
        sites = {
            "encoder_attention": self.resolved_encoder_attention,
            "decoder_attention": self.resolved_decoder_attention,
            "cross_attention": self.resolved_cross_attention,
        }
        for site, attention in sites.items():
            if attention.kind == "linformer" and site != "encoder_attention":
                yield (
                    f"`{site}.kind` must not be linformer: it mixes positions, so a query would "
                    "see later tokens and no cache could hold; give it as `encoder_attention` alone"
                )
            added = self.positions.kind == "relative" and site != "cross_attention"
            if added and attention.kind not in {"scaled_dot", "dot"}:
                yield (
                    f"`{site}.kind` must be scaled_dot or dot with relative positions, "
                    f"which add to q·k, but is {attention.kind} instead"
                )


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ff": 1024, "heads": 4},
    "base": {},
    "big": {
        "d_model": 1024,
        "d_ff": 4096,
        "heads": 16,
        "dropout": {"embedding": 0.3, "residual": 0.3},
    },
}
"""The usual sizes; `base` and `big` are the paper's."""
