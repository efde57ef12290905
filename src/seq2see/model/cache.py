"""What decoding remembers from step to step. An argument, never the state of a module."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# B batch, H heads, S keys, D features of a head, M features of the model


@dataclass(frozen=True, slots=True)
class EncoderOutput:
    """What the encoder makes of a batch of sources."""

    states_BSM: Tensor
    padding_BS: Tensor
    """True where the source is padding; the state there is zero."""

    def reorder(self, index: Tensor) -> EncoderOutput:
        """Return the rows of `index`, in its order; a row may be taken often or never."""
        return EncoderOutput(
            self.states_BSM.index_select(0, index), self.padding_BS.index_select(0, index)
        )


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Keys and values of one attention."""

    keys_BHSD: Tensor
    values_BHSD: Tensor

    def append(self, new: KeyValues) -> KeyValues:
        """Return these, and the new ones behind them."""
        return KeyValues(
            torch.cat((self.keys_BHSD, new.keys_BHSD), dim=2),
            torch.cat((self.values_BHSD, new.values_BHSD), dim=2),
        )

    def reorder(self, index: Tensor) -> KeyValues:
        """Return the rows of `index`, in its order."""
        return KeyValues(
            self.keys_BHSD.index_select(0, index), self.values_BHSD.index_select(0, index)
        )


@dataclass(frozen=True, slots=True)
class LayerCache:
    """What one decoder layer remembers: the source, and the target so far."""

    memory: KeyValues
    past: KeyValues | None = None


@dataclass(slots=True)
class DecoderCache:
    """What the decoder remembers. `Transformer.start` makes it, each `Transformer.step` extends it.

    Hypotheses of the same source share its memory: `beams` of them, in rows one behind the other.
    `follow` is what beam search needs: hypotheses change places, multiply and die.
    """

    layers: list[LayerCache]
    memory_padding_BS: Tensor
    length: int = 0
    """Target tokens seen so far."""
    beams_per_source: int = 1
    """Target rows for each source."""

    @property
    def num_rows(self) -> int:
        """How many targets there are."""
        return len(self.memory_padding_BS) * self.beams_per_source

    def reorder(self, sources_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these sources; there, hypothesis k goes on from the old one parents[k].

        As many sources as before means all of them in their order, and their memory stays where it
        is: to copy it for each hypothesis at each step took a sixth of a beam search.
        """
        index = (sources_B[:, None] * self.beams_per_source + parents_BK).flatten()
        if len(sources_B) != len(self.memory_padding_BS):
            self._keep(sources_B)
        self.layers = [
            LayerCache(layer.memory, layer.past and layer.past.reorder(index))
            for layer in self.layers
        ]
        self.beams_per_source = parents_BK.size(1)

    def select_targets(self, index: Tensor) -> None:
        """Keep the targets of `index`, in its order, each with a memory of its own; a row may be
        taken often or never."""
        self._keep(index // self.beams_per_source)
        self.layers = [
            LayerCache(layer.memory, layer.past and layer.past.reorder(index))
            for layer in self.layers
        ]
        self.beams_per_source = 1

    def _keep(self, sources: Tensor) -> None:
        self.memory_padding_BS = self.memory_padding_BS.index_select(0, sources)
        self.layers = [
            LayerCache(layer.memory.reorder(sources), layer.past) for layer in self.layers
        ]

    def extend(self, layers: list[LayerCache], num_tokens: int) -> None:
        """Take over what all layers remember after so many tokens more, at once or not at all."""
        self.layers = layers
        self.length += num_tokens
