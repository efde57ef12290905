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
    AblateLayer,
    AblatePositions,
    AblateSublayer,
    Intervention,
    MaskKeys,
    ScaleScores,
    ShiftPositions,
    applies_to,
    check_interventions,
    find_ablated_heads,
    iter_attention_modules,
    selected_heads,
)
from seq2see.model import RelativeAttention, Transformer
from seq2see.model.attention import Attention, AttentionInputs, MultiHeadAttention
from seq2see.model.cache import LayerCache
from seq2see.model.embeddings import PositionalEncoding
from seq2see.model.layers import DecoderLayer
from seq2see.model.masks import AttentionMask, BatchLayout
from seq2see.model.modules import Residual, Sublayer
from seq2see.model.recorder import NULL_RECORDER, Recorder

# B batch, H heads, T queries, S keys, N tokens in a row, M features of the model

ModuleEdit = Callable[[nn.Module], nn.Module]


ModuleT = TypeVar("ModuleT", bound=nn.Module)


def replace_modules(model: ModuleT, edits: Mapping[str, ModuleEdit]) -> ModuleT:
    """Return the model with some parts exchanged, by the names of `named_modules()`.

    An edit gets the part and returns what shall stand in its place. Modules on the way are copied,
    weights never.
    """
    known = {name for name, _ in model.named_modules(remove_duplicate=False)}
    assert edits.keys() <= known, f"no such parts: {sorted(edits.keys() - known)}"
    return _rebuilt(model, "", edits)  # type: ignore[return-value]  # the root is never replaced


def _rebuilt(module: nn.Module, name: str, edits: Mapping[str, ModuleEdit]) -> nn.Module:
    below = f"{name}." if name else ""
    if not any(edit == name or edit.startswith(below) for edit in edits):
        return module
    clone = copy(module)
    children = {key: _rebuilt(m, below + key, edits) for key, m in module.named_children()}
    clone.__dict__["_modules"] = module._modules | children
    return edits[name](clone) if name in edits else clone


@dataclass(frozen=True, slots=True)
class HeadPatches:
    """What is different in the heads of one attention. By default, nothing."""

    ablated: frozenset[int] = frozenset()
    """Heads that give zeros."""
    score_scales: Mapping[int, float] = field(default_factory=dict)
    """Factors on the scores of some heads; 0 makes a head look everywhere alike."""
    masked_keys: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Keys that some heads must not look at, by their positions."""


class PatchedAttention(Attention):
    """An attention, always in its plain form, with changes in some heads.

    Without changes it is `Attention.plain` to the bit: the baseline that changes are measured from.
    A head that is off still computes its weights, which a recorder hears; nobody gets its mixture.
    """

    def __init__(self, inner: Attention, heads: int, patches: HeadPatches) -> None:
        super().__init__(inner.dropout)
        self.inner = inner
        self.heads = heads
        self.patches = patches

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Hide the keys first: some kinds mix them."""
        return self.inner.prepare_inputs(inputs._replace(mask=self._mask(inputs)))

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Scale what the kind itself gives."""
        scores_BHTS = self.inner.compute_scores(queries_BHTD, keys_BHSD)
        if not self.patches.score_scales:
            return scores_BHTS
        return scores_BHTS * self._column(self.patches.score_scales, scores_BHTS)

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Give zeros for heads that are off."""
        mixed_BHTD = self.inner.weighted_sum(weights_BHTS, values_BHSD)
        if not self.patches.ablated:
            return mixed_BHTD
        return mixed_BHTD * self._column(dict.fromkeys(self.patches.ablated, 0.0), mixed_BHTD)

    def _column(self, factors: Mapping[int, float], like: Tensor) -> Tensor:
        """Return a factor for each head, 1 where none is given, [H, 1, 1]."""
        return like.new_tensor([factors.get(h, 1.0) for h in range(self.heads)])[:, None, None]

    def _mask(self, inputs: AttentionInputs) -> AttentionMask:
        if not self.patches.masked_keys:
            return inputs.mask
        keys = inputs.keys_BHSD.size(2)
        hidden_1H1S = torch.zeros(1, self.heads, 1, keys, dtype=torch.bool)
        for head, places in self.patches.masked_keys.items():
            # The target grows: what is hidden may not be there yet.
            hidden_1H1S[0, head, 0, [place for place in places if place < keys]] = True
        return inputs.mask | AttentionMask(hidden_1H1S.to(inputs.keys_BHSD.device))


class SkippedEncoderLayer(nn.Module):
    """Gives its input on."""

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,  # noqa: ARG002
        mask: AttentionMask,  # noqa: ARG002
        recorder: Recorder = NULL_RECORDER,  # noqa: ARG002
    ) -> Tensor:
        """Return what came in."""
        return x_NM


class SkippedDecoderLayer(nn.Module):
    """Gives its input on, and remembers nothing of the target."""

    def __init__(self, inner: DecoderLayer) -> None:
        super().__init__()
        self.init_cache = inner.init_cache

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,  # noqa: ARG002
        cache: LayerCache,
        memory_mask: AttentionMask,  # noqa: ARG002
        recorder: Recorder = NULL_RECORDER,  # noqa: ARG002
    ) -> tuple[Tensor, LayerCache]:
        """Return what came in."""
        return x_NM, cache


