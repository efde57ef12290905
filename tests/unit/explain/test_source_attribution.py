"""Attributions: their sums, definitions and rank correlation."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain import ExplainedModel, Trace, TraceOptions, trace_translation
from seq2see.explain.source_attribution import (
    SourceAttributor,
    average_ranks,
    compute_attention_rollout,
    correlate_attribution_methods,
    split_source_embeddings,
    sum_by_word,
)
from seq2see.explain.trace_format import AttributionMethod, SourceAttribution
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translator

METHODS: tuple[AttributionMethod, ...] = (
    "attention",
    "rollout",
    "gradient_x_input",
    "integrated_gradients",
    "occlusion",
)
LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "le chat dort .", "l'eau coule !"]
TEXT = "the cat sleeps ."


@cache
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))


def explained_model(**settings: Any) -> ExplainedModel:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(5)
    table = {"vocab_size": tokenizers().source.vocab_size, **sizes, **settings}
    model = Transformer.from_config(ModelConfig(**table)).eval()
    return ExplainedModel(Translator(TorchEngine(model), tokenizers(), ("en", "fr")))


@cache
def attributed_trace() -> Trace:
    return trace_translation(
        explained_model(), TEXT, "le chat dort .", options=TraceOptions(attributions=METHODS)
    )


def attribution_of(method: AttributionMethod) -> SourceAttribution:
    return next(each for each in attributed_trace().attributions if each.method == method)


def test_all_methods_have_scores_per_source_word() -> None:
    trace = attributed_trace()
    shape = (len(trace.steps), len(trace.source.words))
    assert [each.method for each in trace.attributions] == list(METHODS)
    for each in trace.attributions:
        assert each.word_scores.shape == shape
        if each.token_scores is not None:
            assert each.token_scores.shape == (shape[0], len(trace.source.tokens))
            np.testing.assert_allclose(
                each.word_scores, sum_by_word(each.token_scores, trace.source), atol=1e-6
            )
    assert trace.rank_correlation is not None
    table = trace.rank_correlation.correlation
    np.testing.assert_allclose(np.diag(table), 1, atol=1e-6)
    np.testing.assert_allclose(table, table.T, atol=1e-6)
    assert (np.abs(table) <= 1 + 1e-6).all()


def log_probs_of(attributor: SourceAttributor, x_1SM: torch.Tensor) -> torch.Tensor:
    """Return the log-probabilities of the target tokens for these encoder inputs."""
    with torch.no_grad():
        return attributor.compute_log_probs(attributor._encode(x_1SM))[0]


def test_integrated_gradients_sum_to_log_prob_change() -> None:
    integrated = attribution_of("integrated_gradients")
    assert integrated.convergence_delta is not None
    assert integrated.convergence_delta <= 0.01
    attributor = SourceAttributor(explained_model(), attributed_trace())
    baseline, tokens = split_source_embeddings(attributor.model, attributor.source_1S)
    log_probs = log_probs_of(attributor, baseline + tokens)
    difference = (log_probs - log_probs_of(attributor, baseline)).numpy()
    assert integrated.token_scores is not None
    sums = integrated.token_scores.sum(1)
    allowed = 0.01 * np.maximum(np.abs(difference), 0.1) + 1e-5
    assert (np.abs(sums - difference) <= allowed).all()
    step_log_probs = [step.log_prob for step in attributed_trace().steps]
    np.testing.assert_allclose(log_probs, step_log_probs, atol=1e-4)


def test_gradient_x_input_equals_numerical_derivative() -> None:
    """The sum over tokens is the derivative along the token embeddings."""
    explained = explained_model()
    explained = ExplainedModel(explained.translator, explained.model.double())
    trace = trace_translation(
        explained, TEXT, "le chat dort .", options=TraceOptions(attributions=("gradient_x_input",))
    )
    attributor = SourceAttributor(explained, trace)
    baseline, tokens = split_source_embeddings(attributor.model, attributor.source_1S)
    step = 1e-5
    upper, lower = (
        log_probs_of(attributor, baseline + (1 + sign * step) * tokens) for sign in (1, -1)
    )
    derivative = ((upper - lower) / (2 * step)).numpy()
    (attribution,) = trace.attributions
    assert attribution.token_scores is not None
    np.testing.assert_allclose(attribution.token_scores.sum(1), derivative, rtol=1e-4, atol=1e-5)


def test_occlusion_equals_log_prob_loss_of_masked_word() -> None:
    explained, trace = explained_model(), attributed_trace()
    word = trace.source.words[1]
    ids = [token.id for token in trace.source.tokens]
    ids[word.first_token : word.end_token] = [0] * (word.end_token - word.first_token)
    decoder_input = [trace.start_token.id, *(token.id for token in trace.target.tokens[:-1])]
    target = torch.tensor([token.id for token in trace.target.tokens])
    with torch.inference_mode():
        log_probs = explained.model(torch.tensor([ids]), torch.tensor([decoder_input])).log_softmax(
            -1
        )[0]
    occluded = log_probs.gather(1, target[:, None])[:, 0].numpy()
    loss = [step.log_prob for step in trace.steps] - occluded
    np.testing.assert_allclose(attribution_of("occlusion").word_scores[:, 1], loss, atol=1e-4)


def test_attention_method_is_mean_cross_attention() -> None:
    maps = [each.weights for each in attributed_trace().attention if each.kind == "cross"]
    mean = np.stack(maps).mean((0, 1))
    np.testing.assert_allclose(attribution_of("attention").token_scores, mean, atol=1e-6)


def test_rollout_of_one_layer_matches_formula() -> None:
    """Each sublayer adds half of its input and half of its attention output."""
    trace = trace_translation(
        explained_model(encoder_layers=1, decoder_layers=1), TEXT, "le chat dort ."
    )
    encoder = trace.attention_map("encoder", 0, "self").weights.mean(0)
    cross = trace.attention_map("decoder", 0, "cross").weights.mean(0)
    expected = cross @ ((np.eye(len(encoder)) + encoder) / 2) / 2
    np.testing.assert_allclose(compute_attention_rollout(trace), expected, atol=1e-6)
    np.testing.assert_allclose(compute_attention_rollout(trace).sum(1), 0.5, atol=1e-5)


def test_rollout_rejects_linformer_attention() -> None:
    explained = explained_model(encoder_attention={"kind": "linformer", "rank": 3})
    with pytest.raises(InputError, match="linformer"):
        trace_translation(
            explained, TEXT, "le chat .", options=TraceOptions(attributions=("rollout",))
        )


@pytest.mark.parametrize(
    "settings", [{"positions": {"kind": "relative"}}, {"norm": {"placement": "pre"}}]
)
def test_integrated_gradients_converge_for_other_models(settings: dict[str, Any]) -> None:
    methods: tuple[AttributionMethod, ...] = ("gradient_x_input", "integrated_gradients")
    trace = trace_translation(
        explained_model(**settings), TEXT, "le chat .", options=TraceOptions(attributions=methods)
    )
    assert trace.attributions[1].convergence_delta is not None
    assert trace.attributions[1].convergence_delta <= 0.01


def test_average_ranks_of_equal_values() -> None:
    assert average_ranks(np.array([10.0, 20.0, 20.0, 5.0])).tolist() == [1, 2.5, 2.5, 0]


def attribution(method: AttributionMethod, *rows: list[float]) -> SourceAttribution:
    return SourceAttribution(
        method=method, token_scores=None, word_scores=np.array(rows, np.float32), is_signed=True
    )


def test_rank_correlation_of_known_rankings() -> None:
    rising = attribution("occlusion", [1, 2, 3], [1, 2, 3])
    falling = attribution("attention", [3, 2, 1], [-3, 2, 1])  # absolute values are ranked
    half = attribution("rollout", [1, 3, 2], [5, 5, 5])  # the second row is constant
    table = correlate_attribution_methods([rising, falling, half])
    assert table is not None
    np.testing.assert_allclose(
        table.correlation, [[1, -1, 0.5], [-1, 1, -0.5], [0.5, -0.5, 1]], atol=1e-6
    )
    assert correlate_attribution_methods([rising]) is None
    assert correlate_attribution_methods([attribution("occlusion", [1, 2])] * 2) is None
