"""Where the decoder looks in the source, heard by a recorder: for coverage and for alignment."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.model import (
    SILENCE,
    AttentionListener,
    AttentionRecord,
    LayerListener,
    ModelConfig,
    Recorder,
    Site,
    Stack,
)

# R rows, H heads, T target tokens, S source tokens


class AlignmentConfig(Config):
    """Whose attention stands for "this word comes from that one"."""

    layer: int | None = Field(default=None, ge=0)
    """A layer of the decoder, from 0. Left out, the last but one, but not the first of several: the
    last prepares the output, and the first does not know yet what it looks for."""
    heads: tuple[int, ...] | None = Field(default=None, min_length=1, strict=False)
    """Some of its heads, whose mean is taken; left out, all."""

    def resolved(self, layers: int) -> int:
        """Return the layer in a decoder of so many."""
        return max(min(1, layers - 1), layers - 2) if self.layer is None else self.layer

    def misfits(self, config: ModelConfig) -> Iterator[str]:
        """Say what a model does not have."""
        if self.resolved(config.decoder_layers) >= config.decoder_layers:
            yield f"`layer` must be below {config.decoder_layers}, but is {self.layer} instead"
        if self.heads and max(self.heads) >= config.heads:
            yield f"`heads` must be below {config.heads}, but has {max(self.heads)} instead"


class CrossEar:
    """A recorder that keeps where the decoder looked last, and lets another one hear all."""

    def __init__(self, layer: int, heads: tuple[int, ...] | None, other: Recorder = SILENCE):
        self._site = Site("decoder", layer, "cross")
        self._heads = None if heads is None else list(heads)
        self._other = other
        self.weights_RTS: Tensor | None = None

    def attention_listener(self, site: Site) -> AttentionListener | None:
        """Listen at one place, and wherever the other one does."""
        theirs = self._other.attention_listener(site)
        if site != self._site:
            return theirs

        def take(record: AttentionRecord) -> None:
            weights_RHTS = record.weights_BHTS
            if self._heads is not None:
                weights_RHTS = weights_RHTS[:, self._heads]
            self.weights_RTS = weights_RHTS.mean(1)
            if theirs:
                theirs(record)

        return take

    def layer_listener(self, stack: Stack, layer: int) -> LayerListener | None:
        """Layers are the other one's."""
        return self._other.layer_listener(stack, layer)
