"""Training losses and their configuration: cross-entropy, distillation, R-Drop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.errors import Problem
from seq2see.loss.chunked import (
    LogitsGradientParts,
    LossSum,
    OutputWeights,
    TeacherStates,
    compute_chunked_loss,
)

# N tokens of the batch without padding, P passes over the batch, C tokens of a chunk, M features of
# the model, V vocabulary

_LOG2_E = math.log2(math.e)


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
    return compute_chunked_loss(states_NM, output_weights, chunk_loss, num_passes, chunk_size)


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
