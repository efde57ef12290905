"""Masks: True hides, parts are combined by OR, and a row hidden whole gives zeros."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionMask,
    DotProductAttention,
    build_padding_mask,
    masked_softmax,
)
from seq2see.model.modules import Dropout

CPU = torch.device("cpu")


def dense(mask: AttentionMask, queries: int, keys: int) -> list[list[int]]:
    hidden = mask.to_tensor(queries, keys, CPU)
    assert hidden is not None
    return hidden.expand(1, 1, queries, keys)[0, 0].int().tolist()


def test_causal_hides_what_comes_later() -> None:
    assert dense(CAUSAL_MASK, 3, 3) == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]


def test_the_last_query_stands_at_the_last_key() -> None:
    assert dense(CAUSAL_MASK, 2, 4) == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert CAUSAL_MASK.to_tensor(1, 4, CPU) is None


def test_parts_are_combined_by_or() -> None:
    padding = build_padding_mask(torch.tensor([[True, False, False]]))
    assert dense(padding | CAUSAL_MASK, 3, 3) == [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    other = build_padding_mask(torch.tensor([[False, False, True]]))
    assert dense(padding | other, 1, 3) == [[1, 0, 1]]
    assert (NO_MASK | NO_MASK).to_tensor(3, 3, CPU) is None


def test_hidden_keys_weigh_nothing_and_the_rest_sums_to_one() -> None:
    hidden = torch.tensor([[True, False, False], [True, True, True], [False, False, False]])
    weights = masked_softmax(torch.tensor([[9.0, 1.0, 2.0]] * 3), hidden)
    assert weights[hidden].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("value", [1e30, -1e30, 3e38, -3e38])
def test_softmax_of_extreme_scores(value: float) -> None:
    weights = masked_softmax(
        torch.tensor([[value, value, 0.0]]), torch.tensor([[False, False, True]])
    )
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("listener", [None, lambda record: None], ids=["fused", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_row_hidden_whole_gives_zeros_and_no_gradient(
    listener: object, dtype: torch.dtype
) -> None:
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=dtype, requires_grad=True) for _ in "qkv")
    hidden = torch.tensor([[False, False, True], [True, True, True]])
    mixed: Tensor = DotProductAttention(0.5, Dropout(0.0))(
        q, k, v, build_padding_mask(hidden), listener=listener
    )
    assert mixed[1].eq(0).all()
    assert mixed[0].ne(0).any()
    for gradient in torch.autograd.grad(mixed.sum(), (q, k, v)):
        assert gradient.isfinite().all()
        assert gradient[1].eq(0).all()
