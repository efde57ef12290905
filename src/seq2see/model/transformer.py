"""The Transformer, and the builder that creates its modules from a config."""

from __future__ import annotations

from torch import Tensor, nn

from seq2see.model.attention import (
    ATTENTION_KINDS,
    AttentionFunction,
    CrossAttention,
    RelativeAttention,
    SelfAttention,
)
from seq2see.model.basic_modules import (
    ACTIVATIONS,
    NORMS,
    Dropout,
    FeedForward,
    PostNormResidual,
    PreNormResidual,
    Residual,
)
from seq2see.model.cache import DecoderCache, EncoderOutput
from seq2see.model.config import AttentionFunctionConfig, ModelConfig
from seq2see.model.embeddings import Embeddings, OutputProjection, TokenEmbedding
from seq2see.model.layers import Decoder, DecoderLayer, Encoder, EncoderLayer
from seq2see.model.positional_encodings import (
    POSITIONAL_ENCODINGS,
    AbsolutePositions,
    RelativePositions,
)
from seq2see.model.recorder import NULL_RECORDER, AttentionModuleId, Recorder

# B batch, S source tokens, T target tokens, M features of the model, V vocabulary


class Transformer(nn.Module):
    """Encoder, decoder and output projection.

    `model(source, target)` computes logits with teacher forcing. To decode step by step:

        cache = model.init_cache(model.encode(source))
        states = model.step(first_tokens, cache)
        states = model.step(next_tokens, cache)
    """

    def __init__(self, encoder: Encoder, decoder: Decoder, output: OutputProjection) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    @classmethod
    def from_config(cls, config: ModelConfig) -> Transformer:
        """Build a model with randomly initialized weights."""
        return ModelBuilder(config).build_transformer()

    def encode(self, src_BS: Tensor, recorder: Recorder = NULL_RECORDER) -> EncoderOutput:
        """Encode a batch of sources that is padded with the pad id."""
        return self.encoder(src_BS, recorder=recorder)

    def init_cache(self, memory: EncoderOutput) -> DecoderCache:
        """Return the cache before the first decoding step."""
        return self.decoder.init_cache(memory)

    def step(
        self, tgt_BT: Tensor, cache: DecoderCache, recorder: Recorder = NULL_RECORDER
    ) -> Tensor:
        """Return the states of the next tokens, [B, T, M], and add the tokens to the cache."""
        return self.decoder(tgt_BT, cache, recorder)

    def decode(
        self, tgt_BT: Tensor, memory: EncoderOutput, recorder: Recorder = NULL_RECORDER
    ) -> Tensor:
        """Return the states of full target sentences, [B, T, M]."""
        return self.step(tgt_BT, self.init_cache(memory), recorder)

    def forward(self, src_BS: Tensor, tgt_BT: Tensor, recorder: Recorder = NULL_RECORDER) -> Tensor:
        """Return the logits of the token that follows each target token, [B, T, V]."""
        return self.output(self.decode(tgt_BT, self.encode(src_BS, recorder), recorder))


