"""Losses computed in chunks of rows, with hand-written gradients.

The logits of a chunk are replaced in place by their gradient, from which the gradients of states
and output weights are accumulated during the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from seq2see.cpu import product
from seq2see.errors import InputError
from seq2see.loss.reference import Head, LossSum, Teacher, finite

# N tokens in a row; M features; V vocabulary
# N tokens in a row; C tokens of a chunk; V vocabulary
# C tokens of a chunk; V vocabulary
# N tokens in a row; C tokens of a chunk; M features; V vocabulary


def check(states_NM: Tensor, head: Head, labels_N: Tensor) -> None:
    """Refuse what does not fit together."""
    weight_VM = head.weight_VM
    if states_NM.dim() != 2 or states_NM.size(1) != weight_VM.size(1):
        raise InputError(
            f"states must be [tokens, {weight_VM.size(1)}], as the output layer takes them, "
            f"but are {list(states_NM.shape)} instead"
        )
    if labels_N.shape != states_NM.shape[:1]:
        raise InputError(
            f"labels must be as many as the states, {len(states_NM)}, "
            f"but are {list(labels_N.shape)} instead"
        )
    if labels_N.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"labels must be int64 or int32, but are {labels_N.dtype} instead")
    if labels_N.device.type == "cpu":  # elsewhere to look would be to wait
        _check_range(labels_N, len(weight_VM) - 1)


def _check_range(labels_N: Tensor, last: int) -> None:
    wrong = labels_N[(labels_N < 0) | (labels_N > last)]
    if len(wrong):
        raise InputError(
            f"a label must be from 0 to {last}, the vocabulary's last, but is {wrong[0].item()} "
            f"instead; leave padding out"
        )


_BITS = math.log2(math.e)
"""Bits of a natural unit."""


class Rows(NamedTuple):
    """Tokens `start` to `stop` of each pass."""

    start: int
    stop: int
    passes: int

    @property
    def size(self) -> int:
        """The rows of all passes."""
        return self.passes * (self.stop - self.start)

    def of(self, x_N: Tensor) -> Tensor:
        """Take them: a view if there is one pass, else a copy, pass after pass."""
        return self._parts(x_N).flatten(0, 1)

    def put(self, x_N: Tensor, part_C: Tensor) -> None:
        """Put them to their places in `x_N`."""
        self._parts(x_N).copy_(part_C.view(self.passes, -1, *part_C.shape[1:]))

    def _parts(self, x_N: Tensor) -> Tensor:
        return x_N.view(self.passes, -1, *x_N.shape[1:])[:, self.start : self.stop]


class Term(Protocol):
    """A further term: from the logits of a chunk to its sum and its gradient of the logits."""

    def __call__(self, logits_CV: Tensor, rows: Rows, /) -> tuple[Tensor, Tensor]:
        """Return both; the logits must stay as they are."""
        ...


class Slope(NamedTuple):
    """The gradient of the logits of a chunk: scale · x − shift.

    It stays in parts, since what follows is linear. Behind a product with x, scale and shift cost
    little; in front of it, each is a pass over the largest tensor there is.
    """

    x_CV: Tensor
    scale_C1: Tensor
    shift: float

    def whole_(self) -> Slope:
        """Return the same with nothing to scale or shift, in the memory of x."""
        whole_CV = self.x_CV.mul_(self.scale_C1).sub_(self.shift)
        return Slope(whole_CV, torch.ones_like(self.scale_C1), 0.0)


class ChunkLoss(NamedTuple):
    """share · cross-entropy + term_share · term, over the rows of a chunk."""

    labels_N: Tensor
    smoothing: float
    share: float = 1.0
    term: Term | None = None
    term_share: float = 0.0
    passes: int = 1

    def chunks(self, size: int) -> Iterator[Rows]:
        """Cut the tokens into chunks of nearly the same length, none longer than `size`."""
        tokens, size = len(self.labels_N) // self.passes, max(1, size // self.passes)
        count = math.ceil(tokens / size)
        for i in range(count):
            yield Rows(tokens * i // count, tokens * (i + 1) // count, self.passes)

    def __call__(
        self, logits_CV: Tensor, mean_C1: Tensor, rows: Rows, gradient: bool
    ) -> tuple[Tensor, Tensor, Slope | None]:
        """Return loss, nll, and the gradient of the loss if it is wanted.

        The logits, whose mean is given too, make room for it.
        """
        # First, while the logits are still there.
        term = self.term(logits_CV, rows) if self.term else None
        labels_C1 = rows.of(self.labels_N)[:, None]
        loss, nll, slope = _cross_entropy_(logits_CV, mean_C1, labels_C1, self.smoothing, gradient)
        if term is None:
            return loss, nll, slope
        if slope is not None:
            slope = slope.whole_()
            slope.x_CV.mul_(self.share).add_(term[1], alpha=self.term_share)
        return self.share * loss + self.term_share * term[0], nll, slope


def _cross_entropy_(
    logits_CV: Tensor, mean_C1: Tensor, labels_C1: Tensor, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor, Slope | None]:
    """Return the sums of loss and nll, and the gradient of the loss.

    −log p = log Σ exp(x) − x, where x is how far a logit is below the highest; and the gradient is
    p − the target, which has ε/V everywhere and 1 − ε more at the label. All of it in bits, since
    on a CPU torch's exp2 takes half the time of its exp.
    """
    highest_C1 = -_BITS * logits_CV.amax(dim=1, keepdim=True)
    x_CV = torch.add(highest_C1, logits_CV, alpha=_BITS, out=logits_CV)
    # Rounded as the others are, so that no probability is above 1.
    label_C1 = x_CV.gather(1, labels_C1)
    mean_C1 = torch.add(highest_C1, mean_C1, alpha=_BITS)
    sum_C1 = x_CV.exp2_().sum(dim=1, keepdim=True)
    log_sum_C1 = sum_C1.log2()
    nll_C1 = (log_sum_C1 - label_C1) / _BITS
    loss_C1 = (1 - smoothing) * nll_C1 + smoothing * (log_sum_C1 - mean_C1) / _BITS
    if not gradient:
        return loss_C1.sum(), nll_C1.sum(), None
    x_CV.scatter_add_(1, labels_C1, (smoothing - 1) * sum_C1)
    slope = Slope(x_CV, sum_C1.reciprocal(), smoothing / x_CV.size(1))
    return loss_C1.sum(), nll_C1.sum(), slope


class ToTeacher:
    """KL(teacher ‖ student), the teacher's logits made chunk by chunk."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher

    def __call__(self, logits_CV: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the divergence of a chunk, and its gradient."""
        teacher_CV = self.teacher.head(rows.of(self.teacher.states_NM))
        log_p_CV = teacher_CV.log_softmax(dim=1, dtype=logits_CV.dtype)
        log_q_CV = logits_CV.log_softmax(dim=1)
        p_CV = log_p_CV.exp()
        loss = (p_CV * (finite(log_p_CV) - log_q_CV)).sum()
        return loss, log_q_CV.exp_().sub_(p_CV)


def between_passes(logits_CV: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the symmetric KL of the two passes.

    The gradients of KL(p ‖ q) are p · (log p − log q − KL) for the logits of p, q − p for q's.
    """
    log_p, log_q = logits_CV.unflatten(0, (rows.passes, -1)).log_softmax(dim=-1)
    difference = finite(log_p) - finite(log_q)
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * difference).sum(dim=-1, keepdim=True)
    q_to_p = -(q * difference).sum(dim=-1, keepdim=True)
    gradient_p = p * (difference - p_to_q) + p - q
    gradient_q = q * (-difference - q_to_p) + q - p
    return (p_to_q + q_to_p).sum() / 2, torch.cat((gradient_p, gradient_q)) / 2


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