class AblatedResidual(nn.Module):
    """A residual connection that adds nothing, though its norm stays where it was."""

    def __init__(self, inner: Residual) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Let the sublayer run, so that recorders hear it and caches grow, and drop its result."""
        return self.inner(x_NM, lambda h_NM: torch.zeros_like(sublayer(h_NM)))


class ShiftedPositions(PositionalEncoding):
    """Lets a sentence begin at another position."""

    def __init__(self, inner: PositionalEncoding, shift: int) -> None:
        super().__init__()
        self.inner = inner
        self.shift = shift

    @property
    def max_positions(self) -> int | None:
        """What is left of the positions."""
        return (
            None
            if self.inner.max_positions is None
            else max(1, self.inner.max_positions - self.shift)
        )

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return `x`, whose first token stands at position `offset` + `by`."""
        return self.inner(x_BTM, offset + self.shift)


class NoRelativePositions(nn.Module):
    """In the place of `RelativeDistances`: all distances are alike."""

    def compute_scores(self, queries_BHTD: Tensor, num_keys: int) -> Tensor:  # noqa: ARG002
        """Add nothing to the scores."""
        return queries_BHTD.new_zeros(())

    def weighted_sum(self, weights_BHTS: Tensor) -> Tensor:
        """Add nothing to the mixture."""
        return weights_BHTS.new_zeros(())


_SUBLAYERS = {"self": "attention", "cross": "cross_attention", "feed_forward": "feed_forward"}


def patch_model(model: Transformer, interventions: Sequence[Intervention]) -> Transformer:
    """Return the model with these changes; without any, the plain form of the model itself."""
    check_interventions(model, interventions)
    edits: dict[str, ModuleEdit] = {}
    for name, heads in iter_attention_modules(model):
        changes = _changes(heads, interventions)
        edits[f"{name}.attention"] = _attention_edit(heads.heads, changes)
    for intervention in interventions:
        edits |= _EDITS.get(intervention.kind, _nothing)(model, intervention)
    return replace_modules(model, edits)


def _changes(heads: MultiHeadAttention, interventions: Sequence[Intervention]) -> HeadPatches:
    """Gather all that is said of one attention; factors multiply, hidden keys add up."""
    scales: dict[int, float] = {}
    hidden: dict[int, frozenset[int]] = {}
    for each in interventions:
        if isinstance(each, ScaleScores | MaskKeys) and applies_to(each, heads.site):
            for head in selected_heads(each, heads.heads):
                if isinstance(each, ScaleScores):
                    scales[head] = scales.get(head, 1.0) * each.factor
                else:
                    hidden[head] = hidden.get(head, frozenset()).union(each.keys)
    off = frozenset(find_ablated_heads(heads.site, interventions, heads.heads))
    return HeadPatches(off, scales, hidden)


def _attention_edit(heads: int, changes: HeadPatches) -> ModuleEdit:
    def altered_attention(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, Attention)
        return PatchedAttention(inner, heads, changes)

    return altered_attention


def _skip(model: Transformer, layer: AblateLayer) -> dict[str, ModuleEdit]:  # noqa: ARG001
    def skipped(inner: nn.Module) -> nn.Module:
        if isinstance(inner, DecoderLayer):
            return SkippedDecoderLayer(inner)
        return SkippedEncoderLayer()

    return {f"{layer.stack}.layers.{layer.layer}": skipped}


def _silence(model: Transformer, off: AblateSublayer) -> dict[str, ModuleEdit]:  # noqa: ARG001
    def silenced(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, Residual)
        return AblatedResidual(inner)

    residual = f"{_SUBLAYERS[off.sublayer]}_residual"
    return {f"{off.stack}.layers.{off.layer}.{residual}": silenced}


def _unplace(model: Transformer, off: AblatePositions) -> dict[str, ModuleEdit]:
    def nothing(_: nn.Module) -> nn.Module:
        return PositionalEncoding()

    def no_distances(_: nn.Module) -> nn.Module:
        return NoRelativePositions()

    edits: dict[str, ModuleEdit] = {f"{off.stack}.embeddings.positions": nothing}
    for name, heads in iter_attention_modules(model):
        if heads.site.stack == off.stack and isinstance(heads.attention, RelativeAttention):
            edits[f"{name}.attention.distances"] = no_distances
    return edits


def _shift(model: Transformer, shift: ShiftPositions) -> dict[str, ModuleEdit]:  # noqa: ARG001
    def shifted(inner: nn.Module) -> nn.Module:
        assert isinstance(inner, PositionalEncoding)
        return ShiftedPositions(inner, shift.offset)

    return {f"{shift.stack}.embeddings.positions": shifted}


def _nothing(model: Transformer, intervention: object) -> dict[str, ModuleEdit]:  # noqa: ARG001
    return {}


_EDITS: dict[str, Callable[..., dict[str, ModuleEdit]]] = {
    "ablate_layer": _skip,
    "ablate_sublayer": _silence,
    "ablate_positions": _unplace,
    "shift_positions": _shift,
}
