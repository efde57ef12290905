"""Interventions: their types, their syntax on the command line, and models that they patch.

A patched model shares all weights with the original and does not modify it. It decodes with a cache
as the original does and can be used wherever a `Transformer` is accepted.

On the command line, an address such as `decoder.1.cross.3` names a head:

ablate              decoder.1.cross.3 (a head), decoder.1.cross or decoder.1.feed_forward (a
                    sublayer), decoder.1 (a layer), decoder.positions
scale_scores        decoder.1.cross.3=0.5; without a head: all heads
mask_keys           decoder.cross=4,5 (all layers), decoder.1.cross=4,5, decoder.1.cross.3=4,5
shift_positions     encoder=5
force_continuation  3=elle (after three words)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, cast

import torch
from pydantic import Field
from torch import Tensor, nn

from seq2see.config import Config
from seq2see.errors import ConfigError, Problem
from seq2see.model import (
    AbsolutePositions,
    AttentionFunction,
    AttentionMask,
    BatchLayout,
    MultiHeadAttention,
    RelativeAttention,
    RelativePositions,
    StackName,
    Transformer,
)
from seq2see.model.attention import AttentionInputs
from seq2see.model.basic_modules import Residual, Sublayer
from seq2see.model.cache import LayerCache
from seq2see.model.layers import DecoderLayer

# B batch, H heads, T queries, S keys, N tokens of a flat batch, M features of the model

AttentionKind = Literal["self", "cross"]
Index = Annotated[int, Field(ge=0)]
Indices = Annotated[tuple[Index, ...], Field(min_length=1, strict=False)]
ModuleEdit = tuple[str, Callable[[Any], nn.Module]]
"""The name of a module in `named_modules()`, and a function that returns its replacement."""
ModuleT = TypeVar("ModuleT", bound=nn.Module)

_SUBLAYERS = {"self": "attention", "cross": "cross_attention", "feed_forward": "feed_forward"}
"""Attribute names of sublayers."""


class HeadIntervention(Config):
    """Base class of changes of the heads of attention modules."""

    kind: str
    stack: StackName
    layer: Index | None
    attention: AttentionKind
    heads: Indices | None = None
    """Indices of heads; None for all heads."""


class AblateHeads(HeadIntervention):
    """Set the output of heads to zero."""

    kind: Literal["ablate_heads"] = "ablate_heads"
    layer: Index


class AblateSublayer(Config):
    """Set the output of a sublayer to zero; the norm of its residual connection stays."""

    kind: Literal["ablate_sublayer"] = "ablate_sublayer"
    stack: StackName
    layer: Index
    sublayer: Literal["self", "cross", "feed_forward"]


class AblateLayer(Config):
    """Skip a layer: its output is its input."""

    kind: Literal["ablate_layer"] = "ablate_layer"
    stack: StackName
    layer: Index


class ScaleAttentionScores(HeadIntervention):
    """Multiply attention scores before the softmax: with 0 the weights are uniform."""

    kind: Literal["scale_scores"] = "scale_scores"
    layer: Index
    factor: float


class MaskKeys(HeadIntervention):
    """Mask key positions in attention."""

    kind: Literal["mask_keys"] = "mask_keys"
    layer: Index | None = None
    """Index of the layer; None for all layers."""
    keys: Indices
    """Positions of masked keys."""


class AblatePositions(Config):
    """Remove the positions of a stack; the causal mask stays."""

    kind: Literal["ablate_positions"] = "ablate_positions"
    stack: StackName


class ShiftPositions(Config):
    """Add an offset to the positions of a stack. It has no effect on relative positions."""

    kind: Literal["shift_positions"] = "shift_positions"
    stack: StackName
    offset: Annotated[int, Field(ge=0, le=10_000)]
    """Offset in tokens. The vectors of all positions up to the offset are computed."""


class ForceContinuation(Config):
    """Keep the first words of the translation, continue with a text, and then search freely.

    It does not change the model; see `seq2see.explain.tracing.trace_translation`.
    """

    kind: Literal["force_continuation"] = "force_continuation"
    num_prefix_words: Index
    """Number of words to keep."""
    text: str = Field(min_length=1)


Intervention = Annotated[
    AblateHeads
    | AblateSublayer
    | AblateLayer
    | ScaleAttentionScores
    | MaskKeys
    | AblatePositions
    | ShiftPositions
    | ForceContinuation,
    Field(discriminator="kind"),
]


def list_head_ablations(model: Transformer) -> list[AblateHeads]:
    """Return one ablation for each head of the model, from the first layer to the last."""
    return [
        AblateHeads(
            stack=module.site.stack,
            layer=module.site.layer,
            attention=module.site.kind,
            heads=(head,),
        )
        for _, module in named_attention_modules(model)
        for head in range(module.heads)
    ]


@dataclass(frozen=True, slots=True)
class HeadChanges:
    """Changes of the heads of one attention module; none by default."""

    ablated: set[int] = field(default_factory=set)
    """Heads whose output is zero."""
    score_scales: dict[int, float] = field(default_factory=dict)
    """Factors on the scores, by head; with 0 the weights are uniform."""
    masked_keys: dict[int, set[int]] = field(default_factory=dict)
    """Positions of masked keys, by head."""


def collect_head_changes(
    module: MultiHeadAttention, interventions: Iterable[Intervention]
) -> HeadChanges:
    """Combine all interventions on one module: factors are multiplied, masked keys united.

    All heads are ablated if the sublayer is.
    """
    changes, all_heads = HeadChanges(), range(module.heads)
    for each in interventions:
        if isinstance(each, AblateSublayer):
            if (each.stack, each.layer, each.sublayer) == module.site:
                changes.ablated.update(all_heads)
        elif isinstance(each, HeadIntervention):
            layer = module.site.layer if each.layer is None else each.layer
            if (each.stack, layer, each.attention) != module.site:
                continue
            for head in all_heads if each.heads is None else each.heads:
                match each:
                    case AblateHeads():
                        changes.ablated.add(head)
                    case ScaleAttentionScores(factor=factor):
                        scale = changes.score_scales.get(head, 1.0)
                        changes.score_scales[head] = scale * factor
                    case MaskKeys(keys=keys):
                        changes.masked_keys.setdefault(head, set()).update(keys)
    return changes


def named_attention_modules(model: Transformer) -> Iterator[tuple[str, MultiHeadAttention]]:
    """Yield the name and the module of each attention."""
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            yield name, module


def find_intervention_problems(
    model: Transformer, interventions: Sequence[Intervention], num_source_tokens: int | None = None
) -> Iterator[Problem]:
    """Yield a problem if the model or the source does not have what an intervention changes.

    The fields start with the index of the intervention: `interventions.0.layer`. Keys of the
    decoder's self-attention are not checked: the length of the target is unknown.
    """
    for index, each in enumerate(interventions):
        for problem in _find_problems(model, each, num_source_tokens):
            yield problem.with_prefix(f"interventions.{index}")


def _find_problems(
    model: Transformer, intervention: Intervention, num_source_tokens: int | None
) -> Iterator[Problem]:
    if isinstance(intervention, ForceContinuation):
        return
    stack = intervention.stack
    num_layers = len(getattr(model, stack).layers)
    num_heads = next(module.heads for _, module in named_attention_modules(model))
    layer = getattr(intervention, "layer", None)
    if layer is not None and layer >= num_layers:
        yield Problem(
            "layer", f"must be from 0 to {num_layers - 1} in the {stack}, but is {layer} instead"
        )
    max_head = max(getattr(intervention, "heads", None) or (0,))
    if max_head >= num_heads:
        yield Problem("heads", f"must be from 0 to {num_heads - 1}, but has {max_head} instead")
    for name in ("attention", "sublayer"):
        if stack == "encoder" and getattr(intervention, name, None) == "cross":
            yield Problem(name, "must be self in the encoder, but is cross instead")
    if not isinstance(intervention, MaskKeys) or num_source_tokens is None:
        return
    max_key = max(intervention.keys)
    is_source = (stack, intervention.attention) != ("decoder", "self")
    if is_source and max_key >= num_source_tokens:
        yield Problem(
            "keys",
            f"must be below {num_source_tokens}, the number of tokens of the sentence, "
            f"but has {max_key} instead",
        )


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


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_STACK = r"(?P<stack>encoder|decoder)"
_LAYER = r"\.(?P<layer>\d+)"
_ATTENTION = r"\.(?P<attention>self|cross)"
_HEAD = r"(?:\.(?P<heads>\d+))"
_SYNTAX: dict[str, tuple[str, dict[type[Config], str]]] = {
    "ablate": (
        "an address such as decoder.1.cross.3, decoder.1.cross, decoder.1 or decoder.positions",
        {
            AblatePositions: rf"{_STACK}\.positions",
            AblateLayer: f"{_STACK}{_LAYER}",
            AblateHeads: f"{_STACK}{_LAYER}{_ATTENTION}{_HEAD}",
            AblateSublayer: rf"{_STACK}{_LAYER}\.(?P<sublayer>self|cross|feed_forward)",
        },
    ),
    "scale_scores": (
        "ADDRESS=NUMBER, such as decoder.1.cross.3=0.5 or decoder.1.cross=0.5",
        {ScaleAttentionScores: rf"{_STACK}{_LAYER}{_ATTENTION}{_HEAD}?=(?P<factor>{_NUMBER})"},
    ),
    "mask_keys": (
        "ADDRESS=POSITIONS, such as decoder.cross=4,5 or decoder.1.cross.3=4,5",
        {MaskKeys: rf"{_STACK}(?:{_LAYER})?{_ATTENTION}{_HEAD}?=(?P<keys>\d+(?:,\d+)*)"},
    ),
    "shift_positions": (
        "STACK=NUMBER, such as encoder=5",
        {ShiftPositions: rf"{_STACK}=(?P<offset>\d+)"},
    ),
    "force_continuation": (
        "NUMBER_OF_WORDS=TEXT, such as 3=elle",
        {ForceContinuation: r"(?P<num_prefix_words>\d+)=(?P<text>(?s:.+))"},
    ),
}
"""By field of the command: a description of the syntax, and a pattern for each type."""
_CONVERT: dict[str, Callable[[str], object]] = {
    "layer": int,
    "heads": lambda text: (int(text),),
    "keys": lambda text: tuple(map(int, text.split(","))),
    "factor": float,
    "offset": int,
    "num_prefix_words": int,
}


def parse_intervention(name: str, text: str) -> Intervention:
    """Parse an intervention as it is written on the command line.

    Args:
        name: `ablate`, `scale_scores`, `mask_keys`, `shift_positions` or `force_continuation`.
        text: The value, such as `decoder.1.cross.3`.

    Raises:
        ConfigError: If the text has another form.
    """
    description, patterns = _SYNTAX[name]
    for kind, pattern in patterns.items():
        if match := re.fullmatch(pattern, text):
            values = {field: value for field, value in match.groupdict().items() if value}
            converted = {k: _CONVERT[k](v) if k in _CONVERT else v for k, v in values.items()}
            return cast("Intervention", kind(**converted))
    raise ConfigError(Problem(name, f"must be {description}, but is {text} instead"))


def parse_attention_address(text: str) -> tuple[str, int, str, int | None]:
    """Parse the address of an attention module; return stack, layer, kind and head or None.

    Raises:
        ConfigError: If the text has another form.
    """
    match = re.fullmatch(f"{_STACK}{_LAYER}{_ATTENTION}{_HEAD}?", text)
    if not match:
        expected = "the address of an attention, such as decoder.1.cross or decoder.1.cross.3"
        raise ConfigError(Problem("plot_attention", f"must be {expected}, but is {text} instead"))
    head = None if match["heads"] is None else int(match["heads"])
    return match["stack"], int(match["layer"]), match["attention"], head
