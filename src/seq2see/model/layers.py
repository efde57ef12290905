"""Encoder and decoder layers, and the stacks that are built from them.

The decoder uses the same code for a full target sentence and for one step. The encoder can be used
alone, for example as BERT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from seq2see.errors import InputError
from seq2see.model.attention import CrossAttention, SelfAttention
from seq2see.model.cache import DecoderCache, EncoderOutput, LayerCache
from seq2see.model.embeddings import Embeddings
from seq2see.model.masks import CAUSAL_MASK, AttentionMask, BatchLayout, build_padding_mask
from seq2see.model.modules import FeedForward, Residual
from seq2see.model.recorder import NULL_RECORDER, Recorder

# N tokens in a row, M features of the model
# B batch, S source tokens, N tokens in a row, M features of the model
# B batch, T target tokens, N tokens in a row, M features of the model


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
    ) -> Tensor:
        """Return the next layer's input."""

        def attend(h_NM: Tensor) -> Tensor:
            mixed_NM, _ = self.attention(h_NM, layout, mask, recorder)
            return mixed_NM

        x_NM = self.attention_residual(x_NM, attend)
        return self.feed_forward_residual(x_NM, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, then feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.cross_attention = cross_attention
        self.cross_attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def init_cache(self, memory_NM: Tensor, layout: BatchLayout) -> LayerCache:
        """Return the cache from which this layer starts: keys and values of the memory."""
        return LayerCache(self.cross_attention.project_memory(memory_NM, layout))

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        cache: LayerCache,
        memory_mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
    ) -> tuple[Tensor, LayerCache]:
        """Return the next layer's input, and the cache with these tokens in it."""
        new = cache

        def attend(h_NM: Tensor) -> Tensor:
            nonlocal new
            mixed_NM, past = self.attention(h_NM, layout, CAUSAL_MASK, recorder, cache.past)
            new = LayerCache(cache.memory, past)
            return mixed_NM

        def look_at_source(h_NM: Tensor) -> Tensor:
            return self.cross_attention(h_NM, cache.memory, layout, memory_mask, recorder)

        x_NM = self.attention_residual(x_NM, attend)
        x_NM = self.cross_attention_residual(x_NM, look_at_source)
        return self.feed_forward_residual(x_NM, self.feed_forward), new


class Encoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model).

    A share of padding above `least_padding` is left out.
    """

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[EncoderLayer],
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

    def forward(
        self, ids_BS: Tensor, types_BS: Tensor | None = None, recorder: Recorder = NULL_RECORDER
    ) -> EncoderOutput:
        """Encode a batch of sources, padded with the pad id."""
        x_BSM = self.embeddings(ids_BS, types_BT=types_BS)
        return self.encode_embeddings(x_BSM, ids_BS == self.pad_id, recorder)

    def encode_embeddings(
        self, x_BSM: Tensor, padding_BS: Tensor, recorder: Recorder = NULL_RECORDER
    ) -> EncoderOutput:
        """Encode what was embedded already."""
        layout, mask = (
            BatchLayout.from_padding(padding_BS, self.unpad_threshold),
            build_padding_mask(padding_BS),
        )
        x_NM = layout.flatten(x_BSM)
        for i, layer in enumerate(self.layers):
            x_NM = layer(x_NM, layout, mask, recorder)
            if listener := recorder.layer_listener("encoder", i):
                listener(layout.unflatten(x_NM))
        return EncoderOutput(layout.unflatten(self.norm(x_NM)), padding_BS)


class Decoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model).

    A share of padding above `least_padding` is left out in training.
    """

    layers: Sequence[DecoderLayer]

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[DecoderLayer],
        norm: nn.Module,
        pad_id: int,
        unpad_threshold: float = 0.0,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm
        self.pad_id = pad_id
        self.unpad_threshold = unpad_threshold

    def init_cache(self, memory: EncoderOutput) -> DecoderCache:
        """Compute the keys and values of the memory, once for all steps."""
        layout = BatchLayout.from_padding(memory.padding_BS, self.unpad_threshold)
        memory_NM = layout.flatten(memory.states_BSM)
        layers = [layer.init_cache(memory_NM, layout) for layer in self.layers]
        return DecoderCache(layers, memory.padding_BS)

    def forward(
        self, ids_BT: Tensor, cache: DecoderCache, recorder: Recorder = NULL_RECORDER
    ) -> Tensor:
        """Decode the next tokens, one or many, and remember them in the cache."""
        x_BTM = self.embeddings(ids_BT, offset=cache.length)
        if len(ids_BT) != cache.num_rows:
            raise InputError(
                f"there must be a target for each of the {cache.num_rows} sources, "
                f"but there are {len(ids_BT)} instead"
            )
        layout, memory_mask = self._layout(ids_BT), build_padding_mask(cache.memory_padding_BS)
        x_NM, new = layout.flatten(x_BTM), list(cache.layers)
        for i, layer in enumerate(self.layers):
            x_NM, new[i] = layer(x_NM, layout, cache.layers[i], memory_mask, recorder)
            if listener := recorder.layer_listener("decoder", i):
                listener(layout.unflatten(x_NM))
        cache.extend(new, ids_BT.size(1))
        return layout.unflatten(self.norm(x_NM))

    def _layout(self, ids_BT: Tensor) -> BatchLayout:
        """Leave out, while training, the padding behind each sentence, which causality hides.

        A pad id inside a sentence, or as its first token, is a token like every other: some models
        start with it. When not training every place counts, so that later tokens change no bit of
        earlier states, not even by changing the shape of a product.
        """
        if not self.training:
            return BatchLayout(*ids_BT.shape)
        real_BT = ids_BT != self.pad_id
        real_BT[:, 0] = True
        last_B1 = real_BT.int().cumsum(1).argmax(1, keepdim=True)
        padding_BT = torch.arange(ids_BT.size(1), device=ids_BT.device) > last_B1
        return BatchLayout.from_padding(padding_BT, self.unpad_threshold)
