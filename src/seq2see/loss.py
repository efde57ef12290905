"""Training losses: cross-entropy with label smoothing, distillation, R-Drop.

A loss is a sum and a number of tokens. The division comes last, which gives the right mean over
several batches and several workers.

The output projection is a part of the loss. Its logits are the largest tensor of a training step,
and the chunked implementations never hold more than a chunk of their rows: logits, loss and the
gradient of the logits use the same memory one after the other, and only the contributions of a
chunk to the gradients of states and weights remain. They are computed in the forward pass; the
backward pass only scales them. The reference implementations are the formulas over full logits,
against which the chunked ones are tested.

Sums and softmax use float32 or a higher precision, whatever the type of the states is; a float32
sum over a batch is accurate to about six digits. Matrix products use the type of states and
weights, or that of autocast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from seq2see.config import Config
from seq2see.cpu import matmul
from seq2see.errors import Problem

# N tokens of the batch without padding, P passes over the batch, C tokens of a chunk, M features of
# the model, V vocabulary

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


ChunkLoss = Callable[
    [Tensor, Tensor, slice, bool], tuple[Tensor, Tensor, LogitsGradientParts | None]
]
"""Takes the logits of a chunk, which it may overwrite, their means, the rows of each pass that form
the chunk, and whether the gradient is needed. Returns the sums of loss and nll, and the gradient of
the logits."""


class ChunkGradientAccumulator:
    """Accumulates the gradients of states, weight and bias in float32 or higher precision."""

    def __init__(
        self, states_PNM: Tensor, output_weights: OutputWeights, mean_weights: OutputWeights
    ) -> None:
        self.output_weights, self.mean_weights = output_weights, mean_weights
        self.precision = mean_weights.weight_VM.dtype
        self.states_PNM = torch.empty_like(states_PNM)
        weight_VM, bias_V = output_weights
        self.weight_MV: Tensor | None = None
        self.bias_V = None if bias_V is None else torch.zeros_like(bias_V, dtype=self.precision)
        self.shift_M = weight_VM.new_zeros(weight_VM.size(1), dtype=self.precision)

    def add(self, rows: slice, states_CM: Tensor, gradient: LogitsGradientParts) -> None:
        """Add the contribution of a chunk, given the gradient of its logits."""
        if self.bias_V is not None or states_CM.dtype != self.precision:
            gradient = gradient.materialize_()  # needed for the bias and for rounded products
        x_CV, scale_C1, shift = gradient
        if self.bias_V is not None:
            self.bias_V += x_CV.sum(dim=0)
        x_CV = x_CV.to(states_CM.dtype)
        weight_VM = self.output_weights.weight_VM
        product_CM = matmul(x_CV, weight_VM).mul_(scale_C1)
        sum_1M = len(weight_VM) * self.mean_weights.weight_VM
        chunk_PCM = self.states_PNM[:, rows]
        chunk_PCM.copy_(product_CM.sub_(shift * sum_1M).view_as(chunk_PCM))
        scaled_CM = (states_CM * scale_C1).to(states_CM.dtype)
        new_MV = matmul(scaled_CM.t(), x_CV)
        # The first product is stored directly, which avoids a pass over zeros.
        old_MV = self.weight_MV
        self.weight_MV = new_MV.to(self.precision) if old_MV is None else old_MV.add_(new_MV)
        self.shift_M += shift * states_CM.sum(dim=0, dtype=self.precision)

    def results(self) -> Iterator[Tensor | None]:
        """Yield the gradients of states, weight and bias, in the type of the weights."""
        weight_VM = self.output_weights.weight_VM
        if self.weight_MV is None:  # there are no tokens
            gradient_VM = torch.zeros_like(weight_VM)
        else:
            gradient_VM = (self.weight_MV - self.shift_M[:, None]).t().contiguous()
        for gradient in (self.states_PNM.flatten(0, 1), gradient_VM, self.bias_V):
            yield None if gradient is None else gradient.to(weight_VM.dtype)


def _sum_dtype(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def default_chunk_size(vocab_size: int) -> int:
    """Return the number of rows per chunk: 640, or fewer if their logits exceed 64 MB in float32.

    Each matrix product reads all weights: with 128 rows the loss took 1.05 times as long. More than
    640 rows were not measurably faster.
    """
    return max(128, min(640, 2**24 // vocab_size))


def _split_rows(num_passes: int, num_rows: int, max_rows: int) -> Iterator[slice]:
    """Yield the rows of each pass that form a chunk of at most `max_rows` rows in total.

    The chunks have nearly equal sizes.
    """
    num_chunks = math.ceil(num_rows / max(1, max_rows // num_passes))
    for i in range(num_chunks):
        yield slice(num_rows * i // num_chunks, num_rows * (i + 1) // num_chunks)


class _ChunkedLoss(torch.autograd.Function):
    """Computes the loss chunk by chunk, and the gradients in the same pass if they are needed."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        weight_VM: Tensor,
        bias_V: Tensor | None,
        chunk_loss: ChunkLoss,
        num_passes: int,
        max_rows: int,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        output_weights = OutputWeights(weight_VM, bias_V)
        mean_weights = output_weights.mean()
        states_PNM = states_NM.view(num_passes, -1, states_NM.size(1))
        accumulator = None
        if needs_gradient and any(ctx.needs_input_grad):
            accumulator = ChunkGradientAccumulator(states_PNM, output_weights, mean_weights)
        precision = _sum_dtype(weight_VM)
        with torch.autocast(states_PNM.device.type, enabled=False):
            mean_PN1 = mean_weights(states_PNM.to(precision))

        def process_chunk(rows: slice) -> tuple[Tensor, Tensor]:
            """Process a chunk; its logits are freed before those of the next are allocated."""
            states_CM = states_PNM[:, rows].flatten(0, 1)
            logits_CV = matmul(states_CM, weight_VM.t(), bias_V).to(precision)
            mean_C1 = mean_PN1[:, rows].flatten(0, 1)
            loss, nll, gradient = chunk_loss(logits_CV, mean_C1, rows, accumulator is not None)
            if accumulator and gradient:
                accumulator.add(rows, states_CM, gradient)
            return loss, nll

        total, nll = (weight_VM.new_zeros((), dtype=precision) for _ in range(2))
        for rows in _split_rows(states_PNM.size(0), states_PNM.size(1), max_rows):
            chunk_total, chunk_nll = process_chunk(rows)
            total += chunk_total
            nll += chunk_nll
        ctx.save_for_backward(*(accumulator.results() if accumulator else ()))
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
        return *saved, None, None, None, None


