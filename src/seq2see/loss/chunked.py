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

from seq2see.cpu import matmul
from seq2see.errors import InputError
from seq2see.loss.reference import LossSum, OutputWeights, TeacherStates, clamp_log_probs

# N tokens in a row; M features; V vocabulary
# N tokens in a row; C tokens of a chunk; V vocabulary
# C tokens of a chunk; V vocabulary
# N tokens in a row; C tokens of a chunk; M features; V vocabulary


def check_loss_inputs(states_NM: Tensor, output_weights: OutputWeights, labels_N: Tensor) -> None:
    """Refuse what does not fit together."""
    weight_VM = output_weights.weight_VM
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


class ChunkRows(NamedTuple):
    """Tokens `start` to `stop` of each pass."""

    start: int
    stop: int
    num_passes: int

    @property
    def num_rows(self) -> int:
        """The rows of all passes."""
        return self.num_passes * (self.stop - self.start)

    def select(self, x_N: Tensor) -> Tensor:
        """Take them: a view if there is one pass, else a copy, pass after pass."""
        return self._parts(x_N).flatten(0, 1)

    def write(self, x_N: Tensor, part_C: Tensor) -> None:
        """Put them to their places in `x_N`."""
        self._parts(x_N).copy_(part_C.view(self.num_passes, -1, *part_C.shape[1:]))

    def _parts(self, x_N: Tensor) -> Tensor:
        return x_N.view(self.num_passes, -1, *x_N.shape[1:])[:, self.start : self.stop]


class ExtraTerm(Protocol):
    """A further term: from the logits of a chunk to its sum and its gradient of the logits."""

    def __call__(self, logits_CV: Tensor, rows: ChunkRows, /) -> tuple[Tensor, Tensor]:
        """Return both; the logits must stay as they are."""
        ...


class LogitsGradient(NamedTuple):
    """The gradient of the logits of a chunk: scale · x − shift.

    It stays in parts, since what follows is linear. Behind a product with x, scale and shift cost
    little; in front of it, each is a pass over the largest tensor there is.
    """

    x_CV: Tensor
    scale_C1: Tensor
    shift: float

    def materialize_(self) -> LogitsGradient:
        """Return the same with nothing to scale or shift, in the memory of x."""
        whole_CV = self.x_CV.mul_(self.scale_C1).sub_(self.shift)
        return LogitsGradient(whole_CV, torch.ones_like(self.scale_C1), 0.0)


