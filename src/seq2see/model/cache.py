"""What decoding remembers from step to step. An argument, never the state of a module."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# B batch, H heads, S keys, D features of a head, M features of the model


@dataclass(frozen=True, slots=True)
class Memory:
    """What the encoder makes of a batch of sources."""

    states_BSM: Tensor
    padding_BS: Tensor
    """True where the source is padding; the state there is zero."""

    def reorder(self, index: Tensor) -> Memory:
        """Return the rows of `index`, in its order; a row may be taken often or never."""
        return Memory(
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

    def reorder(self, index: Tensor) -> LayerCache:
        """Return the rows of `index`, in its order."""
        return LayerCache(self.memory.reorder(index), self.past and self.past.reorder(index))


@dataclass(slots=True)
class DecoderCache:
    """What the decoder remembers. `Transformer.start` makes it, each `Transformer.step` extends it.

    `reorder` is what beam search needs: hypotheses change places, multiply and die.
    """

    layers: list[LayerCache]
    memory_padding_BS: Tensor
    length: int = 0
    """Target tokens seen so far."""

    def reorder(self, index: Tensor) -> None:
        """Keep the rows of `index`, in its order; a row may be taken often or never."""
        self.memory_padding_BS = self.memory_padding_BS.index_select(0, index)
        self.layers = [layer.reorder(index) for layer in self.layers]

    def extend(self, layers: list[LayerCache], tokens: int) -> None:
        """Take over what all layers remember after so many tokens more, at once or not at all."""
        self.layers = layers
        self.length += tokens
