"""Tests of attention masks and masked softmax."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionMask,
    DotProductAttention,
    build_padded_key_mask,
    masked_softmax,
)
from seq2see.model.basic_modules import Dropout

CPU = torch.device("cpu")


def as_list(mask: AttentionMask, num_queries: int, num_keys: int) -> list[list[int]]:
    masked = mask.to_tensor(num_queries, num_keys, CPU)
    assert masked is not None
    return masked.expand(1, 1, num_queries, num_keys)[0, 0].int().tolist()


def test_causal_mask_masks_later_keys() -> None:
    assert as_list(CAUSAL_MASK, 3, 3) == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]


def test_causal_mask_aligns_last_query_with_last_key() -> None:
    assert as_list(CAUSAL_MASK, 2, 4) == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert CAUSAL_MASK.to_tensor(1, 4, CPU) is None


def test_masks_are_combined_by_or() -> None:
    padding = build_padded_key_mask(torch.tensor([[True, False, False]]))
    assert as_list(padding | CAUSAL_MASK, 3, 3) == [[1, 1, 1], [1, 0, 1], [1, 0, 0]]
    other = build_padded_key_mask(torch.tensor([[False, False, True]]))
    assert as_list(padding | other, 1, 3) == [[1, 0, 1]]
    assert (NO_MASK | NO_MASK).to_tensor(3, 3, CPU) is None


def test_masked_softmax_is_zero_where_masked_and_sums_to_one() -> None:
    masked = torch.tensor([[True, False, False], [True, True, True], [False, False, False]])
    weights = masked_softmax(torch.tensor([[9.0, 1.0, 2.0]] * 3), masked)
    assert weights[masked].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("value", [1e30, -1e30, 3e38, -3e38])
def test_masked_softmax_of_extreme_scores(value: float) -> None:
    weights = masked_softmax(
        torch.tensor([[value, value, 0.0]]), torch.tensor([[False, False, True]])
    )
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0]]))


@pytest.mark.parametrize("listener", [None, lambda record: None], ids=["fused", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_fully_masked_row_has_zero_output_and_gradient(
    listener: object, dtype: torch.dtype
) -> None:
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=dtype, requires_grad=True) for _ in "qkv")
    padding = torch.tensor([[False, False, True], [True, True, True]])
    output: Tensor = DotProductAttention(0.5, Dropout(0.0))(
        q, k, v, build_padded_key_mask(padding), listener=listener
    )
    assert output[1].eq(0).all()
    assert output[0].ne(0).any()
    for gradient in torch.autograd.grad(output.sum(), (q, k, v)):
        assert gradient.isfinite().all()
        assert gradient[1].eq(0).all()
