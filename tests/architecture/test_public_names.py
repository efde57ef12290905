"""Public names. A change here must be noted in the CHANGELOG."""

from __future__ import annotations

import inspect

import pytest

import seq2see
import seq2see.model
from seq2see import errors
from seq2see.model import Transformer

MODEL = """
    ATTENTION_KINDS AbsolutePositions AdditiveAttention AttentionFunction
    AttentionFunctionConfig AttentionIntermediates AttentionListener AttentionMask
    AttentionModuleId AttentionRecorder BatchLayout CAUSAL_MASK CrossAttention Decoder
    DecoderCache DecoderLayer DotProductAttention DropoutConfig EmbeddingAndOutputConfig Encoder
    EncoderOutput KeyValues LayerListener LinformerAttention ModelBuilder ModelConfig
    MultiHeadAttention NO_MASK NULL_RECORDER POSITIONAL_ENCODINGS QKNormAttention Recorder
    RelativeAttention RelativePositionEmbeddings RelativePositions SelfAttention StackName
    Transformer build_padded_key_mask compute_sinusoids count_parameters format_model_summary
    masked_softmax
"""


def test_model_exports_its_public_names() -> None:
    names = [
        name
        for name, value in vars(seq2see.model).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]
    assert sorted(names) == sorted(MODEL.split())


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("from_config", ["config"]),
        ("encode", ["self", "src_BS", "recorder"]),
        ("decode", ["self", "tgt_BT", "memory", "recorder"]),
        ("init_cache", ["self", "memory"]),
        ("step", ["self", "tgt_BT", "cache", "recorder"]),
        ("forward", ["self", "src_BS", "tgt_BT", "recorder"]),
    ],
)
def test_transformer_methods_have_their_parameters(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(Transformer, method)).parameters) == parameters


def test_version_has_three_numbers() -> None:
    assert len([int(part) for part in seq2see.__version__.split(".")]) == 3


def test_docstring_lists_all_exceptions() -> None:
    names = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(names) == 4
    assert all(name in (errors.__doc__ or "") for name in names)
