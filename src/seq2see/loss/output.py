"""What goes into a loss, and what comes out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

# N tokens in a row, without padding; M features; V vocabulary


class LossSum(NamedTuple):
    """A loss over some tokens; divide by the tokens of the whole step."""

    total: Tensor
    """The sum of what training makes small. It alone has a gradient."""
    nll: Tensor
    """The sum of −log p(label), without smoothing or extra terms: exp(nll / tokens) is the
    perplexity."""
    tokens: int
    """How many labels it is over; R-Drop counts both passes."""


class Head(NamedTuple):
    """The output layer: logits = states · weightᵀ + bias."""

    weight_VM: Tensor
    bias_V: Tensor | None = None

    def __call__(self, states_NM: Tensor) -> Tensor:
        """Return the logits, [N, V]."""
        return F.linear(states_NM, self.weight_VM, self.bias_V)

    def mean(self) -> Head:
        """Return a layer with one logit, the mean of all of these, in float32 at least."""
        dtype = torch.promote_types(self.weight_VM.dtype, torch.float32)
        bias_V = self.bias_V
        mean_1 = None if bias_V is None else bias_V.mean(0, keepdim=True, dtype=dtype)
        return Head(self.weight_VM.mean(0, keepdim=True, dtype=dtype), mean_1)


class Teacher(NamedTuple):
    """What another model makes of the same tokens. Its logits too come only in chunks."""

    states_NM: Tensor
    head: Head
