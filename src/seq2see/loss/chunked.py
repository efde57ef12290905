"""Losses that are computed in chunks of rows, with hand-written gradients, and their types.

The logits of a chunk are replaced in place by their gradient, from which the gradients of states
and output weights are accumulated during the forward pass. The backward pass only scales them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from seq2see.cpu import matmul

# N tokens of the batch, P passes over the batch, C tokens of a chunk, M features of the model,
# V vocabulary

_LOG2_E = math.log2(math.e)


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
        dtype = _sum_dtype(self.weight_VM)
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


ExtraLossTerm = Callable[[Tensor, slice], tuple[Tensor, Tensor]]
"""A loss term in addition to the cross-entropy. It takes the logits, which must not be changed, and
the rows of a chunk, and returns the sum of the term and its gradient of the logits."""


class LogitsGradientParts(NamedTuple):
    """The gradient of the logits of a chunk: scale · x − shift.

    The three parts are not combined, because all that follows is linear: after a product with x,
    scale and shift cost little; before it, each is a pass over the largest tensor of the update.
    """

    x_CV: Tensor
    scale_C1: Tensor
    shift: float

    def materialize_(self) -> LogitsGradientParts:
        """Return the same gradient with scale 1 and shift 0, computed in place."""
        gradient_CV = self.x_CV.mul_(self.scale_C1).sub_(self.shift)
        return LogitsGradientParts(gradient_CV, torch.ones_like(self.scale_C1), 0.0)


class ChunkLossAndGradient(NamedTuple):
    """weight · cross-entropy + term_weight · term, over the rows of a chunk."""

    labels_N: Tensor
    smoothing: float
    weight: float = 1.0
    term: ExtraLossTerm | None = None
    term_weight: float = 0.0
    num_passes: int = 1

    def split_rows(self, max_rows: int) -> Iterator[slice]:
        """Yield the rows of each pass that form a chunk of at most `max_rows` rows in total.

        The chunks have nearly equal sizes.
        """
        tokens = len(self.labels_N) // self.num_passes
        num_chunks = math.ceil(tokens / max(1, max_rows // self.num_passes))
        for i in range(num_chunks):
            yield slice(tokens * i // num_chunks, tokens * (i + 1) // num_chunks)

    def separate_passes(self, x_N: Tensor) -> Tensor:
        """Return a view with one axis for the passes, [P, N / P, …]."""
        return x_N.view(self.num_passes, -1, *x_N.shape[1:])

    def __call__(
        self, logits_CV: Tensor, mean_C1: Tensor, rows: slice, needs_gradient: bool
    ) -> tuple[Tensor, Tensor, LogitsGradientParts | None]:
        """Return the sums of loss and nll, and the gradient if it is needed.

        `mean_C1` is the mean of the logits, which are overwritten.
        """
        # First, because the cross-entropy overwrites the logits.
        term = self.term(logits_CV, rows) if self.term else None
        labels_C1 = self.separate_passes(self.labels_N)[:, rows].reshape(-1, 1)
        loss, nll, gradient = _cross_entropy_(
            logits_CV, mean_C1, labels_C1, self.smoothing, needs_gradient
        )
        if term is None:
            return loss, nll, gradient
        if gradient is not None:
            gradient = gradient.materialize_()
            gradient.x_CV.mul_(self.weight).add_(term[1], alpha=self.term_weight)
        return self.weight * loss + self.term_weight * term[0], nll, gradient


def _cross_entropy_(
    logits_CV: Tensor, mean_C1: Tensor, labels_C1: Tensor, smoothing: float, needs_gradient: bool
) -> tuple[Tensor, Tensor, LogitsGradientParts | None]:
    """Return the sums of loss and nll, and the gradient of the loss; overwrites the logits.

    −log p = log Σ exp(x) − x, where x is a logit minus the maximum. The gradient is p minus the
    target, which is ε/V everywhere and 1 − ε more at the label. All is computed in base 2, because
    torch's exp2 takes half the time of its exp on a CPU.
    """
    negated_max_C1 = -_LOG2_E * logits_CV.amax(dim=1, keepdim=True)
    x_CV = torch.add(negated_max_C1, logits_CV, alpha=_LOG2_E, out=logits_CV)
    # Rounded like the others, so that no probability is above 1.
    label_C1 = x_CV.gather(1, labels_C1)
    mean_C1 = torch.add(negated_max_C1, mean_C1, alpha=_LOG2_E)
    sum_C1 = x_CV.exp2_().sum(dim=1, keepdim=True)
    log_sum_C1 = sum_C1.log2()
    nll_C1 = (log_sum_C1 - label_C1) / _LOG2_E
    loss_C1 = (1 - smoothing) * nll_C1 + smoothing * (log_sum_C1 - mean_C1) / _LOG2_E
    if not needs_gradient:
        return loss_C1.sum(), nll_C1.sum(), None
    x_CV.scatter_add_(1, labels_C1, (smoothing - 1) * sum_C1)
    gradient = LogitsGradientParts(x_CV, sum_C1.reciprocal(), smoothing / x_CV.size(1))
    return loss_C1.sum(), nll_C1.sum(), gradient


def compute_distillation_term(
    teacher: TeacherStates, logits_CV: Tensor, rows: slice
) -> tuple[Tensor, Tensor]:
    """Return KL(teacher ‖ student) of a chunk and its gradient."""
    teacher_CV = teacher.output_weights(teacher.states_NM[rows])
    log_p_CV = teacher_CV.log_softmax(dim=1, dtype=logits_CV.dtype)
    log_q_CV = logits_CV.log_softmax(dim=1)
    p_CV = log_p_CV.exp()
    loss = (p_CV * (clamp_log_probs(log_p_CV) - log_q_CV)).sum()
    return loss, log_q_CV.exp_().sub_(p_CV)


def compute_r_drop_term(logits_CV: Tensor, rows: slice) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    """Return the symmetric KL divergence between the two passes, and its gradient.

    The gradient of KL(p ‖ q) is p · (log p − log q − KL) for the logits of p, q − p for those of q.
    """
    log_p, log_q = logits_CV.unflatten(0, (2, -1)).log_softmax(dim=-1)
    difference = clamp_log_probs(log_p) - clamp_log_probs(log_q)
    p, q = log_p.exp(), log_q.exp()
    kl_p_q = (p * difference).sum(dim=-1, keepdim=True)
    kl_q_p = -(q * difference).sum(dim=-1, keepdim=True)
    gradient_p = p * (difference - kl_p_q) + p - q
    gradient_q = q * (-difference - kl_q_p) + q - p
    return (kl_p_q + kl_q_p).sum() / 2, torch.cat((gradient_p, gradient_q)) / 2


def compute_logits(output_weights: OutputWeights, states_CM: Tensor) -> Tensor:
    """Return the logits of a chunk in float32 or higher precision."""
    weight_VM, bias_V = output_weights
    return matmul(states_CM, weight_VM.t(), bias_V).to(_sum_dtype(weight_VM))


class ChunkGradientAccumulator:
    """Accumulates the gradients of states, weight and bias in float32 or higher precision."""

    def __init__(
        self, states_PNM: Tensor, output_weights: OutputWeights, needed: list[bool]
    ) -> None:
        self.output_weights = output_weights
        self.mean_weights = output_weights.mean()
        self.precision = _sum_dtype(output_weights.weight_VM)
        needs_states, needs_weight, needs_bias = needed
        self.states_PNM = torch.empty_like(states_PNM) if needs_states else None
        self.needs_weight = needs_weight
        self.weight_MV: Tensor | None = None
        self.bias_V = self.zeros(len(output_weights.weight_VM)) if needs_bias else None
        self.shift_M = self.zeros(states_PNM.size(2))

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros in the precision of the sums."""
        return self.output_weights.weight_VM.new_zeros(shape, dtype=self.precision)

    def add(self, rows: slice, states_CM: Tensor, gradient: LogitsGradientParts) -> None:
        """Add the contribution of a chunk, given the gradient of its logits."""
        if self.bias_V is not None or states_CM.dtype != self.precision:
            gradient = gradient.materialize_()  # needed for the bias and for rounded products
        x_CV, scale_C1, shift = gradient
        if self.bias_V is not None:
            self.bias_V += x_CV.sum(dim=0)
        x_CV = x_CV.to(states_CM.dtype)
        if self.states_PNM is not None:
            weight_VM = self.output_weights.weight_VM
            product_CM = matmul(x_CV, weight_VM).mul_(scale_C1)
            sum_1M = len(weight_VM) * self.mean_weights.weight_VM
            chunk_PCM = self.states_PNM[:, rows]
            chunk_PCM.copy_(product_CM.sub_(shift * sum_1M).view_as(chunk_PCM))
        if self.needs_weight:
            scaled_CM = (states_CM * scale_C1).to(states_CM.dtype)
            new_MV = matmul(scaled_CM.t(), x_CV)
            # The first product is stored directly, which avoids a pass over zeros.
            old_MV = self.weight_MV
            self.weight_MV = new_MV.to(self.precision) if old_MV is None else old_MV.add_(new_MV)
            self.shift_M += shift * states_CM.sum(dim=0, dtype=self.precision)

    def results(self) -> Iterator[Tensor | None]:
        """Yield the gradients of states, weight and bias, in the type of the weights."""
        states_NM = None if self.states_PNM is None else self.states_PNM.flatten(0, 1)
        for gradient in (states_NM, self._weight_VM(), self.bias_V):
            yield None if gradient is None else gradient.to(self.output_weights.weight_VM.dtype)

    def _weight_VM(self) -> Tensor | None:
        if self.weight_MV is not None:
            return (self.weight_MV - self.shift_M[:, None]).t().contiguous()
        # There are no tokens, or the gradient is not needed.
        return self.zeros(*self.output_weights.weight_VM.shape) if self.needs_weight else None


