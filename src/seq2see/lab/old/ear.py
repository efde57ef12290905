"""Listening to a model, silencing a head of it, and cutting the line between two words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from seq2see.model import (
    NO_MASK,
    AttentionFunction,
    AttentionIntermediates,
    AttentionListener,
    AttentionMask,
    AttentionModuleId,
    StackName,
    Transformer,
)
from seq2see.model.attention import MultiHeadAttention
from seq2see.model.layers import EncoderLayer

# B batch, H heads, T queries, S keys, N tokens in a row, M features of the model


class Ear:
    """A recorder that hears everything and keeps it; what was heard last stays."""

    def __init__(self) -> None:
        self.attention: dict[AttentionModuleId, AttentionIntermediates] = {}
        self.layers: dict[tuple[StackName, int], Tensor] = {}

    def attention_listener(
        self, site: AttentionModuleId
    ) -> Callable[[AttentionIntermediates], None]:
        """Keep the record of this attention."""

        def keep(record: AttentionIntermediates) -> None:
            self.attention[site] = record

        return keep

    def layer_listener(self, stack: StackName, layer: int) -> Callable[[Tensor], None]:
        """Keep the output of this layer."""

        def keep(states_BTM: Tensor) -> None:
            self.layers[stack, layer] = states_BTM

        return keep

    def encoder(self) -> list[AttentionIntermediates]:
        """Return what the encoder's self-attention did, layer by layer."""
        return [record for site, record in self.attention.items() if site.stack == "encoder"]


def encoder_heads(model: Transformer) -> list[MultiHeadAttention]:
    """Return the attention of each layer of the encoder."""
    return [layer.attention for layer in model.encoder.layers if isinstance(layer, EncoderLayer)]


@contextmanager
def silenced(heads: MultiHeadAttention, head: int) -> Iterator[None]:
    """Let one head add nothing: what it hands to W^O is zero."""

    def mute(module: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        del module
        size = inputs[0].size(-1) // heads.heads
        muted_NM = inputs[0].clone()
        muted_NM[:, head * size : (head + 1) * size] = 0.0
        return (muted_NM,)

    handle = heads.output.register_forward_pre_hook(mute)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def cut(places: Iterable[MultiHeadAttention], hidden: Tensor) -> Iterator[None]:
    """Let no head of these look where `hidden` is True; it broadcasts to [B, H, T, S]."""
    whole = [(heads, heads.attention) for heads in places]
    for heads, attention in whole:
        heads.attention = _Cut(attention, hidden)
    try:
        yield
    finally:
        for heads, attention in whole:
            heads.attention = attention


class _Cut(AttentionFunction):
    """Attention of another kind, behind one more mask."""

    def __init__(self, inner: AttentionFunction, hidden: Tensor) -> None:
        super().__init__(inner.dropout)
        self.inner = inner
        self.hidden = hidden

    def forward(
        self,
        queries_BHTD: Tensor,
        keys_BHSD: Tensor,
        values_BHSD: Tensor,
        mask: AttentionMask = NO_MASK,
        listener: AttentionListener | None = None,
    ) -> Tensor:
        """Attend, but not where it is cut."""
        both = mask | AttentionMask(self.hidden)
        mixed: Tensor = self.inner(queries_BHTD, keys_BHSD, values_BHSD, both, listener)
        return mixed
