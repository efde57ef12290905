"""Intervention types, their syntax on the command line, and checks against a model.

Addresses are written as `decoder.1.cross.3` (a head):

ablate           decoder.1.cross.3 (a head), decoder.1.cross or decoder.1.feed_forward (a sublayer),
                 decoder.1 (a layer), decoder.positions
scale_scores     decoder.1.cross.3=0.5; without a head: all heads
mask             decoder.cross=4,5 (all layers), decoder.1.cross=4,5, decoder.1.cross.3=4,5
shift_positions  encoder=5
force            3=elle (after three words)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError, InputError
from seq2see.model import Site, Transformer
from seq2see.model.attention import MultiHead

Stack = Literal["encoder", "decoder"]


Kind = Literal["self", "cross"]


Index = Annotated[int, Field(ge=0)]


Indices = Annotated[tuple[Index, ...], Field(min_length=1, strict=False)]


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


_ADDRESS = re.compile(
    r"(?P<stack>encoder|decoder)(?:\.(?P<layer>\d+))?(?:\.(?P<part>self|cross|feed_forward|positions))?"
    r"(?:\.(?P<head>\d+))?"
)


def parse_off(text: str) -> Intervention:
    """Return what switches off a head, a sublayer, a layer or the positions."""
    where = _address(text, "off")
    stack, layer, part, head = where["stack"], where["layer"], where["part"], where["head"]
    if part == "positions" and layer is None and head is None:
        return PositionsOff(stack=stack)
    if layer is not None and part is None and head is None:
        return LayerOff(stack=stack, layer=layer)
    if layer is not None and part in {"self", "cross"} and head is not None:
        return HeadsOff(stack=stack, layer=layer, attention=part, heads=(head,))
    if layer is not None and part in {"self", "cross", "feed_forward"} and head is None:
        return SublayerOff(stack=stack, layer=layer, sublayer=part)
    raise _wrong("off", "such as decoder.1.cross.3, decoder.1.cross or decoder.1", text)


def parse_scale(text: str) -> Intervention:
    """Return what multiplies the scores of heads."""
    where, factor = _split(text, "scale", "decoder.1.cross.3=0.5")
    parts = _attention(where, "scale", text)
    if parts.get("layer") is None:
        raise _wrong("scale", "of one layer, such as decoder.1.cross=0.5", text)
    try:
        return Scale(**parts, factor=float(factor))
    except ValueError:
        raise _wrong("scale", "a number behind =", text) from None


def parse_hide(text: str) -> Intervention:
    """Return what hides positions."""
    where, keys = _split(text, "hide", "decoder.cross=4,5")
    if not re.fullmatch(r"\d+(,\d+)*", keys):
        raise _wrong("hide", "positions behind =, such as 4,5", text)
    places = tuple(int(key) for key in keys.split(","))
    return Hide(**_attention(where, "hide", text), keys=places)


def parse_shift(text: str) -> Intervention:
    """Return what lets a sentence begin elsewhere."""
    stack, by = _split(text, "shift", "encoder=5")
    if stack not in {"encoder", "decoder"} or not by.isdecimal():
        raise _wrong("shift", "such as encoder=5", text)
    return PositionsShift.model_validate({"stack": stack, "by": int(by)})


def parse_force(text: str) -> Intervention:
    """Return what forces a text behind so many words."""
    word, forced = _split(text, "force", "3=elle")
    if not word.isdecimal() or not forced:
        raise _wrong("force", "a number of words, = and a text, such as 3=elle", text)
    return Force(word=int(word), text=forced)


def parse_attention(text: str) -> tuple[str, int, str, int | None]:
    """Return stack, layer, kind and head of an attention."""
    parts = _attention(text, "site", text)
    if parts.get("layer") is None:
        raise _wrong("site", "of one layer, such as decoder.1.cross", text)
    heads = parts.get("heads")
    return parts["stack"], parts["layer"], parts["attention"], heads[0] if heads else None


def _address(text: str, name: str) -> dict[str, Any]:
    match = _ADDRESS.fullmatch(text)
    if not match:
        raise _wrong(name, "such as decoder.1.cross.3, counted from 0", text)
    found = match.groupdict()
    numbers = {key: int(found[key]) for key in ("layer", "head") if found[key] is not None}
    return {"layer": None, "head": None, "stack": found["stack"], "part": found["part"], **numbers}


def _attention(text: str, name: str, whole: str) -> dict[str, Any]:
    where = _address(text, name)
    if where["part"] not in {"self", "cross"}:
        raise _wrong(name, "an attention, such as decoder.1.cross", whole)
    found = {"stack": where["stack"], "layer": where["layer"], "attention": where["part"]}
    return found if where["head"] is None else {**found, "heads": (where["head"],)}


def _split(text: str, name: str, example: str) -> tuple[str, str]:
    before, equals, behind = text.partition("=")
    if not equals:
        raise _wrong(name, f"such as {example}", text)
    return before, behind


def _wrong(name: str, wanted: str, text: str) -> ConfigError:
    return ConfigError([f"`{name}` must be {wanted}, but is {text} instead"])
