"""The packed output projection equals that of the model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.engines.torch_decoder import (
    MIN_ROWS_TO_PACK,
    choose_output_projection,
)
from seq2see.engines.torch_engine import TorchEngine
from seq2see.model import ModelConfig, Transformer
from seq2see.model.embeddings import OutputProjection, TokenEmbedding
from seq2see.search import Hypothesis, SearchConfig, SentenceSearchInput

VOCAB, FEATURES = 40, 8
GREEDY = SearchConfig(beam_size=1)


def made(bias: bool = False) -> OutputProjection:
    torch.manual_seed(1)
    output = OutputProjection(TokenEmbedding(VOCAB, FEATURES), bias)
    for weight in output.parameters():
        nn.init.normal_(weight)
    return output


def model() -> Transformer:
    torch.manual_seed(1)
    sizes = {"d_model": FEATURES, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1, "heads": 2}
    return Transformer.from_config(ModelConfig(vocab_size=VOCAB, **sizes)).eval()


def searched(net: Transformer, count: int) -> list[list[Hypothesis]]:
    sentences: Sequence[Sequence[int]] = [[5 + i % 30, 6, 7 + i % 20] for i in range(count)]
    inputs = [SentenceSearchInput(add_special_tokens(sentence)) for sentence in sentences]
    return collect_in_order(TorchEngine(net).search(inputs, GREEDY))


@pytest.mark.parametrize("bias", [True, False])
@torch.inference_mode()
def test_packed_projection_equals_the_model(bias: bool) -> None:
    output, x_RM = made(bias), torch.randn(11, FEATURES)
    packed = choose_output_projection(output, MIN_ROWS_TO_PACK)
    assert packed != output.log_probabilities
    torch.testing.assert_close(packed(x_RM), output.log_probabilities(x_RM))


def test_few_hypotheses_do_not_pack() -> None:
    output = made()
    assert choose_output_projection(output, MIN_ROWS_TO_PACK - 1) == output.log_probabilities


def test_autocast_does_not_pack() -> None:
    output = made()
    with torch.autocast("cpu", torch.bfloat16):
        assert choose_output_projection(output, MIN_ROWS_TO_PACK) == output.log_probabilities


@pytest.mark.parametrize("change", ["double", "hook", "another class"])
def test_modified_projection_is_not_packed(change: str) -> None:
    class Louder(OutputProjection):
        """A subclass that may override methods."""

    output = made()
    if change == "double":
        output.double()
    elif change == "hook":
        output.register_forward_hook(lambda *_: None)
    else:
        output.__class__ = Louder
    assert choose_output_projection(output, MIN_ROWS_TO_PACK) == output.log_probabilities


def test_search_uses_the_current_weights() -> None:
    """The weights change between two validations of a training run."""
    net = model()
    before = searched(net, MIN_ROWS_TO_PACK)
    with torch.no_grad():
        for weight in net.parameters():
            weight.neg_()
    after = searched(net, MIN_ROWS_TO_PACK)
    assert [h[0].tokens for h in before] != [h[0].tokens for h in after]
    alone = [searched(net, MIN_ROWS_TO_PACK - 1)[0], after[0]]
    assert alone[0][0].tokens == alone[1][0].tokens
    assert alone[0][0].log_prob == pytest.approx(alone[1][0].log_prob, abs=1e-5)