class LossConfig(Config):
    """The training loss."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of each target distribution that is uniform over the vocabulary. 0: plain
    cross-entropy."""
    r_drop_weight: float = Field(default=0.0, ge=0)
    """Weight of the symmetric KL divergence between two passes with different dropout (R-Drop; 5 in
    its paper). An update takes twice as long. 0 (default): one pass."""
    distillation_weight: float = Field(default=0.0, ge=0, le=1)
    """Weight of the KL divergence to a teacher; the cross-entropy has the weight 1 minus this.
    0 (default): no teacher."""
    teacher: str | None = None
    """With `distillation_weight`: model directory of the teacher, relative to the recipe. The model
    uses its tokenizer."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message if two extra terms are set."""
        if self.r_drop_weight and self.distillation_weight:
            yield Problem(
                "r_drop_weight",
                "must be 0 with `distillation_weight`: only one extra term is possible",
            )


def compute_loss_from_states(
    config: LossConfig,
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    teacher: TeacherStates | None = None,
    chunk_size: int | None = None,
) -> LossSum:
    """Return the loss that the config selects. There must be a teacher with `distillation_weight`.

    With distillation it is (1 − weight) · cross-entropy + weight · KL(teacher ‖ student), with
    R-Drop cross-entropy + weight · symmetric KL between two passes over the same tokens. The second
    half of the rows is the second pass, as in a batch that is concatenated with itself. The tokens
    of both passes are counted, so the mean is half of the formula in the R-Drop paper.
    """
    assert (teacher is None) == (config.distillation_weight == 0)
    num_passes = 2 if config.r_drop_weight else 1
    labels_PN = labels_N.long().view(num_passes, -1)  # `gather` needs int64
    chunk_loss = partial(_compute_chunk_loss, config, labels_PN, teacher)
    weight_VM, bias_V = output_weights
    device = states_NM.device.type
    dtype = torch.promote_types(states_NM.dtype, weight_VM.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    inputs = states_NM.to(dtype), weight_VM.to(dtype), None if bias_V is None else bias_V.to(dtype)
    max_rows = chunk_size or default_chunk_size(len(weight_VM))
    # Read here: inside the function grad mode is off, and `needs_input_grad` ignores `no_grad`.
    needs_gradient = torch.is_grad_enabled()
    total, nll = _ChunkedLoss.apply(  # type: ignore[no-untyped-call]
        *inputs, chunk_loss, num_passes, max_rows, needs_gradient
    )
    return LossSum(total, nll, len(states_NM))


def _compute_chunk_loss(
    config: LossConfig,
    labels_PN: Tensor,
    teacher: TeacherStates | None,
    logits_CV: Tensor,
    mean_C1: Tensor,
    rows: slice,
    needs_gradient: bool,
) -> tuple[Tensor, Tensor, LogitsGradientParts | None]:
    """Return the sums of loss and nll over a chunk, and the gradient of its logits if needed."""
    term = None
    # First, because the cross-entropy overwrites the logits.
    if teacher is not None:
        term = compute_distillation_term(teacher, logits_CV, rows)
    elif config.r_drop_weight:
        term = compute_r_drop_term(logits_CV)
    labels_C1 = labels_PN[:, rows].reshape(-1, 1)
    loss, nll, gradient = _cross_entropy_(
        logits_CV, mean_C1, labels_C1, config.label_smoothing, needs_gradient
    )
    if term is None:
        return loss, nll, gradient
    weight = 1 - config.distillation_weight
    term_weight = config.distillation_weight or config.r_drop_weight
    if gradient is not None:
        gradient = gradient.materialize_()
        gradient.x_CV.mul_(weight).add_(term[1], alpha=term_weight)
    return weight * loss + term_weight * term[0], nll, gradient


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


def compute_r_drop_term(logits_CV: Tensor) -> tuple[Tensor, Tensor]:
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
