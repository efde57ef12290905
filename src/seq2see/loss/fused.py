"""The walk over the chunks, with the gradients of states and weights made on the way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seq2see.loss.checks import check
from seq2see.loss.chunks import ChunkLoss, Rows
from seq2see.loss.gradients import Gradients, logits_of
from seq2see.loss.output import Head, LossSum

# N tokens in a row; M features; V vocabulary


def rows_of_a_chunk(vocab_size: int) -> int:
    """Return how many rows to take at a time: 640, fewer where that is above 64 MB of float32.

    Each matrix product reads all the weights: with 128 rows, all of it took 1.05 times as long.
    With more than 640, there was no gain to be seen.
    """
    return max(128, min(640, 2**24 // vocab_size))


def fused(states_NM: Tensor, head: Head, objective: ChunkLoss, chunk: int | None) -> LossSum:
    """Walk over the chunks, in the type of states and weights, or of autocast."""
    check(states_NM, head, objective.labels_N)
    objective = objective._replace(labels_N=objective.labels_N.long())  # gather takes no other
    device = states_NM.device.type
    dtype = torch.promote_types(states_NM.dtype, head.weight_VM.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    bias_V = None if head.bias_V is None else head.bias_V.to(dtype)
    size = chunk or rows_of_a_chunk(len(head.weight_VM))
    # Inside the function grad mode is always off, and `needs_input_grad` knows nothing of no_grad.
    gradient = torch.is_grad_enabled()
    total, nll = _Fused.apply(  # type: ignore[no-untyped-call]
        states_NM.to(dtype), head.weight_VM.to(dtype), bias_V, objective, size, gradient
    )
    return LossSum(total, nll, len(states_NM))


class _Fused(torch.autograd.Function):
    """Walks over the chunks, and makes the gradients on its way if anyone will want them."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        weight_VM: Tensor,
        bias_V: Tensor | None,
        objective: ChunkLoss,
        size: int,
        gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        head = Head(weight_VM, bias_V)
        needed = [gradient and needs for needs in ctx.needs_input_grad[:3]]
        gradients = Gradients(states_NM, head, needed)
        total, nll = gradients.zeros(), gradients.zeros()
        with torch.autocast(states_NM.device.type, enabled=False):
            mean_N1 = gradients.mean(states_NM.to(gradients.precision))

        def walked(rows: Rows) -> tuple[Tensor, Tensor]:
            """Pass a chunk on; its logits are gone before those of the next are made."""
            states_CM = rows.of(states_NM)
            logits_CV = logits_of(head, states_CM)
            loss, surprise, slope = objective(logits_CV, rows.of(mean_N1), rows, any(needed))
            if slope is not None:
                gradients.add(rows, states_CM, slope)
            return loss, surprise

        for loss, surprise in map(walked, objective.chunks(size)):
            total += loss
            nll += surprise
        ctx.save_for_backward(*gradients.result())
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *factors: Any) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the fused loss has no second derivative: leave `create_graph` out, or take "
                "the plain form"
            )
        factor = factors[0]
        # Not in place, as the graph may be kept. Elsewhere than on a CPU to look would be to wait.
        same = factor.device.type == "cpu" and factor.item() == 1
        saved = [g if g is None or same else g * factor.to(g.dtype) for g in ctx.saved_tensors]
        return *saved, None, None, None
