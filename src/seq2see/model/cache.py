"""The encoder output, and the cache of keys and values for incremental decoding.

The cache is passed as an argument; modules have no decoding state.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# B sources of the batch, K hypotheses per source, H heads, S keys, D features of a head,
# M features of the model


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """The encoder states of a batch of sources: the memory of the decoder."""

    states_BSM: Tensor
    padding_BS: Tensor
    """True where the source is padding; the state is zero there."""


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys and values of one attention module."""

    keys_BHSD: Tensor
    values_BHSD: Tensor

    def append(self, new: KeyValues) -> KeyValues:
        """Return these keys and values followed by the new ones."""
        return KeyValues(
            torch.cat((self.keys_BHSD, new.keys_BHSD), dim=2),
            torch.cat((self.values_BHSD, new.values_BHSD), dim=2),
        )

    def reorder(self, index: Tensor) -> KeyValues:
        """Return the rows at the indices of `index`, in its order."""
        return KeyValues(
            self.keys_BHSD.index_select(0, index), self.values_BHSD.index_select(0, index)
        )


@dataclass(frozen=True, slots=True)
class LayerCache:
    """The cache of one decoder layer: keys and values of the source and of the target so far."""

    memory: KeyValues
    past: KeyValues | None = None


@dataclass(slots=True)
class DecoderCache:
    """The cache of the decoder.

    `Transformer.init_cache` creates it, and each `Transformer.step` extends it. The hypotheses of a
    source share its keys and values; their rows are adjacent. Beam search calls `reorder` when
    hypotheses are selected, duplicated and removed.
    """

    layers: list[LayerCache]
    memory_padding_BS: Tensor
    length: int = 0
    """Number of target tokens so far."""
    beams_per_source: int = 1
    """Number of target rows for each source."""

    @property
    def num_rows(self) -> int:
        """The number of target rows."""
        return len(self.memory_padding_BS) * self.beams_per_source

    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these sources; hypothesis k of a source continues its old hypothesis parents[k].

        The same number of sources as before means all of them in the same order. Their keys and
        values are then not copied: a copy for each hypothesis at each step took a sixth of the time
        of a beam search.
        """
        index = (sources_B[:, None] * self.beams_per_source + parents_BK).flatten()
        memories = [layer.memory for layer in self.layers]
        if len(sources_B) != len(self.memory_padding_BS):
            self.memory_padding_BS = self.memory_padding_BS.index_select(0, sources_B)
            memories = [memory.reorder(sources_B) for memory in memories]
        self.layers = [
            LayerCache(memory, layer.past and layer.past.reorder(index))
            for memory, layer in zip(memories, self.layers, strict=True)
        ]
        self.beams_per_source = parents_BK.size(1)
