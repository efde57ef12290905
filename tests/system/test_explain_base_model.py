"""What a trace of the base model costs: seconds and megabytes."""

from __future__ import annotations

import time

import pytest
import torch

from seq2see.data import fables
from seq2see.explain import ExplainedModel, trace_translation
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair

WORDS = (
    "The animal did not cross the street because it was too tired and the dog was in the garden ."
)
AS_LONG = SearchConfig(beam_size=5, length=LengthConfig(max_ratio=1.0, max_extra=2))
"""A model that has learned nothing would go on and on."""


@pytest.fixture(scope="module")
def base() -> ExplainedModel:
    text = [f"{fable.source} {fable.target}" for fable in fables.load_fables("test", True)]
    tokenizers = TokenizerPair.train(text, text, TokenizerConfig(vocab_size=700))
    torch.manual_seed(1)
    config = ModelConfig.from_preset("base", vocab_size=tokenizers.source.vocab_size)
    assert (config.d_model, config.encoder_layers, config.heads) == (512, 6, 8)
    return ExplainedModel(Transformer.from_config(config).eval(), tokenizers, ("en", "fr"))


@pytest.mark.slow
def test_twenty_words_take_less_than_three_seconds(base: ExplainedModel) -> None:
    assert len(WORDS.split()) == 20
    taken = []
    for _ in range(3):  # the machine may have other work to do
        start = time.perf_counter()
        made = trace_translation(base, WORDS, search=AS_LONG)
        taken.append(time.perf_counter() - start)
    assert len(made.steps) >= 20
    assert min(taken) < 3


@pytest.mark.slow
def test_a_hundred_words_stay_below_fifty_megabytes(base: ExplainedModel) -> None:
    made = trace_translation(base, " ".join([WORDS] * 5), search=AS_LONG)
    assert len(made.source.tokens) > 100
    assert len(made.steps) > 100
    assert len(made.to_json().encode()) < 50e6
