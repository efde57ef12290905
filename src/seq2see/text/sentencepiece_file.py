"""Reads and edits serialized SentencePiece models.

The file is a protocol buffer. A few of its fields are read here, and a field with the config of the
tokenizer is added. SentencePiece ignores fields that it does not know.

`replace_vocabulary` gives a model the ids of another vocabulary. Some systems segment text with one
SentencePiece model per side and then look up the pieces in a separate vocabulary. Segmentation
depends on the scores of the pieces, not on their order, so a model that lists the whole vocabulary
in its order segments text as before, and its ids are those of the vocabulary.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from seq2see.errors import InputError

# Field numbers of sentencepiece_model.proto. Numbers from 200 on are free for extensions.
_PIECES, _TRAINER, _CONFIG = 1, 2, 2017
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = 1, 2, 3
_TRAINER_MODEL_TYPE = 3

# Values of enums of sentencepiece_model.proto.
_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

# Wire types of protocol buffers.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_LANGUAGE_TAG = re.compile(">>.+<<")


@dataclass(frozen=True, slots=True)
class SentencePieceTypeAndSymbols:
    """Properties of a SentencePiece model."""

    model_type: str
    """`bpe` or `unigram`; models of other systems may also have `word` or `char`."""
    user_defined_symbols: tuple[str, ...]
    """User-defined pieces."""
    config_json: str | None
    """The `TokenizerConfig` as JSON; None for a model of another system."""


def read_sentencepiece_info(model: bytes) -> SentencePieceTypeAndSymbols:
    """Return the properties of a serialized model, which must be valid."""
    model_type, symbols, config_json = "unigram", [], None  # unigram is the default of the format
    for number, value in iter_protobuf_fields(model):
        if number == _PIECES:
            piece = _decode_piece(value)
            if piece.piece_type == _USER_DEFINED:
                symbols.append(piece.text)
        elif number == _TRAINER:
            trainer = dict(iter_protobuf_fields(value))
            model_type = _MODEL_TYPES[trainer.get(_TRAINER_MODEL_TYPE, 1)]
        elif number == _CONFIG:
            config_json = value.decode()
    return SentencePieceTypeAndSymbols(model_type, tuple(symbols), config_json)


def embed_config(model: bytes, config_json: str) -> bytes:
    """Return the model with its config as an additional field.

    Messages of this format are merged by concatenation.
    """
    return model + _encode_field(_CONFIG, config_json.encode())


def iter_protobuf_fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a protocol buffer; a value is an int or bytes."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _read_varint(message, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = _read_varint(message, position)
        else:
            size = {_FIXED32: 4, _FIXED64: 8}[wire_type]
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
    """Return a number in the variable-length encoding of protocol buffers."""
    head = bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*head, value])


@dataclass(frozen=True, slots=True)
class SentencePieceEntry:
    """A piece of a SentencePiece model."""

    text: str
    score: float = 0.0
    piece_type: int = _NORMAL


def replace_vocabulary(model: bytes, ids: Mapping[str, int], *, is_target: bool = False) -> bytes:
    """Return the model with the pieces of a vocabulary at the given ids.

    Pieces that are only in the vocabulary get their ids, but text is never segmented into them,
    except language tags such as ">>fra<<". A translation model may still emit pieces of its source
    side, so with `is_target` these pieces are decoded to their text. (BPE may then merge them after
    all other pieces, and splits them again.)

    Raises:
        InputError: If the ids are not 0 to n − 1.
    """
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"the ids of a vocabulary must be 0 to {len(ids) - 1}, each once")
    model_pieces, other_fields = _read_pieces(model)
    min_score = min((piece.score for piece in model_pieces.values()), default=0.0)
    unseen = SentencePieceEntry("", min_score - 1, _UNUSED if is_target else _CONTROL)
    pieces = b"".join(
        _encode_field(_PIECES, _encode_piece(model_pieces.get(text) or _new_piece(text, unseen)))
        for text in sorted(ids, key=ids.__getitem__)
    )
    return pieces + other_fields


def _new_piece(text: str, unseen: SentencePieceEntry) -> SentencePieceEntry:
    """Return a piece that the model does not have; `unseen` is the default."""
    if text in {"<pad>", "</s>", "<s>"}:
        return SentencePieceEntry(text, piece_type=_CONTROL)
    if text == "<unk>":
        return SentencePieceEntry(text, piece_type=_UNKNOWN)
    if _LANGUAGE_TAG.fullmatch(text):
        return SentencePieceEntry(text, piece_type=_USER_DEFINED)
    return replace(unseen, text=text)


def _read_pieces(model: bytes) -> tuple[dict[str, SentencePieceEntry], bytes]:
    """Return the pieces of a model by their texts, and all other fields."""
    pieces, other_fields = {}, b""
    for number, value in iter_protobuf_fields(model):
        if number == _PIECES:
            piece = _decode_piece(value)
            pieces[piece.text] = piece
        else:
            other_fields += _encode_field(number, value)
    return pieces, other_fields


def _decode_piece(message: bytes) -> SentencePieceEntry:
    fields = dict(iter_protobuf_fields(message))
    (score,) = struct.unpack("<f", fields.get(_PIECE_SCORE, bytes(4)))
    return SentencePieceEntry(fields[_PIECE_TEXT].decode(), score, fields.get(_PIECE_TYPE, _NORMAL))


def _encode_piece(piece: SentencePieceEntry) -> bytes:
    score = encode_varint(_PIECE_SCORE << 3 | _FIXED32) + struct.pack("<f", piece.score)
    text = _encode_field(_PIECE_TEXT, piece.text.encode())
    return text + score + _encode_field(_PIECE_TYPE, piece.piece_type)


def _encode_field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return encode_varint(number << 3 | _VARINT) + encode_varint(value)
    return encode_varint(number << 3 | _BYTES) + encode_varint(len(value)) + value
