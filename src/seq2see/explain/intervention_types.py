"""Intervention types, their syntax on the command line, and checks against a model.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError, Problem
from seq2see.model import StackName, Transformer
from seq2see.model.attention import MultiHeadAttention

AttentionKind = Literal["self", "cross"]
Index = Annotated[int, Field(ge=0)]
Indices = Annotated[tuple[Index, ...], Field(min_length=1, strict=False)]


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