def _sum_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def default_chunk_size(vocab_size: int) -> int:
    """Return the number of rows per chunk: 640, or fewer if their logits exceed 64 MB in float32.

    Each matrix product reads all weights: with 128 rows the loss took 1.05 times as long. More than
    640 rows were not measurably faster.
    """
    return max(128, min(640, 2**24 // vocab_size))


def compute_chunked_loss(
    states_NM: Tensor,
    output_weights: OutputWeights,
    objective: ChunkLossAndGradient,
    chunk_size: int | None,
) -> LossSum:
    """Return the loss over all chunks.

    Matrix products use the type of states and weights, or that of autocast.
    """
    objective = objective._replace(labels_N=objective.labels_N.long())  # `gather` needs int64
    weight_VM, bias_V = output_weights
    device = states_NM.device.type
    dtype = torch.promote_types(states_NM.dtype, weight_VM.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    bias_V = None if bias_V is None else bias_V.to(dtype)
    max_rows = chunk_size or default_chunk_size(len(weight_VM))
    # Read here: inside the function grad mode is off, and `needs_input_grad` ignores `no_grad`.
    needs_gradient = torch.is_grad_enabled()
    total, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        states_NM.to(dtype), weight_VM.to(dtype), bias_V, objective, max_rows, needs_gradient
    )
    return LossSum(total, nll, len(states_NM))


class _ChunkedLoss(torch.autograd.Function):
    """Computes the loss chunk by chunk, and the gradients in the same pass if they are needed."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        weight_VM: Tensor,
        bias_V: Tensor | None,
        objective: ChunkLossAndGradient,
        max_rows: int,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        output_weights = OutputWeights(weight_VM, bias_V)
        needed = [needs_gradient and needs for needs in ctx.needs_input_grad[:3]]
        states_PNM = objective.separate_passes(states_NM)
        accumulator = ChunkGradientAccumulator(states_PNM, output_weights, needed)
        total, nll = accumulator.zeros(), accumulator.zeros()
        with torch.autocast(states_NM.device.type, enabled=False):
            mean_PN1 = accumulator.mean_weights(states_PNM.to(accumulator.precision))

        def process_chunk(rows: slice) -> tuple[Tensor, Tensor]:
            """Process a chunk; its logits are freed before those of the next are allocated."""
            states_CM = states_PNM[:, rows].flatten(0, 1)
            logits_CV = compute_logits(output_weights, states_CM)
            mean_C1 = mean_PN1[:, rows].flatten(0, 1)
            loss, nll, gradient = objective(logits_CV, mean_C1, rows, any(needed))
            if gradient is not None:
                accumulator.add(rows, states_CM, gradient)
            return loss, nll

        for chunk_loss, chunk_nll in map(process_chunk, objective.split_rows(max_rows)):
            total += chunk_loss
            nll += chunk_nll
        ctx.save_for_backward(*accumulator.results())
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *factors: Any) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the chunked loss has no second derivative: do not set `create_graph`, or use "
                "the reference implementation"
            )
        factor = factors[0]
        # Not in place, because the graph may be retained. Reading the factor is a sync point, so
        # that only a CPU skips the multiplication by 1.
        is_one = factor.device.type == "cpu" and factor.item() == 1
        saved = [g if g is None or is_one else g * factor.to(g.dtype) for g in ctx.saved_tensors]
        return *saved, None, None, None
