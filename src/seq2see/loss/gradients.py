"""What a walk over the chunks holds: the logits of one, and the gradients of all so far."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2see.loss.chunks import Rows, Slope
from seq2see.loss.output import Head

# N tokens in a row; C tokens of a chunk; M features; V vocabulary


class Logits:
    """The logits of one chunk after the other, in the same memory."""

    def __init__(self, head: Head, size: int) -> None:
        self.head = head
        weight_VM = head.weight_VM
        self.memory_CV = weight_VM.new_empty(size, len(weight_VM), dtype=_precise(weight_VM))

    def __call__(self, states_CM: Tensor) -> Tensor:
        """Return those of a chunk; those of the one before are gone."""
        weight_VM, bias_V = self.head
        out_CV = self.memory_CV[: len(states_CM)]
        if out_CV.dtype != weight_VM.dtype:
            return out_CV.copy_(self.head(states_CM))
        if bias_V is None:
            return torch.mm(states_CM, weight_VM.t(), out=out_CV)
        return torch.addmm(bias_V, states_CM, weight_VM.t(), out=out_CV)


class Gradients:
    """The gradients of states, weight and bias as they grow, in float32 at least."""

    def __init__(self, states_NM: Tensor, head: Head, needed: list[bool]) -> None:
        self.head = head
        self.mean = head.mean()
        self.precision = _precise(head.weight_VM)
        states, weight, bias = needed
        self.states_NM = torch.empty_like(states_NM) if states else None
        self.wants_weight = weight
        self.weight_VM: Tensor | None = None
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
            product_CM = (x_CV @ self.head.weight_VM) * scale_C1
            sum_1M = len(self.head.weight_VM) * self.mean.weight_VM
            rows.put(self.states_NM, product_CM.sub_(shift * sum_1M))
        if self.wants_weight:
            scaled_CM = (states_CM * scale_C1).to(states_CM.dtype)
            self.weight_VM = self._added(self.weight_VM, x_CV.t(), scaled_CM)
            self.shift_M += shift * states_CM.sum(dim=0, dtype=self.precision)

    def _added(self, sum_VM: Tensor | None, a_VC: Tensor, b_CM: Tensor) -> Tensor:
        """Return the sum with a product added; at first the product, without a pass over zeros."""
        if sum_VM is None:
            return (a_VC @ b_CM).to(self.precision)
        return sum_VM.addmm_(a_VC, b_CM) if sum_VM.dtype == a_VC.dtype else sum_VM.add_(a_VC @ b_CM)

    def result(self) -> Iterator[Tensor | None]:
        """Yield each in the type of what it is the gradient of."""
        if self.weight_VM is not None:
            self.weight_VM -= self.shift_M
        elif self.wants_weight:  # no token at all
            self.weight_VM = self.zeros(*self.head.weight_VM.shape)
        for gradient in (self.states_NM, self.weight_VM, self.bias_V):
            yield None if gradient is None else gradient.to(self.head.weight_VM.dtype)


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
