"""Encoder and decoder layers, and the encoder and decoder that consist of them.

The decoder uses the same code for a full target sentence and for one step. The encoder can be used
alone, for example as BERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from seq2see.errors import InputError
from seq2see.model.attention import CrossAttention, SelfAttention
from seq2see.model.basic_modules import FeedForward, Residual
from seq2see.model.cache import DecoderCache, EncoderOutput, LayerCache
from seq2see.model.embeddings import Embeddings
from seq2see.model.masks import CAUSAL_MASK, AttentionMask, BatchLayout, build_padded_key_mask
from seq2see.model.recorder import NULL_RECORDER, Recorder

# B batch, S source tokens, T target tokens, N tokens of the batch, M features of the model


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual connection."""

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        build_residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = build_residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = build_residual()

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
    ) -> Tensor:
        """Return the output of the layer, [N, M]."""

        def self_attend(h_NM: Tensor) -> Tensor:
            output_NM, _ = self.attention(h_NM, layout, mask, recorder)
            return output_NM

        x_NM = self.attention_residual(x_NM, self_attend)
        return self.feed_forward_residual(x_NM, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention and feed-forward network, each with a residual
    connection."""

    def __init__(
        self,
        attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: FeedForward,
        build_residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = build_residual()
        self.cross_attention = cross_attention
        self.cross_attention_residual = build_residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = build_residual()

    def init_cache(self, memory_NM: Tensor, layout: BatchLayout) -> LayerCache:
        """Return the cache before the first target token: keys and values of the source."""
        return LayerCache(self.cross_attention.project_memory(memory_NM, layout))

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        cache: LayerCache,
        memory_mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
    ) -> tuple[Tensor, LayerCache]:
        """Return the output of the layer, [N, M], and the cache extended by these tokens."""
        new_cache = cache

        def self_attend(h_NM: Tensor) -> Tensor:
            nonlocal new_cache
            output_NM, past = self.attention(h_NM, layout, CAUSAL_MASK, recorder, cache.past)
            new_cache = LayerCache(cache.memory, past)
            return output_NM

        def cross_attend(h_NM: Tensor) -> Tensor:
            return self.cross_attention(h_NM, cache.memory, layout, memory_mask, recorder)

        x_NM = self.attention_residual(x_NM, self_attend)
        x_NM = self.cross_attention_residual(x_NM, cross_attend)
        return self.feed_forward_residual(x_NM, self.feed_forward), new_cache


class _LayerStack(nn.Module):
    """Base class of encoder and decoder."""

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[nn.Module],
        norm: nn.Module,
        pad_id: int,
        unpad_threshold: float = 0.0,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)
        self.norm = norm
        self.pad_id = pad_id
        self.unpad_threshold = unpad_threshold


class Encoder(_LayerStack):
    """Embeddings, layers, and a final norm (the identity in a post-norm model).

    Padding is removed if its share is above `unpad_threshold`.
    """

    def forward(
        self, ids_BS: Tensor, types_BS: Tensor | None = None, recorder: Recorder = NULL_RECORDER
    ) -> EncoderOutput:
        """Encode a batch of sources that is padded with `pad_id`."""
        x_BSM = self.embeddings(ids_BS, types_BT=types_BS)
        return self.encode_embeddings(x_BSM, ids_BS == self.pad_id, recorder)

    def encode_embeddings(
        self, x_BSM: Tensor, padding_BS: Tensor, recorder: Recorder = NULL_RECORDER
    ) -> EncoderOutput:
        """Encode a batch of embedded sources; `padding_BS` is True at padding."""
        layout = BatchLayout.from_padding(padding_BS, self.unpad_threshold)
        mask = build_padded_key_mask(padding_BS)
        x_NM = layout.flatten(x_BSM)
        for i, layer in enumerate(self.layers):
            x_NM = layer(x_NM, layout, mask, recorder)
            if listener := recorder.layer_listener("encoder", i):
                listener(layout.unflatten(x_NM))
        return EncoderOutput(layout.unflatten(self.norm(x_NM)), padding_BS)


class Decoder(_LayerStack):
    """Embeddings, layers, and a final norm (the identity in a post-norm model).

    In training, padding is removed if its share is above `unpad_threshold`.
    """

    layers: Sequence[DecoderLayer]  # type: ignore[assignment]

    def init_cache(self, memory: EncoderOutput) -> DecoderCache:
        """Return a cache with the keys and values of the sources, which all steps share."""
        layout = BatchLayout.from_padding(memory.padding_BS, self.unpad_threshold)
        memory_NM = layout.flatten(memory.states_BSM)
        layers = [layer.init_cache(memory_NM, layout) for layer in self.layers]
        return DecoderCache(layers, memory.padding_BS)

    def forward(
        self, ids_BT: Tensor, cache: DecoderCache, recorder: Recorder = NULL_RECORDER
    ) -> Tensor:
        """Return the states of the next tokens, one or more, and add them to the cache.

        Raises `InputError` if the number of targets does not match the cache.
        """
        x_BTM = self.embeddings(ids_BT, offset=cache.length)
        if len(ids_BT) != cache.num_rows:
            raise InputError(
                f"there must be a target for each of the {cache.num_rows} sources, "
                f"but there are {len(ids_BT)} instead"
            )
        layout, memory_mask = self._layout(ids_BT), build_padded_key_mask(cache.memory_padding_BS)
        x_NM, new_caches = layout.flatten(x_BTM), list(cache.layers)
        for i, layer in enumerate(self.layers):
            x_NM, new_caches[i] = layer(x_NM, layout, cache.layers[i], memory_mask, recorder)
            if listener := recorder.layer_listener("decoder", i):
                listener(layout.unflatten(x_NM))
        cache.layers = new_caches  # all layers at once, also if one of them fails
        cache.length += ids_BT.size(1)
        return layout.unflatten(self.norm(x_NM))

    def _layout(self, ids_BT: Tensor) -> BatchLayout:
        """Return a layout that, in training, has no padding after the end of the sentences.

        The causal mask already excludes that padding from attention. The pad id inside a sentence
        or as its first token is an ordinary token: some models start with it. When not training, no
        padding is removed, so that later tokens cannot change the shape of a product and thereby
        the last bits of earlier states.
        """
        if not self.training:
            return BatchLayout(*ids_BT.shape)
        is_token_BT = ids_BT != self.pad_id
        is_token_BT[:, 0] = True
        last_B1 = is_token_BT.int().cumsum(1).argmax(1, keepdim=True)
        padding_BT = torch.arange(ids_BT.size(1), device=ids_BT.device) > last_B1
        return BatchLayout.from_padding(padding_BT, self.unpad_threshold)
