"""SentencePiece files with other ids: the pieces of a vocabulary, in its order.

Some systems cut text with one SentencePiece file a side and then look the pieces up in a vocabulary
of their own. How a text is cut depends on the pieces' scores, not on their order; so a file that
lists the whole vocabulary in its order cuts as before, and its ids are those of the vocabulary.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace

from seq2see.errors import InputError
from seq2see.text.model_file import fields, varint

# Of sentencepiece_model.proto.
_PIECES, _PIECE, _SCORE, _KIND = 1, 1, 2, 3
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5
_VARINT, _BYTES, _FIXED32 = 0, 2, 5
_LANGUAGE_TAG = re.compile(">>.+<<")


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece as a file has it."""

    text: str
    score: float = 0.0
    kind: int = _NORMAL


def with_ids(model: bytes, ids: Mapping[str, int], *, is_target: bool = False) -> bytes:
    """Return the file with the pieces of this vocabulary at their ids.

    What is in the vocabulary only keeps its id, but no text is cut into it, except tags such as
    ">>fra<<", which stand for themselves. A model may yet emit the pieces of its other side: on
    the target's they keep their text. (There BPE may merge them, last of all, and undoes it again.)
    """
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"the ids of a vocabulary must be 0 to {len(ids) - 1}, each once")
    own, rest = _read(model)
    last = min((piece.score for piece in own.values()), default=0.0) - 1
    other = Piece("", last, _UNUSED if is_target else _CONTROL)
    pieces = b"".join(
        _field(_PIECES, _written(own.get(text) or _foreign(text, other)))
        for text in sorted(ids, key=ids.__getitem__)
    )
    return pieces + rest


def _foreign(text: str, other: Piece) -> Piece:
    """Return a piece that the file does not have."""
    if text in {"<pad>", "</s>", "<s>"}:
        return Piece(text, kind=_CONTROL)
    if text == "<unk>":
        return Piece(text, kind=_UNKNOWN)
    if _LANGUAGE_TAG.fullmatch(text):
        return Piece(text, kind=_USER_DEFINED)
    return replace(other, text=text)


def _read(model: bytes) -> tuple[dict[str, Piece], bytes]:
    """Return the pieces of a file by their texts, and all that stands beside them."""
    pieces, rest = {}, b""
    for number, value in fields(model):
        if number == _PIECES and isinstance(value, bytes):
            piece = _piece(value)
            pieces[piece.text] = piece
        elif isinstance(value, bytes):
            rest += _field(number, value)
        else:
            rest += varint(number << 3 | _VARINT) + varint(value)
    return pieces, rest


def _piece(message: bytes) -> Piece:
    found = dict(fields(message))
    text, score = found[_PIECE], found.get(_SCORE, b"\0\0\0\0")
    assert isinstance(text, bytes)
    assert isinstance(score, bytes)
    return Piece(text.decode(), struct.unpack("<f", score)[0], int(found.get(_KIND, _NORMAL)))


def _written(piece: Piece) -> bytes:
    score = varint(_SCORE << 3 | _FIXED32) + struct.pack("<f", piece.score)
    kind = varint(_KIND << 3 | _VARINT) + varint(piece.kind)
    return _field(_PIECE, piece.text.encode()) + score + kind


def _field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | _BYTES) + varint(len(content)) + content
