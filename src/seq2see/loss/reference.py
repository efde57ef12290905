"""Reference implementations of the losses over logits, and the types that all losses share."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

# N tokens in a row, without padding; M features; V vocabulary
# N tokens in a row; V vocabulary


class LossSum(NamedTuple):
    """A loss over some tokens; divide by the tokens of the whole step."""

    total: Tensor
    """The sum of what training makes small. It alone has a gradient."""
    nll: Tensor
    """The sum of −log p(label), without smoothing or extra terms: exp(nll / tokens) is the
    perplexity."""
    num_tokens: int
    """How many labels it is over; R-Drop counts both passes."""


class OutputWeights(NamedTuple):
    """The output layer: logits = states · weightᵀ + bias."""

    weight_VM: Tensor
    bias_V: Tensor | None = None

    def __call__(self, states_NM: Tensor) -> Tensor:
        """Return the logits, [N, V]."""
        return F.linear(states_NM, self.weight_VM, self.bias_V)

    def mean(self) -> OutputWeights:
        """Return a layer with one logit, the mean of all of these, in float32 at least."""
        dtype = torch.promote_types(self.weight_VM.dtype, torch.float32)
        bias_V = self.bias_V
        mean_1 = None if bias_V is None else bias_V.mean(0, keepdim=True, dtype=dtype)
        return OutputWeights(self.weight_VM.mean(0, keepdim=True, dtype=dtype), mean_1)


class TeacherStates(NamedTuple):
    """What another model makes of the same tokens. Its logits too come only in chunks."""

    states_NM: Tensor
    output_weights: OutputWeights


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
    return (log_p_NV.exp() * (clamp_log_probs(log_p_NV) - log_q_NV)).sum()


def symmetric_kl(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Sum ½ · (KL(p ‖ q) + KL(q ‖ p)) of two distributions, given as logits."""
    return (kl_divergence(p_NV, q_NV) + kl_divergence(q_NV, p_NV)) / 2


def clamp_log_probs(log_p: Tensor) -> Tensor:
    """Raise −∞, where p is 0, to the least number: 0 · −∞ would not be 0."""
    return log_p.clamp(min=torch.finfo(log_p.dtype).min)
