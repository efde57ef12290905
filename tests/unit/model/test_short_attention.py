"""Attention over short sentences by batched products: the plain form is the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from seq2see.model import ModelConfig, Transformer
from seq2see.model.attention import AttentionInputs, DotProductAttention
from seq2see.model.masks import CAUSAL_MASK, NO_MASK, AttentionMask, build_padding_mask
from seq2see.model.modules import Dropout
from seq2see.model.short_attention import MAX_KEYS, short_attention, supports_short_attention

# B batch, H heads, T queries, S keys, D features of a head

ATTENTION = DotProductAttention(0.3, Dropout(0.0))


def heads(*shape: int) -> Tensor:
    """Return heads as projections give them: views whose memory goes token by token."""
    batch, count, length, features = shape
    x_BTHD = torch.randn(batch, length, count, features)
    return x_BTHD.transpose(1, 2).detach().requires_grad_()


def inputs(queries: int, keys: int, mask: AttentionMask) -> AttentionInputs:
    return AttentionInputs(
        heads(3, 2, queries, 8), heads(3, 2, keys, 8), heads(3, 2, keys, 8), mask
    )


def short(given: AttentionInputs) -> Tensor:
    queries_BHTD, keys_BHSD, values_BHSD, mask = given
    hidden = mask.to_tensor(queries_BHTD.size(2), keys_BHSD.size(2), queries_BHTD.device)
    return short_attention(queries_BHTD, keys_BHSD, values_BHSD, hidden, ATTENTION.scale)


def learnt(form: Callable[[AttentionInputs], Tensor], given: AttentionInputs) -> list[Tensor]:
    """Return what comes out, and the gradients."""
    mixed_BHTD = form(given)
    weights_BHTD = torch.linspace(-1, 1, mixed_BHTD.numel()).view(mixed_BHTD.shape)
    return [mixed_BHTD, *torch.autograd.grad((weights_BHTD * mixed_BHTD).sum(), given[:3])]


def assert_as_plain(given: AttentionInputs, atol: float = 2e-6) -> None:
    plain = learnt(lambda given: ATTENTION.plain_forward(given, None), given)
    for ours, reference in zip(learnt(short, given), plain, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-5, atol=atol)


def padded(keys: int) -> AttentionMask:
    """Hide the last key of one sentence, and all but the first of another."""
    padding_BS = torch.zeros(3, keys, dtype=torch.bool)
    padding_BS[1, -1:] = keys > 1
    padding_BS[2, 1:] = True
    return build_padding_mask(padding_BS)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 5), (7, 7), (3, 19), (16, 16), (33, 8)])
def test_it_is_what_the_plain_form_gives(queries: int, keys: int) -> None:
    assert_as_plain(inputs(queries, keys, NO_MASK))
    assert_as_plain(inputs(queries, keys, padded(keys)))


@pytest.mark.parametrize("length", [1, 2, 9, 17])
def test_so_it_is_where_the_future_is_hidden(length: int) -> None:
    assert_as_plain(inputs(length, length, CAUSAL_MASK))
    assert_as_plain(inputs(length, length, CAUSAL_MASK | padded(length)))


def test_a_row_that_is_hidden_whole_gives_zeros() -> None:
    hidden = torch.zeros(3, 1, 1, 6, dtype=torch.bool)
    hidden[1] = True
    given = inputs(4, 6, AttentionMask(hidden))
    assert_as_plain(given)
    assert not short(given)[1].any()


@pytest.mark.parametrize("sign", [1, -1], ids=["high", "low"])
def test_no_row_is_lost_however_far_its_scores_are_from_0(sign: int) -> None:
    """All scores of one sentence are about 200 bits above 0, or below."""
    given = inputs(5, 5, NO_MASK)
    with torch.no_grad():
        given.queries_BHTD[0] = 8.0
        given.keys_BHSD[0] = sign * (7.0 + 0.1 * torch.rand(2, 5, 8))
    assert_as_plain(given, atol=1e-4)  # scores of some hundred are rounded at the fifth digit
    others = [AttentionInputs(*(x[1:] for x in given[:3]), NO_MASK), given]
    torch.testing.assert_close(*(short(some)[-2:] for some in others), rtol=0, atol=2e-6)


def test_hidden_scores_however_high_change_nothing() -> None:
    given = inputs(5, 5, padded(5))
    with torch.no_grad():
        given.keys_BHSD[2, :, 1:] *= 1e4
    assert_as_plain(given)


def test_what_is_no_number_stays_none() -> None:
    given = inputs(5, 5, NO_MASK)
    with torch.no_grad():
        given.queries_BHTD[0, 0, 0, 0] = math.nan
    mixed_BHTD = short(given)
    assert mixed_BHTD[0, 0, 0].isnan().all()
    assert mixed_BHTD[1:].isfinite().all()


def test_it_is_for_learning_from_short_sentences() -> None:
    queries, keys = heads(1, 2, 4, 8), heads(1, 2, MAX_KEYS, 8)
    assert supports_short_attention(queries, keys)
    assert not supports_short_attention(queries, heads(1, 2, MAX_KEYS + 1, 8))
    assert not supports_short_attention(queries.detach(), keys.detach())
    assert not supports_short_attention(queries.double(), keys.double())
    with torch.no_grad():
        assert not supports_short_attention(queries, keys)
    with torch.autocast("cpu", torch.bfloat16):
        assert not supports_short_attention(queries, keys)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's kernel, batched
def test_transforms_of_torch_have_its_own_kernel() -> None:
    queries_BHTD, keys_BHSD, values_BHSD, _ = inputs(3, 4, NO_MASK)

    def mixed(queries_BHTD: Tensor) -> Tensor:
        return ATTENTION(queries_BHTD, keys_BHSD.detach(), values_BHSD.detach())

    by_torch = torch.func.jacrev(mixed)(queries_BHTD.detach())
    assert by_torch.shape == (*queries_BHTD.shape, *queries_BHTD.shape)


def test_a_model_learns_the_same_by_it() -> None:
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
    for own, other in zip(ours, reference, strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-6)
