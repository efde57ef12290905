"""The decoder: target ids and a cache in, states out; a whole sentence or a step, the same code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from seq2see.errors import InputError
from seq2see.model.cache import DecoderCache, LayerCache, Memory
from seq2see.model.embeddings import Embeddings
from seq2see.model.layers import DecoderLayer
from seq2see.model.layout import Layout
from seq2see.model.masks import padding_mask
from seq2see.model.recorder import SILENCE, Recorder

# B batch, T target tokens, N tokens in a row, M features of the model


class Decoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model)."""

    layers: Sequence[DecoderLayer]

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[DecoderLayer],
        norm: nn.Module,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm
        self.pad_id = pad_id

    def start(self, memory: Memory) -> DecoderCache:
        """Compute the keys and values of the memory, once for all steps."""
        layout = Layout.without(memory.padding_BS)
        memory_NM = layout.row(memory.states_BSM)
        layers = [
            LayerCache(layer.cross_attention.remember(memory_NM, layout)) for layer in self.layers
        ]
        return DecoderCache(layers, memory.padding_BS)

    def forward(self, ids_BT: Tensor, cache: DecoderCache, recorder: Recorder = SILENCE) -> Tensor:
        """Decode the next tokens, one or many, and remember them in the cache."""
        x_BTM = self.embeddings(ids_BT, offset=cache.length)
        sources = len(cache.memory_padding_BS)
        if len(ids_BT) != sources:
            raise InputError(
                f"there must be a target for each of the {sources} sources, "
                f"but there are {len(ids_BT)} instead"
            )
        layout, memory_mask = self._layout(ids_BT), padding_mask(cache.memory_padding_BS)
        x_NM = layout.row(x_BTM)
        for i, (layer, layer_cache) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x_NM = layer(x_NM, layout, layer_cache, memory_mask, recorder)
            if listener := recorder.layer_listener("decoder", i):
                listener(layout.sentences(x_NM))
        cache.length += ids_BT.size(1)
        return layout.sentences(self.norm(x_NM))

    def _layout(self, ids_BT: Tensor) -> Layout:
        """Leave padding out while training. The first token stays: some models start with that id.

        Otherwise every place counts, so that later tokens change no bit of earlier states, not even
        by changing the shape of a product. Attention needs no padding mask, being causal.
        """
        if not self.training:
            return Layout(*ids_BT.shape)
        padding_BT = ids_BT == self.pad_id
        padding_BT[:, 0] = False
        return Layout.without(padding_BT)
