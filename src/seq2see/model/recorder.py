"""Recording of attention and layer outputs.

A recorder is passed as an argument and returns listeners for the modules that it records. A
recorded attention module uses the plain implementation and passes all intermediate results to the
listener; without a listener the fused implementation runs and nothing extra is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from torch import Tensor

# B batch, H heads, T queries, S keys, D features of a head, M features of the model


StackName = Literal["encoder", "decoder"]


class AttentionModuleId(NamedTuple):
    """Identifies an attention module of a model. Layers are counted from 0, bottom to top."""

    stack: StackName
    layer: int
    kind: Literal["self", "cross"]


@dataclass(frozen=True, slots=True)
class AttentionIntermediates:
    """The intermediate results of one attention module, all heads.

    Queries and keys are those that are multiplied: after the norms with `qk_norm`, the mixtures of
    keys with `linformer`. With relative positions the output is more than weights × values.
    """

    queries_BHTD: Tensor
    keys_BHSD: Tensor
    values_BHSD: Tensor
    scores_BHTS: Tensor
    """Before masking."""
    masked_BHTS: Tensor | None
    """True where a key is masked; broadcasts to the scores. None: no key is masked."""
    weights_BHTS: Tensor
    """After mask and softmax, before dropout."""


AttentionListener = Callable[[AttentionIntermediates], None]
LayerListener = Callable[[Tensor], None]


class Recorder(Protocol):
    """Selects the modules whose outputs are recorded, and receives them."""

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener | None:
        """Return the callback for this attention module, or None if it is not recorded."""

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Return the callback for the output of a layer, [B, T, M], or None."""


class NullRecorder:
    """A recorder that records nothing."""

    def attention_listener(self, site: AttentionModuleId) -> None:
        """Return None."""

    def layer_listener(self, stack: StackName, layer: int) -> None:
        """Return None."""


NULL_RECORDER = NullRecorder()


@dataclass(slots=True, eq=False)
class AttentionRecorder:
    """Keeps the attention weights of the last call of each selected module."""

    is_selected: Callable[[AttentionModuleId], bool]
    """Returns whether a module is recorded."""
    inner: Recorder = NULL_RECORDER
    """A recorder that receives everything as well."""
    weights_BHTS: dict[AttentionModuleId, Tensor] = field(default_factory=dict)

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener | None:
        """Return the listener of a selected module, or else the listener of `inner`."""
        inner_listener = self.inner.attention_listener(site)
        if not self.is_selected(site):
            return inner_listener

        def store(record: AttentionIntermediates) -> None:
            self.weights_BHTS[site] = record.weights_BHTS
            if inner_listener:
                inner_listener(record)

        return store

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener | None:
        """Return the listener of `inner`."""
        return self.inner.layer_listener(stack, layer)
