"""Activation patching, and what decides between two tokens in two sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.explain.activation_patching import (
    ActivationPatcher,
    NextTokenPreference,
    isolate_source_tokens,
)
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.sentence_contrast import (
    SentenceContrast,
    contrast_sentences,
    integrate_source_gradients,
)
from seq2see.explain.sentence_contrast_figure import save_contrast_figure
from seq2see.explain.source_attribution import split_source_embeddings
from seq2see.model import ModelConfig, Transformer
from seq2see.translator import load

GOLDEN_MODEL = Path(__file__).parents[2] / "golden" / "model"
SOURCES = torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([[5, 4, 7, 3, 9]])
PREFERENCE = NextTokenPreference((1, 4, 6), 3, 7)
VARIANTS: list[dict[str, Any]] = [
    {},
    {"norm": {"placement": "pre"}},
    {"norm": {"kind": "none"}},
    {"attention": {"kind": "qk_norm"}},
    {"attention": {"kind": "additive", "shared_qk": True}},
    {"positions": {"kind": "relative", "max_distance": 3}},
    {"encoder_attention": {"kind": "linformer", "rank": 3}},
    {"embeddings": {"tie": "none", "norm": True}},
]


def random_model(variant: dict[str, Any]) -> Transformer:
    sizes = {"d_model": 12, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 2, "heads": 3}
    torch.manual_seed(1)
    return Transformer.from_config(ModelConfig(vocab_size=11, **sizes, **variant)).eval()


def preference_of(model: Transformer, source_1S: Tensor) -> float:
    with torch.inference_mode():
        return PREFERENCE.compute(model, model.encode(source_1S)).item()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_patching_all_activations_moves_the_whole_preference(variant: dict[str, Any]) -> None:
    model = random_model(variant)
    patcher = ActivationPatcher(model, SOURCES, PREFERENCE)
    unpatched = [preference_of(model, source_1S) for source_1S in SOURCES]
    assert patcher.unpatched == pytest.approx(unpatched, abs=1e-5)
    assert abs(unpatched[0] - unpatched[1]) > 1e-4
    assert patcher.measure(0, patcher.activations) == pytest.approx(unpatched[1], abs=1e-5)
    assert patcher.measure(1, patcher.activations) == pytest.approx(unpatched[0], abs=1e-5)
    shift = patcher.measure_shift(patcher.activations)
    assert shift == pytest.approx(unpatched[0] - unpatched[1], abs=1e-5)


def test_patching_nothing_moves_nothing() -> None:
    patcher = ActivationPatcher(random_model({}), SOURCES, PREFERENCE)
    assert patcher.measure(0, []) == patcher.unpatched[0]
    assert patcher.measure_shift([]) == 0
    no_tokens = [each._replace(tokens=slice(0, 0)) for each in patcher.activations]
    assert patcher.measure_shift(no_tokens) == 0


def test_patching_between_equal_sentences_moves_nothing() -> None:
    patcher = ActivationPatcher(random_model({}), [SOURCES[0], SOURCES[0]], PREFERENCE)
    assert [patcher.measure_shift([each]) for each in patcher.activations] == [0.0] * 23


def test_patched_model_is_not_modified() -> None:
    model = random_model({})
    before = preference_of(model, SOURCES[0])
    patcher = ActivationPatcher(model, SOURCES, PREFERENCE)
    patcher.measure(0, patcher.activations)
    assert preference_of(model, SOURCES[0]) == before
    assert patcher.measure(0, []) == patcher.unpatched[0], "the hooks were removed"


def test_patching_all_heads_and_tokens_separately_equals_the_module() -> None:
    patcher = ActivationPatcher(random_model({}), SOURCES, PREFERENCE)
    heads = [each for each in patcher.activations if each.address == "encoder.1.self"]
    parts = [head._replace(tokens=slice(index, index + 1)) for head in heads for index in range(5)]
    assert len(heads) == 3
    assert patcher.measure(0, parts) == patcher.measure(0, heads) != patcher.unpatched[0]


def test_sentences_of_different_lengths_are_not_patched() -> None:
    with pytest.raises(InputError, match="but have 5 and 4: patching pairs them token by token"):
        ActivationPatcher(random_model({}), [SOURCES[0], SOURCES[0][:, :4]], PREFERENCE)


def test_isolated_tokens_do_not_depend_on_other_tokens() -> None:
    model = random_model({})
    isolated = isolate_source_tokens(model, slice(2, 3))
    first, second = (isolated.encode(source_1S).states_BSM[0] for source_1S in SOURCES)
    torch.testing.assert_close(first[2], second[2])
    assert not torch.allclose(first[4], second[4])
    plain, other = (model.encode(source_1S).states_BSM[0] for source_1S in SOURCES)
    assert not torch.allclose(plain[2], other[2])


def contrast(*texts: str) -> SentenceContrast:
    explained = ExplainedModel(load(GOLDEN_MODEL, "torch"))
    il, elle = explained.encode_targets(
        [f"L'animal est grand parce qu'{p}" for p in ("il", "elle")]
    )
    step = next(i for i, (a, b) in enumerate(zip(il, elle, strict=False)) if a != b)
    prefix = (explained.special_tokens.decoder_start_id, *il[:step])
    return contrast_sentences(explained, texts, NextTokenPreference(prefix, il[step], elle[step]))


def test_contrast_measures_words_heads_and_pronoun(tmp_path: Path) -> None:
    result = contrast("The animal was tired. It slept.", "The animal was muddy. It slept.")
    for sentence in result.sentences:
        assert [word.text for word in sentence.words][-3:] == ["It", "slept", "."]
        assert sentence.isolated_preference not in (None, sentence.preference)
        assert len(sentence.pronoun_attention) == len(sentence.words)
        assert 0 < sum(sentence.pronoun_attention) <= 1.0001
    heads = [each for each in result.patching if each.head is not None]
    assert len(heads) == 16
    assert result.shown_heads[0].shift == max(
        (each.shift for each in heads if each.address != "decoder.0.self"), key=abs
    )
    save_contrast_figure(tmp_path / "it.svg", result)
    assert "isolated" in (tmp_path / "it.svg").read_text("utf-8")


def test_contrast_of_sentences_with_different_lengths_has_no_patching(tmp_path: Path) -> None:
    result = contrast("The animal slept.", "The animal slept on the street.")
    assert result.patching == result.shown_heads == ()
    assert result.patching_problem
    assert "same number of tokens" in result.patching_problem
    assert [sentence.isolated_preference for sentence in result.sentences] == [None, None]
    save_contrast_figure(tmp_path / "it.svg", result)
    assert "same number" in (tmp_path / "it.svg").read_text("utf-8")


@pytest.mark.parametrize("variant", [{}, {"norm": {"placement": "pre"}}], ids=str)
def test_integrated_gradients_sum_to_the_change_of_the_preference(variant: dict[str, Any]) -> None:
    model = random_model(variant)
    baseline_1SM, _ = split_source_embeddings(model, SOURCES[0])
    padding_1S = torch.zeros(1, 5, dtype=torch.bool)
    with torch.inference_mode():
        baseline = model.encoder.encode_embeddings(baseline_1SM, padding_1S)
        change = preference_of(model, SOURCES[0]) - PREFERENCE.compute(model, baseline).item()
    gradients_S = integrate_source_gradients(model, SOURCES[0], PREFERENCE)
    assert gradients_S.sum().item() == pytest.approx(change, rel=0.01)
