"""Attention over short sequences in training on a CPU, with batched products over all heads.

Torch's fused kernel processes one head after the other, which is efficient if a head has much work.
With about ten keys it spends most of its time between the products, and it computes exponentials
one by one if a row has fewer than 16. `Attention.plain_forward` is the reference implementation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from seq2see.model.masks import masked_softmax

# B batch, H heads, N heads of all the batch, T queries, S keys, D features of a head

MAX_KEYS = 64
"""With more, torch's kernel is as fast, and has no need to keep the weights."""


_BITS = math.log2(math.e)
"""Bits of a natural unit: torch's exp2 takes half the time of its exp."""


_HIGHEST, _FAR = 126.0, 100.0
"""Bits of powers that are finite for certain; and of sums that have lost nothing."""


def supports_short_attention(queries_BHTD: Tensor, keys_BHSD: Tensor) -> bool:
    """Whether `attend` is the faster way to attend and to learn from it."""
    return (
        keys_BHSD.size(2) <= MAX_KEYS
        and queries_BHTD.device.type == "cpu"
        and queries_BHTD.dtype == keys_BHSD.dtype == torch.float32
        and torch.is_grad_enabled()
        and (queries_BHTD.requires_grad or keys_BHSD.requires_grad)
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()  # they know torch's kernel, not this
    )


def short_attention(
    queries_BHTD: Tensor,
    keys_BHSD: Tensor,
    values_BHSD: Tensor,
    masked: Tensor | None,
    scale: float,
) -> Tensor:
    """Return softmax(scale · q·k) v, [B, H, T, D]."""
    mixed_BHTD: Tensor = _Attend.apply(  # type: ignore[no-untyped-call]
        queries_BHTD, keys_BHSD, values_BHSD, masked, scale
    )
    return mixed_BHTD


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None, scale: float
    ) -> Tensor:
        queries_NTD, keys_NSD, values_NSD = map(_together, (queries, keys, values))
        bits_NTS = _product(scale * _BITS, queries_NTD, keys_NSD.mT)
        weights = _softmax(bits_NTS.view(*queries.shape[:3], -1), hidden)
        weights_NTS = weights.flatten(0, 1)
        ctx.save_for_backward(queries_NTD, keys_NSD, values_NSD, weights_NTS)
        ctx.scale = scale
        mixed_BHTD = (weights_NTS @ values_NSD).view_as(queries)
        return mixed_BHTD.transpose(1, 2).contiguous().transpose(1, 2)  # as torch's kernel lays it

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, mixed: Tensor) -> Any:
        queries_NTD, keys_NSD, values_NSD, weights_NTS = ctx.saved_tensors
        mixed_NTD = _together(mixed)
        # p · (x − Σ p·x), where x is the gradient of the weights p
        scores_NTS = (mixed_NTD @ values_NSD.mT).mul_(weights_NTS)
        scores_NTS.addcmul_(weights_NTS, scores_NTS.sum(2, keepdim=True), value=-1)
        gradients = (
            _product(ctx.scale, scores_NTS, keys_NSD),
            _product(ctx.scale, scores_NTS.mT, queries_NTD),
            weights_NTS.mT @ mixed_NTD,
        )
        return *(gradient.unflatten(0, mixed.shape[:2]) for gradient in gradients), None, None


def _together(x_BHTD: Tensor) -> Tensor:
    """Return the heads of all the batch in a row, each in one piece: what products like best."""
    return x_BHTD.contiguous().flatten(0, 1)


def _product(scale: float, left: Tensor, right: Tensor) -> Tensor:
    """Return scale · left · right, for each of a batch."""
    return torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=scale)


def _softmax(bits_BHTS: Tensor, hidden: Tensor | None) -> Tensor:
    """Return 2^scores, 0 where hidden, that have the sum 1. No row knows of the others.

    To find the highest score of each row, from which the others would count, takes longer than all
    the rest. Few rows need it: their powers are too high or too low, or they are hidden whole.
    """
    weights_BHTS = bits_BHTS.clamp(max=_HIGHEST).exp2_()  # finite, so that 0 times it is 0
    if hidden is not None:
        weights_BHTS *= ~hidden
    sums_BHT1 = weights_BHTS.sum(3, keepdim=True)
    fine_BHT1 = sums_BHT1.log2().abs_() < _FAR
    weights_BHTS /= sums_BHT1
    if fine_BHT1.all():
        return weights_BHTS
    return weights_BHTS.where(fine_BHT1, masked_softmax(bits_BHTS / _BITS, hidden))