class ChunkLoss(NamedTuple):
    """share · cross-entropy + term_share · term, over the rows of a chunk."""

    labels_N: Tensor
    smoothing: float
    weight: float = 1.0
    term: ExtraTerm | None = None
    term_weight: float = 0.0
    num_passes: int = 1

    def split_rows(self, max_rows: int) -> Iterator[ChunkRows]:
        """Cut the tokens into chunks of nearly the same length, none longer than `size`."""
        tokens, max_rows = (
            len(self.labels_N) // self.num_passes,
            max(1, max_rows // self.num_passes),
        )
        count = math.ceil(tokens / max_rows)
        for i in range(count):
            yield ChunkRows(tokens * i // count, tokens * (i + 1) // count, self.num_passes)

    def __call__(
        self, logits_CV: Tensor, mean_C1: Tensor, rows: ChunkRows, gradient: bool
    ) -> tuple[Tensor, Tensor, LogitsGradient | None]:
        """Return loss, nll, and the gradient of the loss if it is wanted.

        The logits, whose mean is given too, make room for it.
        """
        # First, while the logits are still there.
        term = self.term(logits_CV, rows) if self.term else None
        labels_C1 = rows.select(self.labels_N)[:, None]
        loss, nll, slope = _cross_entropy_(logits_CV, mean_C1, labels_C1, self.smoothing, gradient)
        if term is None:
            return loss, nll, slope
        if slope is not None:
            slope = slope.materialize_()
            slope.x_CV.mul_(self.weight).add_(term[1], alpha=self.term_weight)
        return self.weight * loss + self.term_weight * term[0], nll, slope


def _cross_entropy_(
    logits_CV: Tensor, mean_C1: Tensor, labels_C1: Tensor, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor, LogitsGradient | None]:
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
    slope = LogitsGradient(x_CV, sum_C1.reciprocal(), smoothing / x_CV.size(1))
    return loss_C1.sum(), nll_C1.sum(), slope


class DistillationTerm:
    """KL(teacher ‖ student), the teacher's logits made chunk by chunk."""

    def __init__(self, teacher: TeacherStates) -> None:
        self.teacher = teacher

    def __call__(self, logits_CV: Tensor, rows: ChunkRows) -> tuple[Tensor, Tensor]:
        """Return the divergence of a chunk, and its gradient."""
        teacher_CV = self.teacher.output_weights(rows.select(self.teacher.states_NM))
        log_p_CV = teacher_CV.log_softmax(dim=1, dtype=logits_CV.dtype)
        log_q_CV = logits_CV.log_softmax(dim=1)
        p_CV = log_p_CV.exp()
        loss = (p_CV * (clamp_log_probs(log_p_CV) - log_q_CV)).sum()
        return loss, log_q_CV.exp_().sub_(p_CV)


def compute_r_drop_term(logits_CV: Tensor, rows: ChunkRows) -> tuple[Tensor, Tensor]:
    """Return the symmetric KL of the two passes.

    The gradients of KL(p ‖ q) are p · (log p − log q − KL) for the logits of p, q − p for q's.
    """
    log_p, log_q = logits_CV.unflatten(0, (rows.num_passes, -1)).log_softmax(dim=-1)
    difference = clamp_log_probs(log_p) - clamp_log_probs(log_q)
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * difference).sum(dim=-1, keepdim=True)
    q_to_p = -(q * difference).sum(dim=-1, keepdim=True)
    gradient_p = p * (difference - p_to_q) + p - q
    gradient_q = q * (-difference - q_to_p) + q - p
    return (p_to_q + q_to_p).sum() / 2, torch.cat((gradient_p, gradient_q)) / 2


def compute_logits(output_weights: OutputWeights, states_CM: Tensor) -> Tensor:
    """Return the logits of a chunk, in float32 at least."""
    return matmul(states_CM, output_weights.weight_VM.t(), output_weights.bias_V).to(
        _precise(output_weights.weight_VM)
    )


class GradientAccumulator:
    """The gradients of states, weight and bias as they grow, in float32 at least."""

    def __init__(
        self, states_NM: Tensor, output_weights: OutputWeights, needed: list[bool]
    ) -> None:
        self.output_weights = output_weights
        self.mean_weights = output_weights.mean()
        self.precision = _precise(output_weights.weight_VM)
        states, weight, bias = needed
        self.states_NM = torch.empty_like(states_NM) if states else None
        self.needs_weight = weight
        self.weight_MV: Tensor | None = None
        self.bias_V = self.zeros(len(output_weights.weight_VM)) if bias else None
        self.shift_M = self.zeros(states_NM.size(1))

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros that sums can grow in."""
        return self.output_weights.weight_VM.new_zeros(shape, dtype=self.precision)

    def add(self, rows: ChunkRows, states_CM: Tensor, slope: LogitsGradient) -> None:
        """Pass the gradient of a chunk's logits on."""
        if self.bias_V is not None or states_CM.dtype != self.precision:
            slope = slope.materialize_()  # a sum needs it, and so do products that round
        x_CV, scale_C1, shift = slope
        if self.bias_V is not None:
            self.bias_V += x_CV.sum(dim=0)
        x_CV = x_CV.to(states_CM.dtype)
        if self.states_NM is not None:
            product_CM = matmul(x_CV, self.output_weights.weight_VM).mul_(scale_C1)
            sum_1M = len(self.output_weights.weight_VM) * self.mean_weights.weight_VM
            rows.write(self.states_NM, product_CM.sub_(shift * sum_1M))
        if self.needs_weight:
            scaled_CM = (states_CM * scale_C1).to(states_CM.dtype)
            new_MV = matmul(scaled_CM.t(), x_CV)
            # At first the product itself, without a pass over zeros.
            old_MV = self.weight_MV
            self.weight_MV = new_MV.to(self.precision) if old_MV is None else old_MV.add_(new_MV)
            self.shift_M += shift * states_CM.sum(dim=0, dtype=self.precision)

    def results(self) -> Iterator[Tensor | None]:
        """Yield each in the type of what it is the gradient of."""
        for gradient in (self.states_NM, self._weight_VM(), self.bias_V):
            yield None if gradient is None else gradient.to(self.output_weights.weight_VM.dtype)

    def _weight_VM(self) -> Tensor | None:
        if self.weight_MV is not None:
            return (self.weight_MV - self.shift_M[:, None]).t().contiguous()
        # no token at all, or nobody who wants it
        return self.zeros(*self.output_weights.weight_VM.shape) if self.needs_weight else None


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def default_chunk_size(vocab_size: int) -> int:
    """Return how many rows to take at a time: 640, fewer where that is above 64 MB of float32.

    Each matrix product reads all the weights: with 128 rows, all of it took 1.05 times as long.
    With more than 640, there was no gain to be seen.
    """
    return max(128, min(640, 2**24 // vocab_size))


def compute_chunked_loss(
    states_NM: Tensor, output_weights: OutputWeights, objective: ChunkLoss, chunk_size: int | None
) -> LossSum:
    """Walk over the chunks, in the type of states and weights, or of autocast."""
    check_loss_inputs(states_NM, output_weights, objective.labels_N)
    objective = objective._replace(labels_N=objective.labels_N.long())  # gather takes no other
    device = states_NM.device.type
    dtype = torch.promote_types(states_NM.dtype, output_weights.weight_VM.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    bias_V = None if output_weights.bias_V is None else output_weights.bias_V.to(dtype)
    size = chunk_size or default_chunk_size(len(output_weights.weight_VM))
    # Inside the function grad mode is always off, and `needs_input_grad` knows nothing of no_grad.
    gradient = torch.is_grad_enabled()
    total, nll = _Fused.apply(  # type: ignore[no-untyped-call]
        states_NM.to(dtype), output_weights.weight_VM.to(dtype), bias_V, objective, size, gradient
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
        head = OutputWeights(weight_VM, bias_V)
        needed = [gradient and needs for needs in ctx.needs_input_grad[:3]]
        gradients = GradientAccumulator(states_NM, head, needed)
        total, nll = gradients.zeros(), gradients.zeros()
        with torch.autocast(states_NM.device.type, enabled=False):
            mean_N1 = gradients.mean_weights(states_NM.to(gradients.precision))

        def walked(rows: ChunkRows) -> tuple[Tensor, Tensor]:
            """Pass a chunk on; its logits are gone before those of the next are made."""
            states_CM = rows.select(states_NM)
            logits_CV = compute_logits(head, states_CM)
            loss, surprise, slope = objective(logits_CV, rows.select(mean_N1), rows, any(needed))
            if slope is not None:
                gradients.add(rows, states_CM, slope)
            return loss, surprise

        for loss, surprise in map(walked, objective.split_rows(size)):
            total += loss
            nll += surprise
        ctx.save_for_backward(*gradients.results())
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
