"""Attributions: what they sum to, what they were made from, and how they are compared."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from seq2see.errors import InputError
from seq2see.explain import Detail, Subject, Trace, trace
from seq2see.explain.attribution import Question, agreement, by_word, ranks, rollout
from seq2see.explain.trace import Attribution, Method
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, Tokenizers

METHODS: tuple[Method, ...] = (
    "attention",
    "rollout",
    "gradient_x_input",
    "integrated_gradients",
    "occlusion",
)
LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "le chat dort .", "l'eau coule !"]
TEXT = "the cat sleeps ."


@cache
def tokenizers() -> Tokenizers:
    return Tokenizers.train(LINES, LINES, TokenizerConfig(vocab_size=300))


def subject(**settings: Any) -> Subject:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(5)
    table = {"vocab_size": tokenizers().source.vocab_size, **sizes, **settings}
    model = Transformer.from_config(ModelConfig(**table)).eval()
    return Subject(model, tokenizers(), ("en", "fr"))


@cache
def explained() -> Trace:
    return trace(subject(), TEXT, "le chat dort .", detail=Detail(methods=METHODS))


def found(method: Method) -> Attribution:
    return next(each for each in explained().attributions if each.method == method)


def test_all_methods_share_one_axis() -> None:
    made = explained()
    shape = (len(made.steps), len(made.source.words))
    assert [each.method for each in made.attributions] == list(METHODS)
    for each in made.attributions:
        assert each.words.shape == shape
        if each.tokens is not None:
            assert each.tokens.shape == (shape[0], len(made.source.tokens))
            np.testing.assert_allclose(each.words, by_word(each.tokens, made.source), atol=1e-6)
    assert made.agreement is not None
    table = made.agreement.correlation
    np.testing.assert_allclose(np.diag(table), 1, atol=1e-6)
    np.testing.assert_allclose(table, table.T, atol=1e-6)
    assert (np.abs(table) <= 1 + 1e-6).all()


def test_integrated_gradients_are_complete() -> None:
    """They sum to what the tokens add to the log-probability, to one percent."""
    integrated = found("integrated_gradients")
    assert integrated.gap is not None
    assert integrated.gap <= 0.01
    question = Question(subject(), explained())
    empty, own = question._input()
    difference = (question._values(empty + own) - question._values(empty))[0].numpy()
    assert integrated.tokens is not None
    sums = integrated.tokens.sum(1)
    allowed = 0.01 * np.maximum(np.abs(difference), 0.1) + 1e-5
    assert (np.abs(sums - difference) <= allowed).all()
    whole = [step.log_prob for step in explained().steps]
    np.testing.assert_allclose(question._values(empty + own)[0], whole, atol=1e-4)


def test_gradient_x_input_is_a_slope() -> None:
    """Its sum is the derivative along the tokens' own part, taken numerically here."""
    of = subject()
    of = Subject(of.model.double(), of.tokenizers, of.languages)
    made = trace(of, TEXT, "le chat dort .", detail=Detail(methods=("gradient_x_input",)))
    question = Question(of, made)
    empty, own = question._input()
    step = 1e-5
    ends = [question._values(empty + (1 + sign * step) * own)[0] for sign in (1, -1)]
    slope = ((ends[0] - ends[1]) / (2 * step)).numpy()
    (attribution,) = made.attributions
    assert attribution.tokens is not None
    np.testing.assert_allclose(attribution.tokens.sum(1), slope, rtol=1e-4, atol=1e-5)


def test_occlusion_is_what_is_lost_without_the_word() -> None:
    of, made = subject(), explained()
    word = made.source.words[1]
    ids = [token.id for token in made.source.tokens]
    ids[word.first : word.end] = [0] * (word.end - word.first)
    given = [made.start.id, *(token.id for token in made.target.tokens[:-1])]
    emitted = torch.tensor([token.id for token in made.target.tokens])
    with torch.inference_mode():
        log_probs = of.model(torch.tensor([ids]), torch.tensor([given])).log_softmax(-1)[0]
    without = log_probs.gather(1, emitted[:, None])[:, 0].numpy()
    lost = [step.log_prob for step in made.steps] - without
    np.testing.assert_allclose(found("occlusion").words[:, 1], lost, atol=1e-4)


def test_attention_is_the_mean_of_cross_attention() -> None:
    maps = [each.weights for each in explained().attention if each.kind == "cross"]
    mean = np.stack(maps).mean((0, 1))
    np.testing.assert_allclose(found("attention").tokens, mean, atol=1e-6)


def test_rollout_of_one_layer_by_hand() -> None:
    """Half stays, half is what was seen; the source is seen through the encoder."""
    made = trace(subject(encoder_layers=1, decoder_layers=1), TEXT, "le chat dort .")
    seen = made.at("encoder", 0, "self").weights.mean(0)
    cross = made.at("decoder", 0, "cross").weights.mean(0)
    by_hand = cross @ ((np.eye(len(seen)) + seen) / 2) / 2
    np.testing.assert_allclose(rollout(made), by_hand, atol=1e-6)
    np.testing.assert_allclose(rollout(made).sum(1), 0.5, atol=1e-5)


def test_rollout_cannot_follow_mixtures() -> None:
    of = subject(encoder_attention={"kind": "linformer", "rank": 3})
    with pytest.raises(InputError, match="linformer"):
        trace(of, TEXT, "le chat .", detail=Detail(methods=("rollout",)))


@pytest.mark.parametrize(
    "change", [{"positions": {"kind": "relative"}}, {"norm": {"placement": "pre"}}]
)
def test_the_slopes_of_other_models(change: dict[str, Any]) -> None:
    methods: tuple[Method, ...] = ("gradient_x_input", "integrated_gradients")
    made = trace(subject(**change), TEXT, "le chat .", detail=Detail(methods=methods))
    assert made.attributions[1].gap is not None
    assert made.attributions[1].gap <= 0.01


def test_ranks_by_hand() -> None:
    assert ranks(np.array([10.0, 20.0, 20.0, 5.0])).tolist() == [1, 2.5, 2.5, 0]


def attribution(method: Method, *rows: list[float]) -> Attribution:
    return Attribution(method=method, tokens=None, words=np.array(rows, np.float32), signed=True)


def test_rank_correlation_by_hand() -> None:
    rising = attribution("occlusion", [1, 2, 3], [1, 2, 3])
    falling = attribution("attention", [3, 2, 1], [-3, 2, 1])  # the sign does not count
    half = attribution("rollout", [1, 3, 2], [5, 5, 5])  # the second row has no order
    table = agreement([rising, falling, half])
    assert table is not None
    np.testing.assert_allclose(
        table.correlation, [[1, -1, 0.5], [-1, 1, -0.5], [0.5, -0.5, 1]], atol=1e-6
    )
    assert agreement([rising]) is None
    assert agreement([attribution("occlusion", [1, 2])] * 2) is None
