"""Tests that invalid settings are rejected with all problems, each in one line with its value."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError, Problem, Seq2SeeError
from seq2see.model import ModelConfig, Transformer, count_parameters
from seq2see.registries import PRESETS

INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "heads do not divide d_model": (
        {"heads": 7},
        "`heads` must divide d_model = 512, but is 7 instead",
    ),
    "unknown variant": (
        {"attention": {"kind": "aditive"}},
        "`attention.kind` must be one of scaled_dot, dot, additive, qk_norm or linformer, "
        "but is 'aditive' instead",
    ),
    "unknown variant in a nested config": (
        {"cross_attention": {"kind": "sparse"}},
        "`cross_attention.kind` must be one of scaled_dot, dot, additive, qk_norm or linformer, "
        "but is 'sparse' instead",
    ),
    "unknown key": ({"d_modell": 512}, "`d_modell` is not a setting; did you mean `d_model`?"),
    "unknown nested key": (
        {"norm": {"placment": "pre"}},
        "`norm.placment` is not a setting; did you mean `norm.placement`?",
    ),
    "no similar key": (
        {"norm": {"zzz": 1}},
        "`norm.zzz` is not a setting; valid are kind, placement, eps",
    ),
    "empty vocabulary": ({"vocab_size": 0}, "`vocab_size` must be at least 1, but is 0 instead"),
    "not a number": (
        {"d_model": "wide"},
        "`d_model` must be an integer, but is 'wide' instead",
    ),
    "fractional layers": (
        {"encoder_layers": 1.5},
        "`encoder_layers` must be an integer, but is 1.5 instead",
    ),
    "not a table": ({"norm": 3}, "`norm` must be a table of settings, but is 3 instead"),
    "rate above one": (
        {"dropout": {"residual": 1.5}},
        "`dropout.residual` must be below 1.0, but is 1.5 instead",
    ),
    "infinite scale": (
        {"attention": {"scale": float("inf")}},
        "`attention.scale` must be a finite number, but is inf instead",
    ),
    "padding id outside the vocabulary": (
        {"pad_id": 100},
        "`pad_id` must be below the vocabulary size 100, but is 100 instead",
    ),
    "tied embeddings of different sizes": (
        {"target_vocab_size": 50},
        "`embeddings.tie` must be none or decoder with vocabularies of different sizes "
        "(100 and 50), but is all instead",
    ),
    "odd sinusoid": (
        {"d_model": 9, "heads": 3},
        "`d_model` must be even for sinusoid positions, but is 9 instead",
    ),
    "scale of additive attention": (
        {"attention": {"kind": "additive", "scale": 2.0}},
        "`attention.scale` must be left out with kind `additive`: "
        "it belongs to scaled_dot, dot, qk_norm, linformer",
    ),
    "layout of learned positions": (
        {"positions": {"kind": "learned", "layout": "halves"}},
        "`positions.layout` must be left out with kind `learned`: it belongs to sinusoid",
    ),
    "linformer in the decoder": (
        {"decoder_attention": {"kind": "linformer"}},
        "`decoder_attention.kind` must not be linformer: it mixes positions, so a query would "
        "attend to later tokens and decoding could not be cached; "
        "set it only as `encoder_attention`",
    ),
    "relative and additive": (
        {"positions": {"kind": "relative"}, "encoder_attention": {"kind": "additive"}},
        "`encoder_attention.kind` must be scaled_dot or dot with relative positions, "
        "which are added to q·k, but is additive instead",
    ),
}


@pytest.mark.parametrize(("settings", "message"), INVALID.values(), ids=INVALID)
def test_invalid_settings_raise_config_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig(**{"vocab_size": 100, **settings})
    assert str(error.value) == message


def test_config_error_can_be_pickled() -> None:
    original = ConfigError(Problem("heads", "must be 8", "head"), "two")
    error = pickle.loads(pickle.dumps(original))  # noqa: S301
    assert str(error) == "`heads` must be 8; did you mean `head`?; two"
    assert error.problems == original.problems


@pytest.mark.parametrize("value", [True, "8", 8.0, None])
def test_integer_field_rejects_other_types(value: object) -> None:
    with pytest.raises(ConfigError, match="`heads` must be an integer, but is "):
        ModelConfig(vocab_size=100, heads=value)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig(d_model=0, norm={"eps": -1}, attention={"kind": "x", "scael": 1})
    assert len(error.value.problems) == 5
    assert "\n" not in str(error.value)
    assert isinstance(error.value, Seq2SeeError)
    assert isinstance(error.value, ValueError)


def test_linformer_is_rejected_in_decoder_and_cross_attention() -> None:
    with pytest.raises(ConfigError) as error:
        ModelConfig(vocab_size=100, attention={"kind": "linformer"})
    assert [problem.field for problem in error.value.problems] == [
        "decoder_attention.kind",
        "cross_attention.kind",
    ]


def test_unknown_preset_lists_valid_presets() -> None:
    with pytest.raises(ConfigError, match="one of tiny, small, base, big, but is 'huge' instead"):
        ModelConfig.from_preset("huge", vocab_size=100)


def test_config_round_trip_through_dict_and_json() -> None:
    config = ModelConfig.from_preset(
        "tiny", vocab_size=100, positions={"kind": "relative", "max_distance": 4}
    )
    assert ModelConfig(**config.model_dump()) == config
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config


def test_replace_validates_and_merges_tables() -> None:
    config = ModelConfig(vocab_size=100, norm={"eps": 1e-5})
    assert config.replace(heads=16).heads == 16
    changed = config.replace(norm={"placement": "pre"}, encoder_attention={"kind": "dot"})
    assert (changed.norm.eps, changed.norm.placement) == (1e-5, "pre")
    assert changed.resolve_attention("encoder_attention").kind == "dot"
    with pytest.raises(ConfigError, match="heads"):
        config.replace(heads=7)


def test_settings_are_merged_with_preset() -> None:
    dropout = ModelConfig.from_preset("big", vocab_size=100, dropout={"attention": 0.2}).dropout
    assert (dropout.residual, dropout.embedding, dropout.attention) == (0.3, 0.3, 0.2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"vocab_size": 0}', "`vocab_size` must be at least 1, but is 0 instead"),
        ('{"vocab_size": 9, "norm": {"eps": -1}}', "`norm.eps` must be above 0.0, but is -1"),
        ("{", "settings must be JSON, but: "),
    ],
)
def test_json_errors_use_the_same_messages(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        ModelConfig.model_validate_json(text)
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match="`vocab_size` must be given"):
        ModelConfig.model_validate({})


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("tiny", (4, 4, 128, 256, 4)),
        ("small", (6, 6, 256, 1024, 4)),
        ("base", (6, 6, 512, 2048, 8)),
        ("big", (6, 6, 1024, 4096, 16)),
    ],
)
def test_presets_have_their_sizes(preset: str, expected: tuple[int, ...]) -> None:
    c = ModelConfig.from_preset(preset, vocab_size=100)
    assert (c.encoder_layers, c.decoder_layers, c.d_model, c.d_ff, c.heads) == expected
    assert preset in PRESETS


@pytest.mark.parametrize(("tie", "millions"), [("all", 63.1), ("decoder", 82.0), ("none", 101.0)])
def test_tied_embeddings_of_base_model_share_parameters(tie: str, millions: float) -> None:
    """The paper rounds 63M to 65M; with three separate embeddings it is 101M."""
    model = Transformer.from_config(ModelConfig(vocab_size=37_000, embeddings={"tie": tie}))
    assert round(count_parameters(model) / 1e6, 1) == millions
    embeddings = [
        model.encoder.embeddings.tokens,
        model.decoder.embeddings.tokens,
        model.output.tokens,
    ]
    assert len(set(embeddings)) == {"all": 1, "decoder": 2, "none": 3}[tie]


class Inner(Config):
    weight: float = Field(default=1.0, gt=0)


class Outer(Config):
    files: tuple[str, ...] = Field(default=("a",), min_length=1, max_length=2, strict=False)
    columns: tuple[int | str, int | str] = Field(default=(1, 2), strict=False)
    parts: tuple[Inner, ...] = Field(default=(Inner(),), min_length=1, strict=False)
    names: list[str] = Field(default=[])
    table: dict[str, int] = Field(default={})
    number: int = 1


LISTS: dict[str, tuple[dict[str, Any], str]] = {
    "too many": (
        {"files": ["a", "b", "c"]},
        "`files` must be a list of at most 2, but is ['a', 'b', 'c'] instead",
    ),
    "too few": ({"files": []}, "`files` must be a list of at least 1, but is [] instead"),
    "too many for a pair": (
        {"columns": [1, 2, 3]},
        "`columns` must be a list of at most 2, but is [1, 2, 3] instead",
    ),
    "not a tuple": ({"files": "a"}, "`files` must be a list, but is 'a' instead"),
    "not a list": ({"names": 3}, "`names` must be a list, but is 3 instead"),
    "not a dict": ({"table": "x"}, "`table` must be a table, but is 'x' instead"),
    "several types": (
        {"columns": [1.5, "b"]},
        "`columns.0` must be an integer or a string, but is 1.5 instead",
    ),
    "inside a list of tables": (
        {"parts": [{"weight": -1}]},
        "`parts.0.weight` must be above 0.0, but is -1 instead",
    ),
    "inside a list": ({"files": [1]}, "`files.0` must be a string, but is 1 instead"),
}


@pytest.mark.parametrize(("settings", "message"), LISTS.values(), ids=LISTS)
def test_errors_in_lists_and_tables(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Outer(**settings)
    assert list(map(str, error.value.problems)) == [message]


@pytest.mark.parametrize("depth", [100, 5_000, 100_000])
def test_deep_or_long_value_is_shortened_in_message(depth: int) -> None:
    deep: dict[str, Any] = {}
    for _ in range(depth):
        deep = {"a": deep}
    for value in (deep, "x" * 10 * depth):
        with pytest.raises(ConfigError, match=r"must be an integer, but is .*\.\.\.") as error:
            Outer.model_validate({"number": value})
        assert len(str(error.value)) < 300
