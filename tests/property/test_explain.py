"""Traces of any small model and any sentence keep their promises."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings, strategies as st

from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.explain import (
    AblateHeads,
    ExplainedModel,
    MaskKeys,
    ScaleAttentionScores,
    Trace,
    TraceOptions,
    copy_model_with_interventions,
    trace_translation,
)
from seq2see.explain.source_attribution import average_ranks
from seq2see.explain.trace_format import decode_tensor, encode_tensor
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig, SentenceSearchInput
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translator

LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "l'eau coule !", "我喜欢猫。"]
WORDS = ["the", "cat", "sleeps", "dog", "runs", "l'eau", "猫", ".", "!"]


@cache
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))


@st.composite
def explained_models(draw: Any) -> ExplainedModel:
    kind = draw(st.sampled_from(["scaled_dot", "additive", "qk_norm"]))
    positions = "sinusoid" if kind != "scaled_dot" else draw(st.sampled_from(["relative", "none"]))
    config = ModelConfig(
        vocab_size=tokenizers().source.vocab_size,
        d_model=8,
        d_ff=8,
        heads=draw(st.sampled_from([1, 2, 4])),
        encoder_layers=draw(st.integers(1, 2)),
        decoder_layers=draw(st.integers(1, 3)),
        attention={"kind": kind},
        positions={"kind": positions},
        norm={"placement": draw(st.sampled_from(["pre", "post"]))},
    )
    torch.manual_seed(draw(st.integers(0, 99)))
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2.0)
    return ExplainedModel(Translator(TorchEngine(model), tokenizers(), ("en", "fr")))


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
searches = st.builds(
    SearchConfig,
    beam_size=st.integers(1, 4),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0]),
    length=st.just(LengthConfig(max_ratio=1.0, max_extra=3)),
)


@settings(max_examples=15)
@given(explained_models(), sentences, searches)
def test_trace_matches_engine_and_survives_json(
    explained: ExplainedModel, text: str, search: SearchConfig
) -> None:
    trace = trace_translation(explained, text, search=search, options=TraceOptions(layers="all"))
    ids = explained.encode_source(text)
    inputs = [SentenceSearchInput(add_special_tokens(ids))]
    results = TorchEngine(explained.model).search(inputs, search)
    (best,) = collect_in_order(results)
    assert tuple(token.id for token in trace.target.tokens) == best[0].tokens
    np.testing.assert_allclose(trace.translation.log_prob, best[0].log_prob, atol=1e-3)
    path = [trace.beam.nodes[number] for number in trace.beam.best_path]
    np.testing.assert_allclose(
        sum(node.token_log_prob for node in path), trace.translation.log_prob, atol=1e-3
    )
    for each in trace.attention:
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        if each.mask is not None:
            assert (each.weights[np.broadcast_to(each.mask, each.weights.shape) == 1] == 0).all()
    assert Trace.from_json(trace.to_json()).to_json() == trace.to_json()


@settings(max_examples=15)
@given(explained_models(), sentences)
def test_neutral_interventions_change_nothing(explained: ExplainedModel, text: str) -> None:
    model, source = explained.model, explained.build_source_BS(explained.encode_source(text))
    target = torch.tensor([[2, 9, 8]])
    with torch.inference_mode():
        plain = copy_model_with_interventions(model, [])(source, target)
        for neutral in (
            ScaleAttentionScores(stack="encoder", layer=0, attention="self", factor=1.0),
            MaskKeys(stack="decoder", attention="cross", keys=(999,)),
        ):
            assert torch.equal(
                copy_model_with_interventions(model, [neutral])(source, target), plain
            )
        ablation = AblateHeads(stack="decoder", layer=0, attention="cross")
        twice = copy_model_with_interventions(copy_model_with_interventions(model, [ablation]), [])(
            source, target
        )
        assert torch.equal(twice, copy_model_with_interventions(model, [ablation])(source, target))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.sampled_from(["<f4", "u1"]))
def test_tensor_encoding_round_trip(numbers: list[int], dtype: str) -> None:
    array = np.array(numbers, dtype)[None]
    assert np.array_equal(decode_tensor(encode_tensor(array)), array)
    assert decode_tensor(encode_tensor(array)).dtype == array.dtype


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_average_ranks_count_smaller_and_equal_values(values: list[int]) -> None:
    ranks = average_ranks(np.array(values))
    assert ranks.sum() == len(values) * (len(values) - 1) / 2
    for a, x in zip(ranks, values, strict=True):
        below, equal = sum(y < x for y in values), sum(y == x for y in values)
        assert a == below + (equal - 1) / 2
