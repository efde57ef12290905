"""The reference implementation of cross-entropy over logits, and the types of all losses."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

# N tokens of the batch without padding, M features of the model, V vocabulary


class LossSum(NamedTuple):
    """Sums of a loss over tokens; divide by the number of tokens of the whole update."""

    total: Tensor
    """The sum of the training loss. Only this field has a gradient."""
    nll: Tensor
    """The sum of −log p(label), without smoothing or extra terms: exp(nll / num_tokens) is the
    perplexity."""
    num_tokens: int
    """The number of labels; with R-Drop that of both passes."""


class OutputWeights(NamedTuple):
    """Weights of the output projection: logits = states · weightᵀ + bias."""

    weight_VM: Tensor
    bias_V: Tensor | None = None

    def __call__(self, states_NM: Tensor) -> Tensor:
        """Return the logits, [N, V]."""
        return F.linear(states_NM, self.weight_VM, self.bias_V)

    def mean(self) -> OutputWeights:
        """Return weights for one logit, the mean of all logits, in float32 or higher precision."""
        dtype = torch.promote_types(self.weight_VM.dtype, torch.float32)
        bias_V = self.bias_V
        mean_1 = None if bias_V is None else bias_V.mean(0, keepdim=True, dtype=dtype)
        return OutputWeights(self.weight_VM.mean(0, keepdim=True, dtype=dtype), mean_1)


class TeacherStates(NamedTuple):
    """The states of a teacher for the same tokens. Its logits are also computed in chunks."""

    states_NM: Tensor
    output_weights: OutputWeights


def smoothed_cross_entropy(logits_NV: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the sum of (1 − ε) · −log p(label) + ε · mean over the vocabulary of −log p.

    This is torch's definition: the label has target probability 1 − ε + ε/V, every other token ε/V.
    fairseq distributes ε over the other tokens only: its ε is ε · V / (V − 1) here.
    """
    nll_NV = -logits_NV.log_softmax(dim=-1)
    nll_N = nll_NV.gather(1, labels_N[:, None]).squeeze(1)
    return ((1 - smoothing) * nll_N + smoothing * nll_NV.mean(dim=-1)).sum()


def clamp_log_probs(log_p: Tensor) -> Tensor:
    """Replace −∞, where p is 0, by the lowest finite number, because 0 · −∞ is NaN."""
    return log_p.clamp(min=torch.finfo(log_p.dtype).min)
