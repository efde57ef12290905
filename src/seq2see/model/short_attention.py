"""Attention over short sequences in training on a CPU, with batched products over all heads.

Torch's fused kernel processes one head after the other, which is efficient if a head has much work.
With about ten keys it spends most of its time between the products, and it computes exponentials
one by one if a row has fewer than 16. `AttentionFunction.plain_forward` is the reference
implementation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2see.model.masks import masked_softmax

# B batch, H heads, N = B·H, T queries, S keys, D features of a head

MAX_KEYS = 64
"""With more keys torch's kernel is as fast, and it does not store the attention weights."""
_LOG2_E = math.log2(math.e)
"""Scores are computed in base 2: torch's exp2 takes half the time of its exp."""
_MAX_EXPONENT, _MAX_LOG2_SUM = 126.0, 100.0
"""Largest exponent whose power of 2 is certainly finite; largest absolute logarithm of a sum that
has lost no precision."""


def supports_short_attention(queries_BHTD: Tensor, keys_BHSD: Tensor) -> bool:
    """Return whether `short_attention` is possible and faster, including its backward pass."""
    return (
        keys_BHSD.size(2) <= MAX_KEYS
        and queries_BHTD.device.type == "cpu"
        and queries_BHTD.dtype == keys_BHSD.dtype == torch.float32
        and torch.is_grad_enabled()
        and (queries_BHTD.requires_grad or keys_BHSD.requires_grad)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()  # they support only torch's kernel
    )


def short_attention(
    queries_BHTD: Tensor,
    keys_BHSD: Tensor,
    values_BHSD: Tensor,
    masked: Tensor | None,
    scale: float,
) -> Tensor:
    """Return softmax(scale · q·k) v, [B, H, T, D]."""
    output_BHTD: Tensor = _ShortAttention.apply(  # type: ignore[no-untyped-call]
        queries_BHTD, keys_BHSD, values_BHSD, masked, scale
    )
    return output_BHTD


class _ShortAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, masked: Tensor | None, scale: float
    ) -> Tensor:
        queries_NTD, keys_NSD, values_NSD = map(_flatten_heads, (queries, keys, values))
        log2_scores_NTS = _scaled_bmm(scale * _LOG2_E, queries_NTD, keys_NSD.mT)
        weights = _softmax_base2(log2_scores_NTS.view(*queries.shape[:3], -1), masked)
        weights_NTS = weights.flatten(0, 1)
        ctx.save_for_backward(queries_NTD, keys_NSD, values_NSD, weights_NTS)
        ctx.scale = scale
        output_BHTD = (weights_NTS @ values_NSD).view_as(queries)
        # The memory layout is that of torch's kernel.
        return output_BHTD.transpose(1, 2).contiguous().transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        queries_NTD, keys_NSD, values_NSD, weights_NTS = ctx.saved_tensors
        grad_output_NTD = _flatten_heads(grad_output)
        # p · (x − Σ p·x), where x is the gradient of the weights p
        grad_scores_NTS = (grad_output_NTD @ values_NSD.mT).mul_(weights_NTS)
        grad_scores_NTS.addcmul_(weights_NTS, grad_scores_NTS.sum(2, keepdim=True), value=-1)
        gradients = (
            _scaled_bmm(ctx.scale, grad_scores_NTS, keys_NSD),
            _scaled_bmm(ctx.scale, grad_scores_NTS.mT, queries_NTD),
            weights_NTS.mT @ grad_output_NTD,
        )
        return *(gradient.unflatten(0, grad_output.shape[:2]) for gradient in gradients), None, None


def _flatten_heads(x_BHTD: Tensor) -> Tensor:
    """Return the heads of all sentences in one contiguous tensor, [N, T, D]."""
    return x_BHTD.contiguous().flatten(0, 1)


def _scaled_bmm(scale: float, left: Tensor, right: Tensor) -> Tensor:
    """Return scale · left · right for each matrix of the batch."""
    return torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=scale)


def _softmax_base2(log2_scores_BHTS: Tensor, masked: Tensor | None) -> Tensor:
    """Return 2^scores, 0 where masked, divided by the sum of the row. Rows are independent.

    Finding the maximum of each row, to subtract it, takes longer than all the rest. Few rows need
    it: those with too large or too small powers, and those that are fully masked.
    """
    weights_BHTS = log2_scores_BHTS.clamp(max=_MAX_EXPONENT).exp2_()  # finite: 0 times it is 0
    if masked is not None:
        weights_BHTS *= ~masked
    sums_BHT1 = weights_BHTS.sum(3, keepdim=True)
    is_precise_BHT1 = sums_BHT1.log2().abs_() < _MAX_LOG2_SUM
    weights_BHTS /= sums_BHT1
    if is_precise_BHT1.all():
        return weights_BHTS
    exact_BHTS = masked_softmax(log2_scores_BHTS / _LOG2_E, masked)
    return weights_BHTS.where(is_precise_BHT1, exact_BHTS)
