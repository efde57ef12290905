"""Attributions: what they sum to, what they were made from, and how they are compared."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from seq2see.errors import InputError
from seq2see.explain import ExplainedModel, Trace, TraceOptions, trace_translation
from seq2see.explain.attribution import (
    SourceAttributor,
    average_ranks,
    compute_attention_rollout,
    compute_rank_correlation,
    sum_by_word,
)
from seq2see.explain.trace import Attribution, AttributionMethod
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair

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


def subject(**settings: Any) -> ExplainedModel:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(5)
    table = {"vocab_size": tokenizers().source.vocab_size, **sizes, **settings}
    model = Transformer.from_config(ModelConfig(**table)).eval()
    return ExplainedModel(model, tokenizers(), ("en", "fr"))


@cache
def explained() -> Trace:
    return trace_translation(
        subject(), TEXT, "le chat dort .", options=TraceOptions(attributions=METHODS)
    )


def found(method: AttributionMethod) -> Attribution:
    return next(each for each in explained().attributions if each.method == method)


def test_all_methods_share_one_axis() -> None:
    made = explained()
    shape = (len(made.steps), len(made.source.words))
    assert [each.method for each in made.attributions] == list(METHODS)
    for each in made.attributions:
        assert each.word_scores.shape == shape
        if each.token_scores is not None:
            assert each.token_scores.shape == (shape[0], len(made.source.tokens))
            np.testing.assert_allclose(
                each.word_scores, sum_by_word(each.token_scores, made.source), atol=1e-6
            )
    assert made.rank_correlation is not None
    table = made.rank_correlation.correlation
    np.testing.assert_allclose(np.diag(table), 1, atol=1e-6)
    np.testing.assert_allclose(table, table.T, atol=1e-6)
    assert (np.abs(table) <= 1 + 1e-6).all()


def test_integrated_gradients_are_complete() -> None:
    """They sum to what the tokens add to the log-probability, to one percent."""
    integrated = found("integrated_gradients")
    assert integrated.convergence_delta is not None
    assert integrated.convergence_delta <= 0.01
    question = SourceAttributor(subject(), explained())
    empty, own = question._input()
    difference = (question._values(empty + own) - question._values(empty))[0].numpy()
    assert integrated.token_scores is not None
    sums = integrated.token_scores.sum(1)
    allowed = 0.01 * np.maximum(np.abs(difference), 0.1) + 1e-5
    assert (np.abs(sums - difference) <= allowed).all()
    whole = [step.log_prob for step in explained().steps]
    np.testing.assert_allclose(question._values(empty + own)[0], whole, atol=1e-4)


def test_gradient_x_input_is_a_slope() -> None:
    """Its sum is the derivative along the tokens' own part, taken numerically here."""
    of = subject()
    of = ExplainedModel(of.model.double(), of.tokenizers, of.languages)
    made = trace_translation(
        of, TEXT, "le chat dort .", options=TraceOptions(attributions=("gradient_x_input",))
    )
    question = SourceAttributor(of, made)
    empty, own = question._input()
    step = 1e-5
    ends = [question._values(empty + (1 + sign * step) * own)[0] for sign in (1, -1)]
    slope = ((ends[0] - ends[1]) / (2 * step)).numpy()
    (attribution,) = made.attributions
    assert attribution.token_scores is not None
    np.testing.assert_allclose(attribution.token_scores.sum(1), slope, rtol=1e-4, atol=1e-5)


def test_occlusion_is_what_is_lost_without_the_word() -> None:
    of, made = subject(), explained()
    word = made.source.words[1]
    ids = [token.id for token in made.source.tokens]
    ids[word.first_token : word.end_token] = [0] * (word.end_token - word.first_token)
    given = [made.start_token.id, *(token.id for token in made.target.tokens[:-1])]
    emitted = torch.tensor([token.id for token in made.target.tokens])
    with torch.inference_mode():
        log_probs = of.model(torch.tensor([ids]), torch.tensor([given])).log_softmax(-1)[0]
    without = log_probs.gather(1, emitted[:, None])[:, 0].numpy()
    lost = [step.log_prob for step in made.steps] - without
    np.testing.assert_allclose(found("occlusion").word_scores[:, 1], lost, atol=1e-4)


def test_attention_is_the_mean_of_cross_attention() -> None:
    maps = [each.weights for each in explained().attention if each.kind == "cross"]
    mean = np.stack(maps).mean((0, 1))
    np.testing.assert_allclose(found("attention").token_scores, mean, atol=1e-6)


def test_rollout_of_one_layer_by_hand() -> None:
    """Half stays, half is what was seen; the source is seen through the encoder."""
    made = trace_translation(subject(encoder_layers=1, decoder_layers=1), TEXT, "le chat dort .")
    seen = made.attention_map("encoder", 0, "self").weights.mean(0)
    cross = made.attention_map("decoder", 0, "cross").weights.mean(0)
    by_hand = cross @ ((np.eye(len(seen)) + seen) / 2) / 2
    np.testing.assert_allclose(compute_attention_rollout(made), by_hand, atol=1e-6)
    np.testing.assert_allclose(compute_attention_rollout(made).sum(1), 0.5, atol=1e-5)


def test_rollout_cannot_follow_mixtures() -> None:
    of = subject(encoder_attention={"kind": "linformer", "rank": 3})
    with pytest.raises(InputError, match="linformer"):
        trace_translation(of, TEXT, "le chat .", options=TraceOptions(attributions=("rollout",)))


@pytest.mark.parametrize(
    "change", [{"positions": {"kind": "relative"}}, {"norm": {"placement": "pre"}}]
)
def test_the_slopes_of_other_models(change: dict[str, Any]) -> None:
    methods: tuple[AttributionMethod, ...] = ("gradient_x_input", "integrated_gradients")
    made = trace_translation(
        subject(**change), TEXT, "le chat .", options=TraceOptions(attributions=methods)
    )
    assert made.attributions[1].convergence_delta is not None
    assert made.attributions[1].convergence_delta <= 0.01


def test_ranks_by_hand() -> None:
    assert average_ranks(np.array([10.0, 20.0, 20.0, 5.0])).tolist() == [1, 2.5, 2.5, 0]


def attribution(method: AttributionMethod, *rows: list[float]) -> Attribution:
    return Attribution(
        method=method, token_scores=None, word_scores=np.array(rows, np.float32), is_signed=True
    )


def test_rank_correlation_by_hand() -> None:
    rising = attribution("occlusion", [1, 2, 3], [1, 2, 3])
    falling = attribution("attention", [3, 2, 1], [-3, 2, 1])  # the sign does not count
    half = attribution("rollout", [1, 3, 2], [5, 5, 5])  # the second row has no order
    table = compute_rank_correlation([rising, falling, half])
    assert table is not None
    np.testing.assert_allclose(
        table.correlation, [[1, -1, 0.5], [-1, 1, -0.5], [0.5, -0.5, 1]], atol=1e-6
    )
    assert compute_rank_correlation([rising]) is None
    assert compute_rank_correlation([attribution("occlusion", [1, 2])] * 2) is None
