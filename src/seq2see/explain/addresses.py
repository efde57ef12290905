"""Interventions as one writes them on a command line: `decoder.1.cross.3` is a head.

off     decoder.1.cross.3    a head          decoder.1.cross, decoder.1.feed_forward  a sublayer
        decoder.1            a layer         decoder.positions
scale   decoder.1.cross.3=0.5                without a head: all of them
hide    decoder.cross=4,5                    in all layers, or decoder.1.cross, decoder.1.cross.3
shift   encoder=5
force   3=elle                               after three words
"""

from __future__ import annotations

import re
from typing import Any

from seq2see.errors import ConfigError
from seq2see.explain.interventions import (
    Force,
    HeadsOff,
    Hide,
    Intervention,
    LayerOff,
    PositionsOff,
    PositionsShift,
    Scale,
    SublayerOff,
)

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
