"""What a hypothesis is worth. These few lines define every score in seq2see."""

from __future__ import annotations

import torch
from torch import Tensor

# B rows, K beams, E emitted tokens, S source tokens

LEAST_COVERAGE = 1e-9
"""Stands for a source token that was never looked at, whose logarithm would be −∞."""


def normalised(values: Tensor, lengths: Tensor | int, alpha: float) -> Tensor:
    """Return value / length^α. The length counts the stop symbol."""
    return values / lengths**alpha


def coverage_penalty(attention_BKES: Tensor, source_lengths_B: Tensor, beta: float) -> Tensor:
    """Return what source tokens cost that were looked at too little: β Σ |log min(Σ_t a_ts, 1)|.

    Wu et al. 2016. The sum of a hypothesis that has just ended has the stop symbol's step in it.
    """
    coverage_BKS = attention_BKES.sum(2).clamp(LEAST_COVERAGE, 1)
    places_S = torch.arange(coverage_BKS.size(2), device=coverage_BKS.device)
    padding_B1S = (places_S >= source_lengths_B[:, None])[:, None]
    return beta * -coverage_BKS.log().masked_fill(padding_B1S, 0).sum(2)


def attainable(values_BK: Tensor, limits_B: Tensor, alpha: float) -> Tensor:
    """Return the highest score that any hypothesis of each row could still end with.

    Each further token lowers the value or leaves it, and a value below 0 is divided by most at
    the greatest length; the coverage penalty may yet vanish.
    """
    return normalised(values_BK.amax(1), limits_B, alpha)
