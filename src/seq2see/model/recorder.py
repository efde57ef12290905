"""How the model is seen through: whoever listens gets what passes, and the model keeps nothing.

A recorder travels as an argument. Where it listens, attention takes its plain form and hands over
all of its steps; where nobody listens, the fused form runs and nothing is computed for show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

# B batch, H heads, T queries, S keys, D features of a head, M features of the model


StackName = Literal["encoder", "decoder"]


class AttentionSite(NamedTuple):
    """A place in the model. Layers count from 0, from the bottom."""

    stack: StackName
    layer: int
    kind: Literal["self", "cross"]


@dataclass(frozen=True, slots=True)
class AttentionRecord:
    """One attention, step by step, all heads.

    Queries and keys are those that were multiplied: behind the norms of `qk_norm`, for Linformer
    the mixtures of keys. With relative positions the output is more than weights × values.
    """

    queries_BHTD: Tensor
    keys_BHSD: Tensor
    values_BHSD: Tensor
    scores_BHTS: Tensor
    """Before the mask."""
    masked_BHTS: Tensor | None
    """Where a query must not look; broadcasts to the scores. None: it may look everywhere."""
    weights_BHTS: Tensor
    """Behind mask and softmax, before dropout."""

    @property
    def masked_scores_BHTS(self) -> Tensor:
        """The scores behind the mask, −∞ where a query must not look."""
        if self.masked_BHTS is None:
            return self.scores_BHTS
        return self.scores_BHTS.masked_fill(self.masked_BHTS, -torch.inf)


AttentionListener = Callable[[AttentionRecord], None]
LayerListener = Callable[[Tensor], None]


class Recorder(Protocol):
    """Says who listens where."""

    def attention_listener(self, site: AttentionSite) -> AttentionListener | None:
        """Return what takes the record of this attention, or None where nobody listens."""

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Return what takes a layer's output, [B, T, M], or None where nobody listens."""


class NullRecorder:
    """The recorder that listens nowhere."""

    def attention_listener(self, site: AttentionSite) -> None:
        """Nobody listens."""

    def layer_listener(self, stack: StackName, layer: int) -> None:
        """Nobody listens."""


NULL_RECORDER = NullRecorder()
