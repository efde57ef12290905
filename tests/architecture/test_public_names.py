"""The names that others rely on. Who changes one here says so in the CHANGELOG."""

from __future__ import annotations

import inspect

import pytest

import seq2see
import seq2see.model
from seq2see import errors
from seq2see.model import Transformer

MODEL = """
    AdditiveAttention Attention AttentionConfig AttentionListener AttentionMask AttentionRecord
    AttentionSite BatchLayout CAUSAL_MASK Decoder DecoderCache DotProductAttention DropoutConfig
    EmbeddingsConfig Encoder EncoderOutput KeyValues LayerListener LinformerAttention
    ModelBuilder ModelConfig NO_MASK NULL_RECORDER NormConfig PRESETS PositionsConfig
    QKNormAttention Recorder RelativeAttention RelativePositionEmbeddings StackName Transformer
    UnpaddedLayout build_padding_mask compute_sinusoids count_parameters format_model_summary
    masked_softmax
"""


def test_the_model() -> None:
    assert sorted(seq2see.model.__all__) == sorted(MODEL.split())
    assert all(hasattr(seq2see.model, name) for name in seq2see.model.__all__)


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
def test_the_transformer(method: str, parameters: list[str]) -> None:
    assert list(inspect.signature(getattr(Transformer, method)).parameters) == parameters


def test_the_version_has_three_numbers() -> None:
    assert len([int(part) for part in seq2see.__version__.split(".")]) == 3


def test_the_docstring_draws_every_exception() -> None:
    names = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    ]
    assert len(names) == 4
    assert all(name in (errors.__doc__ or "") for name in names)
