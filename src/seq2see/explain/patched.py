"""A model with some modules replaced: ablated heads and layers, changed masks and positions.

The patched model shares all weights with the original and does not modify it. It decodes with a
cache as the original does and can be used wherever a `Transformer` is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn

from seq2see.explain.interventions import (
    Hide,
    Intervention,
    LayerOff,
    PositionsOff,
    PositionsShift,
    Scale,
    SublayerOff,
    _attentions,
    _heads,
    _meets,
    _refuse_misfits,
    heads_off,
)
from seq2see.model import RelativeAttention, Transformer
from seq2see.model.attention import Attention, Inputs, MultiHead
from seq2see.model.cache import LayerCache
from seq2see.model.embeddings import Positions
from seq2see.model.layers import DecoderLayer
from seq2see.model.masks import Layout, Mask
from seq2see.model.modules import Residual, Sublayer
from seq2see.model.recorder import SILENCE, Recorder

# B batch, H heads, T queries, S keys, N tokens in a row, M features of the model

Edit = Callable[[nn.Module], nn.Module]


Whole = TypeVar("Whole", bound=nn.Module)


def with_parts(model: Whole, edits: Mapping[str, Edit]) -> Whole:
    """Return the model with some parts exchanged, by the names of `named_modules()`.

    An edit gets the part and returns what shall stand in its place. Modules on the way are copied,
    weights never.
    """
    known = {name for name, _ in model.named_modules(remove_duplicate=False)}
    assert edits.keys() <= known, f"no such parts: {sorted(edits.keys() - known)}"
    return _rebuilt(model, "", edits)  # type: ignore[return-value]  # nobody edits the root


def _rebuilt(module: nn.Module, name: str, edits: Mapping[str, Edit]) -> nn.Module:
    below = f"{name}." if name else ""
    if not any(edit == name or edit.startswith(below) for edit in edits):
        return module
    clone = copy(module)
    children = {key: _rebuilt(m, below + key, edits) for key, m in module.named_children()}
    clone.__dict__["_modules"] = module._modules | children
    return edits[name](clone) if name in edits else clone


@dataclass(frozen=True, slots=True)
class HeadChanges:
    """What is different in the heads of one attention. By default, nothing."""

    off: frozenset[int] = frozenset()
    """Heads that give zeros."""
    scales: Mapping[int, float] = field(default_factory=dict)
    """Factors on the scores of some heads; 0 makes a head look everywhere alike."""
    hidden: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Keys that some heads must not look at, by their positions."""


class AlteredAttention(Attention):
    """An attention, always in its plain form, with changes in some heads.

    Without changes it is `Attention.plain` to the bit: the baseline that changes are measured from.
    A head that is off still computes its weights, which a recorder hears; nobody gets its mixture.
    """

    def __init__(self, inner: Attention, heads: int, changes: HeadChanges) -> None:
        super().__init__(inner.dropout)
        self.inner = inner
        self.heads = heads
        self.changes = changes

    def prepare(self, inputs: Inputs) -> Inputs:
        """Hide the keys first: some kinds mix them."""
        return self.inner.prepare(inputs._replace(mask=self._mask(inputs)))

    def scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Scale what the kind itself gives."""
        scores_BHTS = self.inner.scores(queries_BHTD, keys_BHSD)
        if not self.changes.scales:
            return scores_BHTS
        return scores_BHTS * self._column(self.changes.scales, scores_BHTS)

    def mix(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Give zeros for heads that are off."""
        mixed_BHTD = self.inner.mix(weights_BHTS, values_BHSD)
        if not self.changes.off:
            return mixed_BHTD
        return mixed_BHTD * self._column(dict.fromkeys(self.changes.off, 0.0), mixed_BHTD)

    def _column(self, factors: Mapping[int, float], like: Tensor) -> Tensor:
        """Return a factor for each head, 1 where none is given, [H, 1, 1]."""
        return like.new_tensor([factors.get(h, 1.0) for h in range(self.heads)])[:, None, None]

    def _mask(self, inputs: Inputs) -> Mask:
        if not self.changes.hidden:
            return inputs.mask
        keys = inputs.keys_BHSD.size(2)
        hidden_1H1S = torch.zeros(1, self.heads, 1, keys, dtype=torch.bool)
        for head, places in self.changes.hidden.items():
            # The target grows: what is hidden may not be there yet.
            hidden_1H1S[0, head, 0, [place for place in places if place < keys]] = True
        return inputs.mask | Mask(hidden_1H1S.to(inputs.keys_BHSD.device))


class SkippedEncoderLayer(nn.Module):
    """Gives its input on."""

    def forward(
        self,
        x_NM: Tensor,
        layout: Layout,  # noqa: ARG002
        mask: Mask,  # noqa: ARG002
        recorder: Recorder = SILENCE,  # noqa: ARG002
    ) -> Tensor:
        """Return what came in."""
        return x_NM


