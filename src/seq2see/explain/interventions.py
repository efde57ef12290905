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
from seq2see.model import AttentionSite, Transformer
from seq2see.model.attention import MultiHeadAttention

Stack = Literal["encoder", "decoder"]


Kind = Literal["self", "cross"]


Index = Annotated[int, Field(ge=0)]


Indices = Annotated[tuple[Index, ...], Field(min_length=1, strict=False)]


class AblateHeads(Config):
    """These heads give zeros."""

    kind: Literal["ablate_heads"] = "ablate_heads"
    stack: Stack
    layer: Index
    attention: Kind
    heads: Indices | None = None
    """None: all of them."""


class AblateSublayer(Config):
    """The residual connection adds nothing; its norm stays."""

    kind: Literal["ablate_sublayer"] = "ablate_sublayer"
    stack: Stack
    layer: Index
    sublayer: Literal["self", "cross", "feed_forward"]


class AblateLayer(Config):
    """The layer gives its input on."""

    kind: Literal["ablate_layer"] = "ablate_layer"
    stack: Stack
    layer: Index


class ScaleScores(Config):
    """Multiply the scores before the softmax: 0 looks everywhere alike, large at one token."""

    kind: Literal["scale_scores"] = "scale_scores"
    stack: Stack
    layer: Index
    attention: Kind
    heads: Indices | None = None
    factor: float


class MaskKeys(Config):
    """Nobody looks at these positions."""

    kind: Literal["mask_keys"] = "mask_keys"
    stack: Stack
    layer: Index | None = None
    """None: in every layer."""
    attention: Kind
    heads: Indices | None = None
    keys: Indices


class AblatePositions(Config):
    """The stack does not know where tokens stand (but for what causality tells)."""

    kind: Literal["ablate_positions"] = "ablate_positions"
    stack: Stack


class ShiftPositions(Config):
    """The sentence begins at another position. Relative positions do not notice."""

    kind: Literal["shift_positions"] = "shift_positions"
    stack: Stack
    offset: Annotated[int, Field(ge=0, le=10_000)]
    """Tokens; the vectors of all positions up to there are made."""


class ForceContinuation(Config):
    """Keep the first words of the translation, go on with this text, then freely."""

    kind: Literal["force_continuation"] = "force_continuation"
    num_prefix_words: Index
    """How many words are kept."""
    text: str = Field(min_length=1)


Intervention = Annotated[
    AblateHeads
    | AblateSublayer
    | AblateLayer
    | ScaleScores
    | MaskKeys
    | AblatePositions
    | ShiftPositions
    | ForceContinuation,
    Field(discriminator="kind"),
]


def list_head_ablations(model: Transformer) -> list[AblateHeads]:
    """Return one intervention for each head of the model, from the bottom up."""
    sites = [heads for _, heads in iter_attention_modules(model)]
    return [
        AblateHeads(stack=m.site.stack, layer=m.site.layer, attention=m.site.kind, heads=(head,))
        for m in sites
        for head in range(m.heads)
    ]


def find_ablated_heads(
    site: AttentionSite, interventions: Iterable[Intervention], num_heads: int
) -> tuple[int, ...]:
    """Return the heads of an attention that are off."""
    found = [i for i in interventions if isinstance(i, AblateHeads) and applies_to(i, site)]
    return tuple(sorted({head for each in found for head in selected_heads(each, num_heads)}))


def check_masked_keys(interventions: Iterable[Intervention], num_source_tokens: int) -> None:
    """Refuse to hide what a source of so many tokens does not have. A target may still grow."""
    for each in interventions:
        if not isinstance(each, MaskKeys) or (each.stack, each.attention) == ("decoder", "self"):
            continue
        if max(each.keys) >= num_source_tokens:
            raise InputError(
                f"`keys` must be below {num_source_tokens}, the tokens of the sentence, "
                f"but has {max(each.keys)} instead"
            )


