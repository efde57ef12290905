"""What a SentencePiece file says about itself beyond what the library tells.

The file is a protocol buffer; a few of its fields are read here, and one of our own is added. Plain
SentencePiece skips a field that it does not know, so the file stays a plain one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# The numbers of sentencepiece_model.proto; those from 200 on are free for extensions.
_PIECES, _TRAINER, _SETTINGS = 1, 2, 2017
_PIECE, _PIECE_TYPE, _USER_DEFINED = 1, 3, 4
_MODEL_TYPE, _KINDS = 3, {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class ModelFile:
    """What matters of a model file."""

    kind: str
    """`bpe` or `unigram` (or, from elsewhere, `word` or `char`)."""
    symbols: tuple[str, ...]
    """User-defined pieces."""
    settings: str | None
    """The config that it was trained with, as JSON; None if it comes from elsewhere."""


def read(model: bytes) -> ModelFile:
    """Read the bytes of a model that SentencePiece has accepted."""
    kind, symbols, settings = "unigram", [], None  # unigram is the default of the format
    for number, value in fields(model):
        if number == _PIECES:
            piece = dict(fields(_content(value)))
            if piece.get(_PIECE_TYPE) == _USER_DEFINED:
                symbols.append(_content(piece[_PIECE]).decode())
        elif number == _TRAINER:
            trainer = dict(fields(_content(value)))
            kind = _KINDS[int(trainer.get(_MODEL_TYPE, 1))]
        elif number == _SETTINGS:
            settings = _content(value).decode()
    return ModelFile(kind, tuple(symbols), settings)


def with_settings(model: bytes, settings: str) -> bytes:
    """Return the model with its config inside: messages of this format join by concatenation."""
    content = settings.encode()
    return model + varint(_SETTINGS << 3 | _BYTES) + varint(len(content)) + content


def _content(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and the value of each field of a protocol buffer."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if wire == _BYTES:
            size, position = _read_varint(message, position)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}[wire]
        yield number, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def varint(value: int) -> bytes:
    """Return a number as protocol buffers write it."""
    head = bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*head, value])
