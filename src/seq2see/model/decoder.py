"""The decoder: target ids and a cache in, states out; a whole sentence or a step, the same code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import Tensor, nn

from seq2see.errors import InputError
from seq2see.model.cache import DecoderCache, LayerCache, Memory
from seq2see.model.embeddings import Embeddings
from seq2see.model.layers import DecoderLayer
from seq2see.model.norms import Norm
from seq2see.model.recorder import SILENCE, Recorder

# B batch, T target tokens, M features of the model


class Decoder(nn.Module):
    """Embeddings, layers, and a last norm (which does nothing in a post-norm model)."""

    layers: Sequence[DecoderLayer]

    def __init__(
        self,
        embeddings: Embeddings,
        layers: Iterable[DecoderLayer],
        norm: Norm,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = norm
        self.pad_id = pad_id

    def start(self, memory: Memory) -> DecoderCache:
        """Compute the keys and values of the memory, once for all steps."""
        layers = [
            LayerCache(layer.cross_attention.remember(memory.states_BSM)) for layer in self.layers
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
        padding_BT = self._padding(ids_BT)
        for i, (layer, layer_cache) in enumerate(zip(self.layers, cache.layers, strict=True)):
            x_BTM = layer(x_BTM, padding_BT, layer_cache, cache.memory_mask, recorder)
            recorder.layer_output("decoder", i, x_BTM)
        cache.length += ids_BT.size(1)
        return self.norm(x_BTM, padding_BT)

    def _padding(self, ids_BT: Tensor) -> Tensor:
        """Find the padding, for the sake of batch norm: attention needs none, being causal.

        The first token is never padding: some models start with that id.
        """
        padding_BT = ids_BT == self.pad_id
        padding_BT[:, 0] = False
        return padding_BT
