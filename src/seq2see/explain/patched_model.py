"""A model with some modules replaced: ablated heads and layers, changed masks and positions.

The patched model shares all weights with the original and does not modify it. It decodes with a
cache as the original does and can be used wherever a `Transformer` is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from seq2see.errors import ConfigError
from seq2see.explain.intervention_types import (
    AblateLayer,
    AblatePositions,
    AblateSublayer,
    HeadChanges,
    Intervention,
    ShiftPositions,
    collect_head_changes,
    find_intervention_problems,
    named_attention_modules,
)
from seq2see.model import (
    AbsolutePositions,
    RelativeAttention,
    RelativePositions,
    Transformer,
)
from seq2see.model.attention import AttentionFunction, AttentionInputs
from seq2see.model.basic_modules import Residual, Sublayer
from seq2see.model.cache import LayerCache
from seq2see.model.layers import DecoderLayer
from seq2see.model.masks import AttentionMask, BatchLayout

# B batch, H heads, T queries, S keys, N tokens of a flat batch, M features of the model

ModuleEdit = tuple[str, Callable[[Any], nn.Module]]
"""The name of a module in `named_modules()`, and a function that returns its replacement."""
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_SUBLAYERS = {"self": "attention", "cross": "cross_attention", "feed_forward": "feed_forward"}
"""Attribute names of sublayers."""


def copy_model_with_interventions(
    model: Transformer, interventions: Sequence[Intervention]
) -> Transformer:
    """Return a copy of the model with interventions; it shares the weights of the original.

    Attention of the patched model always runs in its plain, unfused form, so that
    `copy_model_with_interventions(model, [])` is the baseline for interventions, bit for bit.

    Raises:
        ConfigError: If the model does not have a layer or head of an intervention.
    """
    if problems := list(find_intervention_problems(model, interventions)):
        raise ConfigError(*problems)
    edits: list[ModuleEdit] = []
    for name, module in named_attention_modules(model):
        changes = collect_head_changes(module, interventions)
        change = partial(AttentionWithChangedHeads, heads=module.heads, changes=changes)
        edits.append((f"{name}.attention", change))
    for each in interventions:
        edits += _list_edits(model, each)
    return copy_with_replaced_modules(model, edits)


def copy_with_replaced_modules(model: ModuleT, edits: Iterable[ModuleEdit]) -> ModuleT:
    """Return a copy of the model with some modules replaced; weights are not copied.

    Inner modules are replaced before those that contain them.
    """
    clone = deepcopy(model, {id(x): x for x in (*model.parameters(), *model.buffers())})
    for name, replace_module in sorted(edits, key=lambda edit: -edit[0].count(".")):
        clone.set_submodule(name, replace_module(clone.get_submodule(name)), strict=True)
    return clone


class AttentionWithChangedHeads(AttentionFunction):
    """Attention with changed heads, always in its plain form.

    Without changes the result equals `AttentionFunction.plain_forward` bit for bit. An ablated head
    still computes its weights, so that they can be recorded; only its output is zero.
    """

    def __init__(self, inner: AttentionFunction, heads: int, changes: HeadChanges) -> None:
        super().__init__(inner.dropout)
        self.inner = inner
        self.heads = heads
        self.changes = changes

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Mask keys before the inner preparation, which may project them."""
        return self.inner.prepare_inputs(inputs._replace(mask=self._extend_mask(inputs)))

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return the scores, scaled per head."""
        scores_BHTS = self.inner.compute_scores(queries_BHTD, keys_BHSD)
        return scores_BHTS * self._factors_H11(self.changes.score_scales, scores_BHTS)

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the outputs of the heads; zeros for ablated heads."""
        output_BHTD = self.inner.weighted_sum(weights_BHTS, values_BHSD)
        factors = dict.fromkeys(self.changes.ablated, 0.0)
        return output_BHTD * self._factors_H11(factors, output_BHTD)

    def _factors_H11(self, factors: Mapping[int, float], like: Tensor) -> Tensor:
        """Return one factor per head, 1 by default."""
        return like.new_tensor([factors.get(h, 1.0) for h in range(self.heads)])[:, None, None]

    def _extend_mask(self, inputs: AttentionInputs) -> AttentionMask:
        if not self.changes.masked_keys:
            return inputs.mask
        num_keys = inputs.keys_BHSD.size(2)
        masked_1H1S = torch.zeros(1, self.heads, 1, num_keys, dtype=torch.bool)
        for head, keys in self.changes.masked_keys.items():
            # While the target grows, some of the keys do not exist yet.
            masked_1H1S[0, head, 0, [key for key in keys if key < num_keys]] = True
        return inputs.mask | AttentionMask(masked_1H1S.to(inputs.keys_BHSD.device))


class SkippedEncoderLayer(nn.Module):
    """An encoder layer that returns its input."""

    def __init__(self, _: nn.Module) -> None:
        super().__init__()

    def forward(self, x_NM: Tensor, *_: object) -> Tensor:
        """Return the input."""
        return x_NM


class SkippedDecoderLayer(nn.Module):
    """A decoder layer that returns its input and does not extend its cache."""

    def __init__(self, inner: DecoderLayer | SkippedDecoderLayer) -> None:
        super().__init__()
        self.init_cache: Callable[..., LayerCache] = inner.init_cache

    def forward(
        self, x_NM: Tensor, _: BatchLayout, cache: LayerCache, *__: object
    ) -> tuple[Tensor, LayerCache]:
        """Return the input and the unchanged cache."""
        return x_NM, cache


class AblatedResidual(nn.Module):
    """A residual connection that adds zero; its norm is still applied."""

    def __init__(self, inner: Residual) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Run the sublayer, for recorders and caches, and replace its output by zeros."""
        return self.inner(x_NM, lambda h_NM: torch.zeros_like(sublayer(h_NM)))


class ShiftedPositionalEncoding(AbsolutePositions):
    """Positional encodings that start at a later position."""

    def __init__(self, inner: AbsolutePositions, shift: int) -> None:
        super().__init__()
        self.inner = inner
        self.shift = shift

    @property
    def max_positions(self) -> int | None:
        """Number of positions after the shift; None for no limit."""
        if self.inner.max_positions is None:
            return None
        return max(1, self.inner.max_positions - self.shift)

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return `x` with positions; its first token has position `offset + shift`."""
        return self.inner(x_BTM, offset + self.shift)


def _list_edits(model: Transformer, intervention: Intervention) -> Iterator[ModuleEdit]:
    """Yield the names of the modules that an intervention replaces, and their replacements.

    Changes of heads are not included; see `collect_head_changes`.
    """
    match intervention:
        case AblateLayer(stack=stack, layer=layer):
            skipped = {"encoder": SkippedEncoderLayer, "decoder": SkippedDecoderLayer}[stack]
            yield f"{stack}.layers.{layer}", skipped
        case AblateSublayer(stack=stack, layer=layer, sublayer=sublayer):
            yield f"{stack}.layers.{layer}.{_SUBLAYERS[sublayer]}_residual", AblatedResidual
        case ShiftPositions(stack=stack, offset=offset):
            shift = partial(ShiftedPositionalEncoding, shift=offset)
            yield f"{stack}.embeddings.positions", shift
        case AblatePositions(stack=stack):
            yield f"{stack}.embeddings.positions", lambda _: AbsolutePositions()
            for name, module in named_attention_modules(model):
                is_relative = isinstance(module.attention, RelativeAttention)
                if module.site.stack == stack and is_relative:
                    yield f"{name}.attention.distances", lambda _: RelativePositions()