class ModelBuilder:
    """Builds the modules of a model from its config. Override a method to replace a module.

    `ModelBuilder(config).build_encoder()` builds the encoder alone.
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def build_transformer(self) -> Transformer:
        """Build the model, with token embeddings shared according to `embeddings.tie`."""
        tie = self.config.embeddings.tie
        target_size = self.config.output_vocab_size
        source = self.build_token_embedding(self.config.vocab_size)
        target = source if tie == "all" else self.build_token_embedding(target_size)
        output = self.build_token_embedding(target_size) if tie == "none" else target
        return Transformer(
            self.build_encoder(source),
            self.build_decoder(target),
            OutputProjection(output, self.config.embeddings.output_bias),
        )

    def build_encoder(self, tokens: TokenEmbedding | None = None) -> Encoder:
        """Build the encoder; by default with a new token embedding."""
        config = self.config
        num_types = config.embeddings.token_types
        return Encoder(
            self.build_embeddings(
                tokens or self.build_token_embedding(config.vocab_size),
                self.build_token_embedding(num_types) if num_types else None,
            ),
            (self.build_encoder_layer(i) for i in range(config.encoder_layers)),
            self.build_final_norm(),
            config.pad_id,
            self.unpad_threshold(),
        )

    def build_decoder(self, tokens: TokenEmbedding | None = None) -> Decoder:
        """Build the decoder; by default with a new token embedding."""
        config = self.config
        return Decoder(
            self.build_embeddings(tokens or self.build_token_embedding(config.output_vocab_size)),
            (self.build_decoder_layer(i) for i in range(config.decoder_layers)),
            self.build_final_norm(),
            config.pad_id,
            self.unpad_threshold(),
        )

    def unpad_threshold(self) -> float:
        """Return the share of padding above which it is removed.

        With batch norm, padding is always removed.
        """
        return 0.0 if self.config.norm.kind == "batch" else 1 / 16

    def build_encoder_layer(self, index: int) -> EncoderLayer:
        """Build one encoder layer."""
        attention = self.build_self_attention(
            self.config.resolve_attention("encoder_attention"),
            AttentionModuleId("encoder", index, "self"),
        )
        return EncoderLayer(attention, self.build_feed_forward(), self.build_residual)

    def build_decoder_layer(self, index: int) -> DecoderLayer:
        """Build one decoder layer."""
        config = self.config
        return DecoderLayer(
            self.build_self_attention(
                config.resolve_attention("decoder_attention"),
                AttentionModuleId("decoder", index, "self"),
            ),
            self.build_cross_attention(
                config.resolve_attention("cross_attention"),
                AttentionModuleId("decoder", index, "cross"),
            ),
            self.build_feed_forward(),
            self.build_residual,
        )

    def build_self_attention(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> SelfAttention:
        """Build the self-attention of a layer."""
        return SelfAttention(*self._attention_arguments(attention, site))

    def build_cross_attention(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> CrossAttention:
        """Build the cross-attention of a decoder layer."""
        return CrossAttention(*self._attention_arguments(attention, site))

    def _attention_arguments(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> tuple[int, int, AttentionFunction, AttentionModuleId, bool, bool]:
        """Return the arguments of `MultiHeadAttention`."""
        function = self.build_attention_function(attention, site)
        config = self.config
        return config.d_model, config.heads, function, site, attention.bias, attention.shared_qk

    def build_attention_function(
        self, attention: AttentionFunctionConfig, site: AttentionModuleId
    ) -> AttentionFunction:
        """Build the attention function of an attention module."""
        config = self.config
        kind, dropout = ATTENTION_KINDS[attention.kind], Dropout(config.dropout.attention)
        default_scale = (config.d_model // config.heads) ** -0.5 if kind.is_scaled else 1.0
        scale = default_scale if attention.scale is None else attention.scale
        encoding = POSITIONAL_ENCODINGS[config.positions.kind]
        if issubclass(encoding, RelativePositions) and site.kind == "self":
            distances = encoding.from_config(config)
            return RelativeAttention(scale, distances, dropout)
        return kind.build(config, attention, scale, dropout)

    def build_feed_forward(self) -> FeedForward:
        """Build the feed-forward network of a layer."""
        config = self.config
        activation = ACTIVATIONS[config.activation]
        dropout = Dropout(config.dropout.activation)
        return FeedForward(config.d_model, config.d_ff, activation, dropout)

    def build_residual(self) -> Residual:
        """Build a residual connection with its norm."""
        residual = PostNormResidual if self.config.norm.placement == "post" else PreNormResidual
        return residual(self.build_norm(), Dropout(self.config.dropout.residual))

    def build_final_norm(self) -> nn.Module:
        """Build the norm after the last layer; the identity if the layers end with a norm."""
        return self.build_norm() if self.config.norm.placement == "pre" else nn.Identity()

    def build_norm(self) -> nn.Module:
        """Build a norm for the tokens of a batch, [N, M]."""
        norm = self.config.norm
        return NORMS[norm.kind](self.config.d_model, eps=norm.eps)

    def build_token_embedding(self, vocab_size: int) -> TokenEmbedding:
        """Build a token embedding."""
        return TokenEmbedding(vocab_size, self.config.d_model)

    def build_embeddings(
        self, tokens: TokenEmbedding, types: TokenEmbedding | None = None
    ) -> Embeddings:
        """Build the input embeddings of the encoder or decoder."""
        config = self.config
        return Embeddings(
            tokens,
            self.build_positions(),
            Dropout(config.dropout.embedding),
            config.embeddings.scale,
            nn.LayerNorm(config.d_model, config.norm.eps)
            if config.embeddings.norm
            else nn.Identity(),
            types,
        )

    def build_positions(self) -> AbsolutePositions:
        """Build the absolute positional encoding, which adds nothing if positions are relative."""
        config = self.config
        encoding = POSITIONAL_ENCODINGS[config.positions.kind]
        if not issubclass(encoding, AbsolutePositions):
            return AbsolutePositions()
        return encoding.from_config(config)
