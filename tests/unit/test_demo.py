"""What the demo measures: "it" cannot be told where its predicate is hidden."""

from __future__ import annotations

import pytest

from seq2see.bundle import Bundle, Origin
from seq2see.cli.fable import _control, _learnt_short
from seq2see.data import fables
from seq2see.engines.torch import TorchEngine
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, Tokenizers
from seq2see.translator import Translator

CASES = fables.novel_pairs(short=True)[:20]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    sides = [fable.source for fable in CASES], [fable.target for fable in CASES]
    return Tokenizers.train(*sides, TokenizerConfig(vocab_size=340))


def config(tokenizers: Tokenizers) -> ModelConfig:
    small = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return ModelConfig(vocab_size=tokenizers.source.vocab_size, **small)


def test_any_model_gets_half_of_the_controls_right(tokenizers: Tokenizers) -> None:
    """Cases come as twins: what is right for one is wrong for the other."""
    model = Transformer.from_config(config(tokenizers)).eval()
    found = _control(Translator(TorchEngine(model), tokenizers), CASES)
    assert (found.cases, found.right) == (20, 10)


@pytest.mark.parametrize(("name", "short"), [("fables-short", True), ("fables", False)])
def test_a_model_knows_what_it_learnt_from(tokenizers: Tokenizers, name: str, short: bool) -> None:
    model = Transformer.from_config(config(tokenizers))
    origin = Origin(recipe={"data": {"train": [{"files": [f"builtin:{name}"]}]}})
    bundle = Bundle(config(tokenizers), tokenizers, ("en", "fr"), model.state_dict(), origin=origin)
    assert _learnt_short(bundle) is short
