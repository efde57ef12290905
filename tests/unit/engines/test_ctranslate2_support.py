"""CTranslate2 is used only for settings that are listed as supported, on devices that it has."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch

import seq2see
from seq2see.bundle import Bundle
from seq2see.config import Config
from seq2see.engines import CTranslate2Engine, TorchEngine
from seq2see.engines.ctranslate2_conversion import (
    SUPPORTED_MODEL_SETTINGS,
    find_ctranslate2_unsupported_features,
    flatten_settings,
    get_cached_conversion,
)
from seq2see.engines.ctranslate2_engine import (
    SUPPORTED_INPUT_FIELDS,
    SUPPORTED_SEARCH_SETTINGS,
)
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.model.config import ATTENTION_SETTINGS
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, TokenizerConfig, TokenizerPair

TEXT = ["the cat sleeps", "a dog runs and the cat sleeps"]
MODEL = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
UNSUPPORTED_KINDS = {
    "attention.kind": {"additive", "qk_norm", "linformer"},
    "positions.kind": {"relative"},
    "norm.kind": {"batch", "none"},
}
"""Values that are known and rejected; all other values must be supported."""


def choices(config: type[Config], prefix: str = "") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each setting that has a list of values, with the values."""
    for name, field in config.model_fields.items():
        kind = field.annotation
        if get_origin(kind) is Literal:
            yield f"{prefix}{name}", get_args(kind)
        elif isinstance(kind, type) and issubclass(kind, Config):
            yield from choices(kind, f"{prefix}{name}.")


def model_config(setting: str, value: Any) -> ModelConfig:
    names = setting.split(".")
    for name in reversed(names):
        value = {name: value}
    return ModelConfig(vocab_size=20, **value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [(setting, value) for setting, values in choices(ModelConfig) for value in values],
)
def test_each_kind_of_a_model_is_supported_or_rejected(setting: str, value: str) -> None:
    site = "encoder_attention.kind" if value == "linformer" else setting
    problems = list(find_ctranslate2_unsupported_features(model_config(site, value)))
    assert bool(problems) == (value in UNSUPPORTED_KINDS.get(setting, set()))
    assert all(value in problem and "\n" not in problem for problem in problems)


def test_all_settings_of_a_model_are_listed() -> None:
    settings = {name for name, _, _ in flatten_settings(ModelConfig(vocab_size=20))}
    assert settings == {*SUPPORTED_MODEL_SETTINGS, *ATTENTION_SETTINGS}


def test_all_settings_of_a_search_are_supported_or_rejected() -> None:
    settings = {name for name, _, _ in flatten_settings(SearchConfig())}
    assert settings - SUPPORTED_SEARCH_SETTINGS == {
        "sampling",
        "num_beam_groups",
        "diversity_penalty",
        "coverage_penalty",
        "repetition_penalty",
        "no_repeat_ngram_size",
        "length.min_ratio",
    }
    assert settings >= SUPPORTED_SEARCH_SETTINGS


def test_all_fields_of_an_input_are_supported_or_rejected() -> None:
    fields = {field.name for field in dataclasses.fields(SentenceSearchInput)}
    assert fields == SUPPORTED_INPUT_FIELDS | {"prefix", "forbidden", "required"}


class LaterSearchConfig(SearchConfig):
    """A search with a setting that CTranslate2 does not know."""

    min_probability: float = 0.0


class LaterModelConfig(ModelConfig):
    """A model with a setting that CTranslate2 does not know."""

    experts: int = 1


@pytest.fixture(scope="module")
def model_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizers = TokenizerPair.train(TEXT * 9, TEXT * 9, TokenizerConfig(vocab_size=280))
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **MODEL)
    weights = Transformer.from_config(config).state_dict()
    directory = tmp_path_factory.mktemp("model")
    Bundle(config, tokenizers, ("en", "en"), weights).save(directory)
    return directory


def test_unknown_settings_are_rejected(model_directory: Path) -> None:
    pytest.importorskip("ctranslate2")
    assert not list(find_ctranslate2_unsupported_features(LaterModelConfig(vocab_size=20)))
    later = LaterModelConfig(vocab_size=20, experts=4)
    assert list(find_ctranslate2_unsupported_features(later)) == ["`experts` must be 1, but is 4"]
    bundle = Bundle.load(model_directory)
    engine = CTranslate2Engine(bundle, get_cached_conversion(bundle, print).directory)
    config = LaterSearchConfig(beam_size=1)
    assert engine.unsupported_reason(config) is None
    config = config.replace(min_probability=0.5)
    assert engine.unsupported_reason(config) == "its results are different with `min_probability`"
    assert not list(engine.search([SentenceSearchInput([5, EOS_ID])], config))


def test_device_number_is_passed_separately(model_directory: Path, monkeypatch) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    passed: dict[str, Any] = {}
    monkeypatch.setattr(ctranslate2, "Translator", lambda _, **settings: passed.update(settings))
    bundle = Bundle.load(model_directory)
    directory = get_cached_conversion(bundle, print).directory
    for device, expected in (("cpu", ("cpu", 0)), ("cuda", ("cuda", 0)), ("cuda:1", ("cuda", 1))):
        CTranslate2Engine(bundle, directory, device=torch.device(device))
        assert (passed["device"], passed["device_index"]) == expected


@pytest.mark.parametrize("engine", ["auto", "ctranslate2"])
def test_numbered_cpu_is_a_cpu(engine: Any, model_directory: Path) -> None:
    pytest.importorskip("ctranslate2")
    usual = seq2see.load(model_directory, engine)
    numbered = seq2see.load(model_directory, engine, device="cpu:0")
    assert numbered.engine.name == usual.engine.name
    assert numbered.translate(TEXT[0], beam_size=1) == usual.translate(TEXT[0], beam_size=1)


def test_numbered_cpu_uses_all_threads(model_directory: Path) -> None:
    engine = seq2see.load(model_directory, "torch", device="cpu:0", threads=2).engine
    assert isinstance(engine, TorchEngine)
    assert engine.thread_pool.num_threads == 2


def test_device_without_values_is_rejected(model_directory: Path) -> None:
    with pytest.raises(ConfigError, match="`device` must be available here .*but is meta instead"):
        seq2see.load(model_directory, device="meta")


def test_device_that_ctranslate2_lacks_is_rejected(model_directory: Path, monkeypatch) -> None:
    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: torch.tensor([0.0]))
    with pytest.raises(InputError, match="cannot run this model: it cannot use the device mps"):
        seq2see.load(model_directory, "ctranslate2", device="mps")
