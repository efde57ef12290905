"""Reads and edits serialized SentencePiece models.

A model is a protocol buffer. The config of the tokenizer is stored in an extension field, which
SentencePiece ignores.

`replace_vocabulary` gives a model the ids of another vocabulary. Some systems segment text with one
SentencePiece model per side and then look up the pieces in a separate vocabulary. Segmentation
depends on the scores of the pieces, not on their order, so a model that lists the whole vocabulary
in its order segments text as before, and its ids are those of the vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool  # type: ignore[import-untyped]
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FieldDescriptorProto,
    FileDescriptorProto,
)
from sentencepiece import sentencepiece_model_pb2

from seq2see.errors import InputError

_Model: Any = sentencepiece_model_pb2.ModelProto  # type: ignore[attr-defined]
_Piece: Any = _Model.SentencePiece
_LANGUAGE_TAG = re.compile(">>.+<<")
_SPECIAL_PIECES = {
    **dict.fromkeys(("<pad>", "</s>", "<s>"), _Piece.CONTROL),
    "<unk>": _Piece.UNKNOWN,
}


def _define_config_extension() -> Any:
    """Return the extension of models with the `TokenizerConfig` as JSON."""
    file = FileDescriptorProto(name="seq2see.proto", dependency=["sentencepiece_model.proto"])
    file.extension.add(
        name="seq2see_config",
        number=2017,  # numbers from 200 on are free
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        extendee=".sentencepiece.ModelProto",
    )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool.FindExtensionByName("seq2see_config")


_CONFIG = _define_config_extension()


class SentencePieceTypeAndSymbols(NamedTuple):
    """Properties of a SentencePiece model."""

    model_type: str
    """`bpe` or `unigram`; models of other systems may also have `word` or `char`."""
    user_defined_symbols: tuple[str, ...]
    """User-defined pieces."""
    config_json: str
    """The `TokenizerConfig` as JSON; empty for a model of another system."""


def read_sentencepiece_info(serialized_model: bytes) -> SentencePieceTypeAndSymbols:
    """Return the properties of a serialized model, which must be valid."""
    model = _Model.FromString(serialized_model)
    trainer = model.trainer_spec
    return SentencePieceTypeAndSymbols(
        trainer.ModelType.Name(trainer.model_type).lower(),
        tuple(one.piece for one in model.pieces if one.type == _Piece.USER_DEFINED),
        model.Extensions[_CONFIG],
    )


def embed_config(serialized_model: bytes, config_json: str) -> bytes:
    """Return the model with its config as an additional field."""
    addition = _Model()
    addition.Extensions[_CONFIG] = config_json
    # Messages are merged by concatenation.
    return serialized_model + bytes(addition.SerializeToString())


def replace_vocabulary(
    serialized_model: bytes, ids: Mapping[str, int], *, is_target: bool = False
) -> bytes:
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
    model = _Model.FromString(serialized_model)
    known = {one.piece: one for one in model.pieces}
    min_score = min((one.score for one in known.values()), default=0.0)
    unseen_type = _Piece.UNUSED if is_target else _Piece.CONTROL

    def build_piece(text: str) -> Any:
        other_type = _Piece.USER_DEFINED if _LANGUAGE_TAG.fullmatch(text) else unseen_type
        piece_type = _SPECIAL_PIECES.get(text, other_type)
        return _Piece(piece=text, score=min_score - 1, type=piece_type)

    pieces = [known.get(text) or build_piece(text) for text in sorted(ids, key=ids.__getitem__)]
    del model.pieces[:]
    model.pieces.extend(pieces)
    return bytes(model.SerializeToString())
