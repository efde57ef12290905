"""Compare attention over short sequences with the plain implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from seq2see.model import ModelConfig, Transformer
from seq2see.model.attention import AttentionInputs, DotProductAttention
from seq2see.model.basic_modules import Dropout
from seq2see.model.masks import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionMask,
    build_padded_key_mask,
)
from seq2see.model.short_attention import MAX_KEYS, short_attention, supports_short_attention

# B batch, H heads, T queries, S keys, D features of a head

ATTENTION = DotProductAttention(0.3, Dropout(0.0))


def heads(*shape: int) -> Tensor:
    """Return heads with the memory layout of projections: views of [B, T, H, D]."""
    batch, count, length, features = shape
    x_BTHD = torch.randn(batch, length, count, features)
    return x_BTHD.transpose(1, 2).detach().requires_grad_()


def make_inputs(queries: int, keys: int, mask: AttentionMask) -> AttentionInputs:
    return AttentionInputs(
        heads(3, 2, queries, 8), heads(3, 2, keys, 8), heads(3, 2, keys, 8), mask
    )


def run_short(inputs: AttentionInputs) -> Tensor:
    queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
    masked = mask.to_tensor(queries_BHTD.size(2), keys_BHSD.size(2), queries_BHTD.device)
    return short_attention(queries_BHTD, keys_BHSD, values_BHSD, masked, ATTENTION.scale)


def output_and_gradients(
    attention: Callable[[AttentionInputs], Tensor], inputs: AttentionInputs
) -> list[Tensor]:
    """Return the output, and the gradients of the inputs."""
    output_BHTD = attention(inputs)
    weights_BHTD = torch.linspace(-1, 1, output_BHTD.numel()).view(output_BHTD.shape)
    return [output_BHTD, *torch.autograd.grad((weights_BHTD * output_BHTD).sum(), inputs[:3])]


def assert_equals_plain(inputs: AttentionInputs, atol: float = 2e-6) -> None:
    actual = output_and_gradients(run_short, inputs)
    expected = output_and_gradients(lambda x: ATTENTION.plain_forward(x, None), inputs)
    for ours, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=atol)


def padded(keys: int) -> AttentionMask:
    """Mask the last key of one sentence, and all but the first of another."""
    padding_BS = torch.zeros(3, keys, dtype=torch.bool)
    padding_BS[1, -1:] = keys > 1
    padding_BS[2, 1:] = True
    return build_padded_key_mask(padding_BS)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (7, 7), (3, 19), (16, 16), (33, 8)])
def test_short_attention_equals_plain_attention(queries: int, keys: int) -> None:
    assert_equals_plain(make_inputs(queries, keys, NO_MASK))
    assert_equals_plain(make_inputs(queries, keys, padded(keys)))


@pytest.mark.parametrize("length", [1, 2, 9, 17])
def test_causal_short_attention_equals_plain_attention(length: int) -> None:
    assert_equals_plain(make_inputs(length, length, CAUSAL_MASK))
    assert_equals_plain(make_inputs(length, length, CAUSAL_MASK | padded(length)))


def test_fully_masked_row_gives_zeros() -> None:
    masked = torch.zeros(3, 1, 1, 6, dtype=torch.bool)
    masked[1] = True
    inputs = make_inputs(4, 6, AttentionMask(masked))
    assert_equals_plain(inputs)
    assert not run_short(inputs)[1].any()


@pytest.mark.parametrize("sign", [1, -1], ids=["high", "low"])
def test_scores_of_large_magnitude_are_exact(sign: int) -> None:
    """The scores of one sentence in base 2 are about 200, or about −200."""
    inputs = make_inputs(5, 5, NO_MASK)
    with torch.no_grad():
        inputs.queries_BHTD[0] = 8.0
        inputs.keys_BHSD[0] = sign * (7.0 + 0.1 * torch.rand(2, 5, 8))
    assert_equals_plain(inputs, atol=1e-4)  # scores of some hundreds are rounded in the fifth digit
    others = [AttentionInputs(*(x[1:] for x in inputs[:3]), NO_MASK), inputs]
    torch.testing.assert_close(*(run_short(each)[-2:] for each in others), rtol=0, atol=2e-6)


def test_large_masked_scores_do_not_change_output() -> None:
    inputs = make_inputs(5, 5, padded(5))
    with torch.no_grad():
        inputs.keys_BHSD[2, :, 1:] *= 1e4
    assert_equals_plain(inputs)


def test_nan_stays_in_its_row() -> None:
    inputs = make_inputs(5, 5, NO_MASK)
    with torch.no_grad():
        inputs.queries_BHTD[0, 0, 0, 0] = math.nan
    output_BHTD = run_short(inputs)
    assert output_BHTD[0, 0, 0].isnan().all()
    assert output_BHTD[1:].isfinite().all()


def test_short_attention_is_used_only_in_training_on_short_sentences() -> None:
    queries, keys = heads(1, 2, 4, 8), heads(1, 2, MAX_KEYS, 8)
    assert supports_short_attention(queries, keys)
    assert not supports_short_attention(queries, heads(1, 2, MAX_KEYS + 1, 8))
    assert not supports_short_attention(queries.detach(), keys.detach())
    assert not supports_short_attention(queries.double(), keys.double())
    with torch.no_grad():
        assert not supports_short_attention(queries, keys)
    with torch.autocast("cpu", torch.bfloat16):
        assert not supports_short_attention(queries, keys)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap of torch's kernel
def test_functional_transforms_use_kernel_of_torch() -> None:
    queries_BHTD, keys_BHSD, values_BHSD, _ = make_inputs(3, 4, NO_MASK)

    def attend(queries_BHTD: Tensor) -> Tensor:
        return ATTENTION(queries_BHTD, keys_BHSD.detach(), values_BHSD.detach())

    jacobian = torch.func.jacrev(attend)(queries_BHTD.detach())
    assert jacobian.shape == (*queries_BHTD.shape, *queries_BHTD.shape)


def test_model_gradients_equal_those_of_torch_kernel() -> None:
    torch.manual_seed(1)
    sizes = {"vocab_size": 50, "d_model": 16, "heads": 2, "d_ff": 32}
    config = ModelConfig(**sizes, dropout={"embedding": 0.0, "residual": 0.0})
    model = Transformer.from_config(config)
    source_BS = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 3, 0, 0]])
    target_BT = torch.tensor([[2, 9, 8, 7], [2, 5, 0, 0]])

    def gradients() -> list[Tensor]:
        model.zero_grad()
        model(source_BS, target_BT).square().mean().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    with patch("seq2see.model.attention.short_attention", side_effect=short_attention) as used:
        ours = gradients()
    assert used.call_count == 2 * config.decoder_layers + config.encoder_layers
    with patch("seq2see.model.attention.supports_short_attention", return_value=False):
        reference = gradients()
    with patch("seq2see.model.attention.short_attention") as unused:
        model.eval()(source_BS, target_BT)
    assert not unused.called
    for actual, expected in zip(ours, reference, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)
