"""What goes into a loss, and what comes out."""

from __future__ import annotations

from typing import NamedTuple

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


class Teacher(NamedTuple):
    """What another model makes of the same tokens. Its logits too come only in chunks."""

    states_NM: Tensor
    head: Head
