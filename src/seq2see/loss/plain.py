"""The plain forms: each is its formula, over logits."""

from __future__ import annotations

import torch
from torch import Tensor

# N tokens in a row; V vocabulary


def smoothed_cross_entropy(logits_NV: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum (1 − ε) · −log p(label) + ε · the mean of −log p over the vocabulary, as torch does.

    So the label itself gets 1 − ε + ε/V, every other piece ε/V. fairseq spreads ε over the other
    pieces alone: its ε is our ε · V / (V − 1).
    """
    surprise_NV = -logits_NV.log_softmax(dim=-1)
    nll_N = surprise_NV.gather(1, labels_N[:, None]).squeeze(1)
    return ((1 - smoothing) * nll_N + smoothing * surprise_NV.mean(dim=-1)).sum()


def kl_divergence(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Sum KL(p ‖ q) = Σ p · (log p − log q) of two distributions, given as logits."""
    log_p_NV, log_q_NV = p_NV.log_softmax(dim=-1), q_NV.log_softmax(dim=-1)
    return (log_p_NV.exp() * (finite(log_p_NV) - log_q_NV)).sum()


def symmetric_kl(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Sum ½ · (KL(p ‖ q) + KL(q ‖ p)) of two distributions, given as logits."""
    return (kl_divergence(p_NV, q_NV) + kl_divergence(q_NV, p_NV)) / 2


def finite(log_p: Tensor) -> Tensor:
    """Raise −∞, where p is 0, to the least number: 0 · −∞ would not be 0."""
    return log_p.clamp(min=torch.finfo(log_p.dtype).min)
