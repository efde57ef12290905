"""Tensors inside JSON: shape, kind, and the numbers as base64, little end first."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from math import prod
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from torch import Tensor

from seq2see.errors import ConfigError

_KINDS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "uint8": np.dtype("u1")}


def pack(array: NDArray[Any]) -> dict[str, object]:
    """Return the JSON form: uint8 for masks, float32 for all else."""
    kind = "uint8" if array.dtype.kind in "ub" else "float32"
    data = np.ascontiguousarray(array, _KINDS[kind]).tobytes()
    return {"shape": list(array.shape), "dtype": kind, "data": b64encode(data).decode("ascii")}


def unpack(value: object) -> NDArray[Any]:
    """Return the array of a JSON form, or the array itself; anything else is refused."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, dict) or value.get("dtype") not in _KINDS:
        raise ConfigError(["`dtype` must be float32 or uint8, of a tensor with shape and data"])
    kind = _KINDS[value["dtype"]]
    try:
        numbers = np.frombuffer(b64decode(value["data"], validate=True), kind)
        shape = [int(size) for size in value["shape"]]
    except (Base64Error, KeyError, TypeError, ValueError) as error:
        raise ConfigError([f"`data` must be base64 of such numbers, but: {error}"]) from None
    if numbers.size != prod(shape):
        raise ConfigError(
            [f"`data` must have {prod(shape)} numbers, but has {numbers.size} instead"]
        )
    found: NDArray[Any] = numbers.reshape(shape)
    return found


def array(tensor: Tensor, kind: Any = np.float32) -> NDArray[Any]:
    """Return a tensor as NumPy has it."""
    return tensor.detach().cpu().numpy().astype(kind)


Array = Annotated[
    NDArray[Any],
    PlainValidator(unpack),
    PlainSerializer(pack, when_used="json"),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "shape": {"type": "array", "items": {"type": "integer"}},
                "dtype": {"enum": list(_KINDS)},
                "data": {"type": "string", "contentEncoding": "base64"},
            },
            "required": ["shape", "dtype", "data"],
        }
    ),
]
"""A NumPy array that is a packed tensor in JSON."""
