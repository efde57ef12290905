"""What a walk over the chunks holds: the logits of one, and the gradients of all so far."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2see.kernels import product
from seq2see.loss.chunks import Rows, Slope
from seq2see.loss.output import Head

# N tokens in a row; C tokens of a chunk; M features; V vocabulary


def logits_of(head: Head, states_CM: Tensor) -> Tensor:
    """Return the logits of a chunk, in float32 at least."""
    return product(states_CM, head.weight_VM.t(), head.bias_V).to(_precise(head.weight_VM))


class Gradients:
    """The gradients of states, weight and bias as they grow, in float32 at least."""

    def __init__(self, states_NM: Tensor, head: Head, needed: list[bool]) -> None:
        self.head = head
        self.mean = head.mean()
        self.precision = _precise(head.weight_VM)
        states, weight, bias = needed
        self.states_NM = torch.empty_like(states_NM) if states else None
        self.wants_weight = weight
        self.weight_MV: Tensor | None = None
        self.bias_V = self.zeros(len(head.weight_VM)) if bias else None
        self.shift_M = self.zeros(states_NM.size(1))

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros that sums can grow in."""
        return self.head.weight_VM.new_zeros(shape, dtype=self.precision)

    def add(self, rows: Rows, states_CM: Tensor, slope: Slope) -> None:
        """Pass the gradient of a chunk's logits on."""
        if self.bias_V is not None or states_CM.dtype != self.precision:
            slope = slope.whole_()  # a sum needs it, and so do products that round
        x_CV, scale_C1, shift = slope
        if self.bias_V is not None:
            self.bias_V += x_CV.sum(dim=0)
        x_CV = x_CV.to(states_CM.dtype)
        if self.states_NM is not None:
            product_CM = product(x_CV, self.head.weight_VM).mul_(scale_C1)
            sum_1M = len(self.head.weight_VM) * self.mean.weight_VM
            rows.put(self.states_NM, product_CM.sub_(shift * sum_1M))
        if self.wants_weight:
            scaled_CM = (states_CM * scale_C1).to(states_CM.dtype)
            new_MV = product(scaled_CM.t(), x_CV)
            # At first the product itself, without a pass over zeros.
            old_MV = self.weight_MV
            self.weight_MV = new_MV.to(self.precision) if old_MV is None else old_MV.add_(new_MV)
            self.shift_M += shift * states_CM.sum(dim=0, dtype=self.precision)

    def result(self) -> Iterator[Tensor | None]:
        """Yield each in the type of what it is the gradient of."""
        for gradient in (self.states_NM, self._weight_VM(), self.bias_V):
            yield None if gradient is None else gradient.to(self.head.weight_VM.dtype)

    def _weight_VM(self) -> Tensor | None:
        if self.weight_MV is not None:
            return (self.weight_MV - self.shift_M[:, None]).t().contiguous()
        # no token at all, or nobody who wants it
        return self.zeros(*self.head.weight_VM.shape) if self.wants_weight else None


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
