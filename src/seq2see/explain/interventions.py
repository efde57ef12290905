"""What to change in a model to see what it was good for, and the model with the change.

    altered(model, [HeadsOff(stack="decoder", layer=1, attention="cross", heads=(3,))])

The altered model shares its weights with the original. Every attention runs in the plain form, so
that `altered(model, [])` is the baseline, to the bit. `Force` changes no model: see `Explainer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field
from torch import nn

from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.model import Attention, RelativeAttention, Site, Transformer
from seq2see.model.altered import (
    AlteredAttention,
    Edit,
    HeadChanges,
    NoDistances,
    ShiftedPositions,
    SilencedResidual,
    SkippedDecoderLayer,
    SkippedEncoderLayer,
    with_parts,
)
from seq2see.model.layers import DecoderLayer, Residual
from seq2see.model.multihead import MultiHead
from seq2see.model.positions import Positions

Stack = Literal["encoder", "decoder"]
Kind = Literal["self", "cross"]
Index = Annotated[int, Field(ge=0)]
Indices = Annotated[tuple[Index, ...], Field(min_length=1, strict=False)]

_SUBLAYERS = {"self": "attention", "cross": "cross_attention", "feed_forward": "feed_forward"}


class HeadsOff(Config):
    """These heads give zeros."""

    kind: Literal["heads_off"] = "heads_off"
    stack: Stack
    layer: Index
    attention: Kind
    heads: Indices | None = None
    """None: all of them."""


class SublayerOff(Config):
    """The residual connection adds nothing; its norm stays."""

    kind: Literal["sublayer_off"] = "sublayer_off"
    stack: Stack
    layer: Index
    sublayer: Literal["self", "cross", "feed_forward"]


class LayerOff(Config):
    """The layer gives its input on."""

    kind: Literal["layer_off"] = "layer_off"
    stack: Stack
    layer: Index


class Scale(Config):
    """Multiply the scores before the softmax: 0 looks everywhere alike, large at one token."""

    kind: Literal["scale"] = "scale"
    stack: Stack
    layer: Index
    attention: Kind
    heads: Indices | None = None
    factor: float


class Hide(Config):
    """Nobody looks at these positions."""

    kind: Literal["hide"] = "hide"
    stack: Stack
    layer: Index | None = None
    """None: in every layer."""
    attention: Kind
    heads: Indices | None = None
    keys: Indices


class PositionsOff(Config):
    """The stack does not know where tokens stand (but for what causality tells)."""

    kind: Literal["positions_off"] = "positions_off"
    stack: Stack


class PositionsShift(Config):
    """The sentence begins at another position. Relative positions do not notice."""

    kind: Literal["positions_shift"] = "positions_shift"
    stack: Stack
    by: Annotated[int, Field(ge=0, le=10_000)]
    """Tokens; the vectors of all positions up to there are made."""


class Force(Config):
    """Keep the first words of the translation, go on with this text, then freely."""

    kind: Literal["force"] = "force"
    word: Index
    """How many words are kept."""
    text: str = Field(min_length=1)


Intervention = Annotated[
    HeadsOff | SublayerOff | LayerOff | Scale | Hide | PositionsOff | PositionsShift | Force,
    Field(discriminator="kind"),
]


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


def every_head(model: Transformer) -> list[HeadsOff]:
    """Return one intervention for each head of the model, from the bottom up."""
    sites = [heads for _, heads in _attentions(model)]
    return [
        HeadsOff(stack=m.site.stack, layer=m.site.layer, attention=m.site.kind, heads=(head,))
        for m in sites
        for head in range(m.heads)
    ]


def heads_off(site: Site, interventions: Iterable[Intervention], heads: int) -> tuple[int, ...]:
    """Return the heads of an attention that are off."""
    found = [i for i in interventions if isinstance(i, HeadsOff) and _meets(i, site)]
    return tuple(sorted({head for each in found for head in _heads(each, heads)}))


def refuse_missing_keys(interventions: Iterable[Intervention], source: int) -> None:
    """Refuse to hide what a source of so many tokens does not have. A target may still grow."""
    for each in interventions:
        if not isinstance(each, Hide) or (each.stack, each.attention) == ("decoder", "self"):
            continue
        if max(each.keys) >= source:
            raise InputError(
                f"`keys` must be below {source}, the tokens of the sentence, "
                f"but has {max(each.keys)} instead"
            )


def rescaled(site: Site, interventions: Iterable[Intervention]) -> bool:
    """Tell whether some head of an attention has another scale than the model's."""
    return any(isinstance(i, Scale) and _meets(i, site) for i in interventions)


def _attentions(model: Transformer) -> Iterator[tuple[str, MultiHead]]:
    for name, module in model.named_modules():
        if isinstance(module, MultiHead):
            yield name, module


def _meets(intervention: HeadsOff | Scale | Hide, site: Site) -> bool:
    layer = site.layer if intervention.layer is None else intervention.layer
    return Site(intervention.stack, layer, intervention.attention) == site


def _heads(intervention: HeadsOff | Scale | Hide, heads: int) -> Sequence[int]:
    return range(heads) if intervention.heads is None else intervention.heads


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


def _refuse_misfits(model: Transformer, interventions: Iterable[Intervention]) -> None:
    layers = {"encoder": len(model.encoder.layers), "decoder": len(model.decoder.layers)}
    heads = next(m.heads for _, m in _attentions(model))
    for each in interventions:
        if isinstance(each, Force):
            continue
        layer, last = getattr(each, "layer", None), layers[each.stack] - 1
        if layer is not None and layer > last:
            raise InputError(
                f"`layer` must be from 0 to {last} in the {each.stack}, but is {layer} instead"
            )
        highest = max(getattr(each, "heads", None) or (0,))
        if highest >= heads:
            raise InputError(f"`heads` must be from 0 to {heads - 1}, but are {highest} instead")
        wanted = getattr(each, "attention", None) or getattr(each, "sublayer", None)
        if each.stack == "encoder" and wanted == "cross":
            raise InputError("`cross` must be in the decoder: the encoder has self-attention only")