class SkippedDecoderLayer(nn.Module):
    """Gives its input on, and remembers nothing of the target."""

    def __init__(self, inner: DecoderLayer) -> None:
        super().__init__()
        self.remember = inner.remember

    def forward(
        self,
        x_NM: Tensor,
        layout: Layout,  # noqa: ARG002
        cache: LayerCache,
        memory_mask: Mask,  # noqa: ARG002
        recorder: Recorder = SILENCE,  # noqa: ARG002
    ) -> tuple[Tensor, LayerCache]:
        """Return what came in."""
        return x_NM, cache


class SilencedResidual(nn.Module):
    """A residual connection that adds nothing, though its norm stays where it was."""

    def __init__(self, inner: Residual) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Let the sublayer run, so that recorders hear it and caches grow, and drop its result."""
        return self.inner(x_NM, lambda h_NM: torch.zeros_like(sublayer(h_NM)))


class ShiftedPositions(Positions):
    """Lets a sentence begin at another position."""

    def __init__(self, inner: Positions, by: int) -> None:
        super().__init__()
        self.inner = inner
        self.by = by

    @property
    def longest(self) -> int | None:
        """What is left of the positions."""
        return None if self.inner.longest is None else max(1, self.inner.longest - self.by)

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return `x`, whose first token stands at position `offset` + `by`."""
        return self.inner(x_BTM, offset + self.by)


class NoDistances(nn.Module):
    """In the place of `RelativeDistances`: all distances are alike."""

    def scores(self, queries_BHTD: Tensor, keys: int) -> Tensor:  # noqa: ARG002
        """Add nothing to the scores."""
        return queries_BHTD.new_zeros(())

    def mix(self, weights_BHTS: Tensor) -> Tensor:
        """Add nothing to the mixture."""
        return weights_BHTS.new_zeros(())


_SUBLAYERS = {"self": "attention", "cross": "cross_attention", "feed_forward": "feed_forward"}


def altered(model: Transformer, interventions: Sequence[Intervention]) -> Transformer:
    """Return the model with these changes; without any, the plain form of the model itself."""
    _refuse_misfits(model, interventions)
    edits: dict[str, Edit] = {}
    for name, heads in _attentions(model):
        changes = _changes(heads, interventions)
        edits[f"{name}.attention"] = _attention_edit(heads.heads, changes)
    for intervention in interventions:
        edits |= _EDITS.get(intervention.kind, _nothing)(model, intervention)
    return with_parts(model, edits)


def _changes(heads: MultiHead, interventions: Sequence[Intervention]) -> HeadChanges:
    """Gather all that is said of one attention; factors multiply, hidden keys add up."""
    scales: dict[int, float] = {}
    hidden: dict[int, frozenset[int]] = {}
    for each in interventions:
        if isinstance(each, Scale | Hide) and _meets(each, heads.site):
            for head in _heads(each, heads.heads):
                if isinstance(each, Scale):
                    scales[head] = scales.get(head, 1.0) * each.factor
                else:
                    hidden[head] = hidden.get(head, frozenset()).union(each.keys)
    off = frozenset(heads_off(heads.site, interventions, heads.heads))
    return HeadChanges(off, scales, hidden)


def _attention_edit(heads: int, changes: HeadChanges) -> Edit:
    def altered_attention(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, Attention)
        return AlteredAttention(inner, heads, changes)

    return altered_attention


def _skip(model: Transformer, layer: LayerOff) -> dict[str, Edit]:  # noqa: ARG001
    def skipped(inner: nn.Module) -> nn.Module:
        if isinstance(inner, DecoderLayer):
            return SkippedDecoderLayer(inner)
        return SkippedEncoderLayer()

    return {f"{layer.stack}.layers.{layer.layer}": skipped}


def _silence(model: Transformer, off: SublayerOff) -> dict[str, Edit]:  # noqa: ARG001
    def silenced(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, Residual)
        return SilencedResidual(inner)

    residual = f"{_SUBLAYERS[off.sublayer]}_residual"
    return {f"{off.stack}.layers.{off.layer}.{residual}": silenced}


def _unplace(model: Transformer, off: PositionsOff) -> dict[str, Edit]:
    def nothing(_: nn.Module) -> nn.Module:
        return Positions()

    def no_distances(_: nn.Module) -> nn.Module:
        return NoDistances()

    edits: dict[str, Edit] = {f"{off.stack}.embeddings.positions": nothing}
    for name, heads in _attentions(model):
        if heads.site.stack == off.stack and isinstance(heads.attention, RelativeAttention):
            edits[f"{name}.attention.distances"] = no_distances
    return edits


def _shift(model: Transformer, shift: PositionsShift) -> dict[str, Edit]:  # noqa: ARG001
    def shifted(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, Positions)
        return ShiftedPositions(inner, shift.by)

    return {f"{shift.stack}.embeddings.positions": shifted}


def _nothing(model: Transformer, intervention: object) -> dict[str, Edit]:  # noqa: ARG001
    return {}


_EDITS: dict[str, Callable[..., dict[str, Edit]]] = {
    "layer_off": _skip,
    "sublayer_off": _silence,
    "positions_off": _unplace,
    "positions_shift": _shift,
}
