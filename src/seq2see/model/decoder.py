"""The decoder: target ids and a cache in, states out; a whole sentence or a step, the same code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from seq2see.errors import InputError
from seq2see.model.cache import DecoderCache, Memory
from seq2see.model.embeddings import Embeddings
from seq2see.model.layers import DecoderLayer
from seq2see.model.layout import Layout
from seq2see.model.masks import padding_mask
from seq2see.model.recorder import SILENCE, Recorder

# B batch, T target tokens, N tokens in a row, M features of the model


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
        least_padding: float = 0.0,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm
        self.pad_id = pad_id
        self.least_padding = least_padding

    def start(self, memory: Memory) -> DecoderCache:
        """Compute the keys and values of the memory, once for all steps."""
        layout = Layout.without(memory.padding_BS, self.least_padding)
        memory_NM = layout.row(memory.states_BSM)
        layers = [layer.remember(memory_NM, layout) for layer in self.layers]
        return DecoderCache(layers, memory.padding_BS)

    def forward(self, ids_BT: Tensor, cache: DecoderCache, recorder: Recorder = SILENCE) -> Tensor:
        """Decode the next tokens, one or many, and remember them in the cache."""
        x_BTM = self.embeddings(ids_BT, offset=cache.length)
        if len(ids_BT) != cache.rows:
            raise InputError(
                f"there must be a target for each of the {cache.rows} sources, "
                f"but there are {len(ids_BT)} instead"
            )
        layout, memory_mask = self._layout(ids_BT), padding_mask(cache.memory_padding_BS)
        x_NM, new = layout.row(x_BTM), list(cache.layers)
        for i, layer in enumerate(self.layers):
            x_NM, new[i] = layer(x_NM, layout, cache.layers[i], memory_mask, recorder)
            if listener := recorder.layer_listener("decoder", i):
                listener(layout.sentences(x_NM))
        cache.extend(new, ids_BT.size(1))
        return layout.sentences(self.norm(x_NM))

    def _layout(self, ids_BT: Tensor) -> Layout:
        """Leave out, while training, the padding behind each sentence, which causality hides.

        A pad id inside a sentence, or as its first token, is a token like every other: some models
        start with it. When not training every place counts, so that later tokens change no bit of
        earlier states, not even by changing the shape of a product.
        """
        if not self.training:
            return Layout(*ids_BT.shape)
        real_BT = ids_BT != self.pad_id
        real_BT[:, 0] = True
        last_B1 = real_BT.int().cumsum(1).argmax(1, keepdim=True)
        padding_BT = torch.arange(ids_BT.size(1), device=ids_BT.device) > last_B1
        return Layout.without(padding_BT, self.least_padding)
