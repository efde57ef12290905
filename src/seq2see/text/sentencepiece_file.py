"""Reads and edits serialized SentencePiece models (protocol buffers)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from seq2see.errors import InputError

# The numbers of sentencepiece_model.proto; those from 200 on are free for extensions.
_PIECES, _TRAINER, _SETTINGS = 1, 2, 2017


_PIECE, _PIECE_TYPE, _USER_DEFINED = 1, 3, 4


_MODEL_TYPE, _KINDS = 3, {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class SentencePieceInfo:
    """What matters of a model file."""

    model_type: str
    """`bpe` or `unigram` (or, from elsewhere, `word` or `char`)."""
    user_defined_symbols: tuple[str, ...]
    """User-defined pieces."""
    config_json: str | None
    """The config that it was trained with, as JSON; None if it comes from elsewhere."""


def read_sentencepiece_info(model: bytes) -> SentencePieceInfo:
    """Read the bytes of a model that SentencePiece has accepted."""
    kind, symbols, settings = "unigram", [], None  # unigram is the default of the format
    for number, value in iter_protobuf_fields(model):
        if number == _PIECES:
            piece = dict(iter_protobuf_fields(_content(value)))
            if piece.get(_PIECE_TYPE) == _USER_DEFINED:
                symbols.append(_content(piece[_PIECE]).decode())
        elif number == _TRAINER:
            trainer = dict(iter_protobuf_fields(_content(value)))
            kind = _KINDS[int(trainer.get(_MODEL_TYPE, 1))]
        elif number == _SETTINGS:
            settings = _content(value).decode()
    return SentencePieceInfo(kind, tuple(symbols), settings)


def embed_config(model: bytes, config_json: str) -> bytes:
    """Return the model with its config inside: messages of this format join by concatenation."""
    content = config_json.encode()
    return model + encode_varint(_SETTINGS << 3 | _BYTES) + encode_varint(len(content)) + content


def _content(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def iter_protobuf_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
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


def encode_varint(value: int) -> bytes:
    """Return a number as protocol buffers write it."""
    head = bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*head, value])


# Of sentencepiece_model.proto.
_PIECES_FIELD, _TEXT_FIELD, _SCORE_FIELD, _TYPE_FIELD = 1, 1, 2, 3


_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED_TYPE, _UNUSED = 1, 2, 3, 4, 5


_VARINT_WIRE, _BYTES_WIRE, _FIXED32_WIRE = 0, 2, 5


_LANGUAGE_TAG = re.compile(">>.+<<")


@dataclass(frozen=True, slots=True)
class SentencePieceEntry:
    """One piece as a file has it."""

    text: str
    score: float = 0.0
    piece_type: int = _NORMAL


def replace_vocabulary(model: bytes, ids: Mapping[str, int], *, is_target: bool = False) -> bytes:
    """Return the file with the pieces of this vocabulary at their ids.

    What is in the vocabulary only keeps its id, but no text is cut into it, except tags such as
    ">>fra<<", which stand for themselves. A model may yet emit the pieces of its other side: on
    the target's they keep their text. (There BPE may merge them, last of all, and undoes it again.)
    """
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"the ids of a vocabulary must be 0 to {len(ids) - 1}, each once")
    own, rest = _read_pieces(model)
    last = min((piece.score for piece in own.values()), default=0.0) - 1
    other = SentencePieceEntry("", last, _UNUSED if is_target else _CONTROL)
    pieces = b"".join(
        _field(_PIECES_FIELD, _written(own.get(text) or _foreign(text, other)))
        for text in sorted(ids, key=ids.__getitem__)
    )
    return pieces + rest


def _foreign(text: str, other: SentencePieceEntry) -> SentencePieceEntry:
    """Return a piece that the file does not have."""
    if text in {"<pad>", "</s>", "<s>"}:
        return SentencePieceEntry(text, piece_type=_CONTROL)
    if text == "<unk>":
        return SentencePieceEntry(text, piece_type=_UNKNOWN)
    if _LANGUAGE_TAG.fullmatch(text):
        return SentencePieceEntry(text, piece_type=_USER_DEFINED_TYPE)
    return replace(other, text=text)


def _read_pieces(model: bytes) -> tuple[dict[str, SentencePieceEntry], bytes]:
    """Return the pieces of a file by their texts, and all that stands beside them."""
    pieces, rest = {}, b""
    for number, value in iter_protobuf_fields(model):
        if number == _PIECES_FIELD and isinstance(value, bytes):
            piece = _piece(value)
            pieces[piece.text] = piece
        elif isinstance(value, bytes):
            rest += _field(number, value)
        else:
            rest += encode_varint(number << 3 | _VARINT_WIRE) + encode_varint(value)
    return pieces, rest


def _piece(message: bytes) -> SentencePieceEntry:
    found = dict(iter_protobuf_fields(message))
    text, score = found[_TEXT_FIELD], found.get(_SCORE_FIELD, b"\0\0\0\0")
    assert isinstance(text, bytes)
    assert isinstance(score, bytes)
    return SentencePieceEntry(
        text.decode(), struct.unpack("<f", score)[0], int(found.get(_TYPE_FIELD, _NORMAL))
    )


def _written(piece: SentencePieceEntry) -> bytes:
    score = encode_varint(_SCORE_FIELD << 3 | _FIXED32_WIRE) + struct.pack("<f", piece.score)
    kind = encode_varint(_TYPE_FIELD << 3 | _VARINT_WIRE) + encode_varint(piece.piece_type)
    return _field(_TEXT_FIELD, piece.text.encode()) + score + kind


def _field(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | _BYTES_WIRE) + encode_varint(len(content)) + content