def has_scaled_scores(site: AttentionSite, interventions: Iterable[Intervention]) -> bool:
    """Tell whether some head of an attention has another scale than the model's."""
    return any(isinstance(i, ScaleScores) and applies_to(i, site) for i in interventions)


def iter_attention_modules(model: Transformer) -> Iterator[tuple[str, MultiHeadAttention]]:
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            yield name, module


def applies_to(intervention: AblateHeads | ScaleScores | MaskKeys, site: AttentionSite) -> bool:
    layer = site.layer if intervention.layer is None else intervention.layer
    return AttentionSite(intervention.stack, layer, intervention.attention) == site


def selected_heads(intervention: AblateHeads | ScaleScores | MaskKeys, heads: int) -> Sequence[int]:
    return range(heads) if intervention.heads is None else intervention.heads


def check_interventions(model: Transformer, interventions: Iterable[Intervention]) -> None:
    layers = {"encoder": len(model.encoder.layers), "decoder": len(model.decoder.layers)}
    heads = next(m.heads for _, m in iter_attention_modules(model))
    for each in interventions:
        if isinstance(each, ForceContinuation):
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


def parse_ablation(text: str) -> Intervention:
    """Return what switches off a head, a sublayer, a layer or the positions."""
    where = _address(text, "ablate")
    stack, layer, part, head = where["stack"], where["layer"], where["part"], where["head"]
    if part == "positions" and layer is None and head is None:
        return AblatePositions(stack=stack)
    if layer is not None and part is None and head is None:
        return AblateLayer(stack=stack, layer=layer)
    if layer is not None and part in {"self", "cross"} and head is not None:
        return AblateHeads(stack=stack, layer=layer, attention=part, heads=(head,))
    if layer is not None and part in {"self", "cross", "feed_forward"} and head is None:
        return AblateSublayer(stack=stack, layer=layer, sublayer=part)
    raise _wrong("ablate", "such as decoder.1.cross.3, decoder.1.cross or decoder.1", text)


def parse_scale_scores(text: str) -> Intervention:
    """Return what multiplies the scores of heads."""
    where, factor = _split(text, "scale_scores", "decoder.1.cross.3=0.5")
    parts = _attention(where, "scale_scores", text)
    if parts.get("layer") is None:
        raise _wrong("scale_scores", "of one layer, such as decoder.1.cross=0.5", text)
    try:
        return ScaleScores(**parts, factor=float(factor))
    except ValueError:
        raise _wrong("scale_scores", "a number behind =", text) from None


def parse_mask_keys(text: str) -> Intervention:
    """Return what hides positions."""
    where, keys = _split(text, "mask", "decoder.cross=4,5")
    if not re.fullmatch(r"\d+(,\d+)*", keys):
        raise _wrong("mask", "positions behind =, such as 4,5", text)
    places = tuple(int(key) for key in keys.split(","))
    return MaskKeys(**_attention(where, "mask", text), keys=places)


def parse_shift_positions(text: str) -> Intervention:
    """Return what lets a sentence begin elsewhere."""
    stack, by = _split(text, "shift_positions", "encoder=5")
    if stack not in {"encoder", "decoder"} or not by.isdecimal():
        raise _wrong("shift_positions", "such as encoder=5", text)
    return ShiftPositions.model_validate({"stack": stack, "offset": int(by)})


def parse_force_continuation(text: str) -> Intervention:
    """Return what forces a text behind so many words."""
    word, forced = _split(text, "force", "3=elle")
    if not word.isdecimal() or not forced:
        raise _wrong("force", "a number of words, = and a text, such as 3=elle", text)
    return ForceContinuation(num_prefix_words=int(word), text=forced)


def parse_attention_address(text: str) -> tuple[str, int, str, int | None]:
    """Return stack, layer, kind and head of an attention."""
    parts = _attention(text, "attention", text)
    if parts.get("layer") is None:
        raise _wrong("attention", "of one layer, such as decoder.1.cross", text)
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
