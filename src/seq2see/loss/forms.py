"""The fused forms: from states and the output layer to a loss."""

from __future__ import annotations

from torch import Tensor

from seq2see.errors import InputError
from seq2see.loss.checks import check_passes, check_teacher
from seq2see.loss.chunks import ChunkLoss
from seq2see.loss.config import LossConfig
from seq2see.loss.fused import fused
from seq2see.loss.output import Head, LossSum, Teacher
from seq2see.loss.terms import ToTeacher, between_passes

# N tokens in a row, without padding; M features


def training_loss(
    config: LossConfig,
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    teacher: Teacher | None = None,
) -> LossSum:
    """Return the loss that the config asks for, in the fused form."""
    if (teacher is None) == (config.distillation > 0):
        raise InputError("a teacher must be given with `distillation` above 0, and only then")
    if teacher is not None:
        share = config.distillation
        return distillation(states_NM, head, labels_N, teacher, share, config.label_smoothing)
    if config.r_drop:
        return r_drop(states_NM, head, labels_N, config.r_drop, config.label_smoothing)
    return cross_entropy(states_NM, head, labels_N, config.label_smoothing)


def cross_entropy(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return `smoothed_cross_entropy` of the head's logits. Leave padding out before.

    `chunk` is the number of rows whose logits are held at a time.
    """
    return fused(states_NM, head, ChunkLoss(labels_N, smoothing), chunk)


def distillation(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    teacher: Teacher,
    share: float,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return (1 − share) · cross-entropy + share · KL(teacher ‖ student)."""
    check_teacher(teacher, states_NM, head)
    objective = ChunkLoss(labels_N, smoothing, 1 - share, ToTeacher(teacher), share)
    return fused(states_NM, head, objective, chunk)


def r_drop(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    weight: float,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return cross-entropy + weight · the symmetric KL between two passes over the same tokens.

    The second half of the rows is the second pass, as it comes from a batch put behind itself. Each
    pass counts its tokens, so that the mean is half of R-Drop's own formula.
    """
    check_passes(labels_N)
    objective = ChunkLoss(labels_N, smoothing, 1.0, between_passes, weight, passes=2)
    return fused(states_NM, head, objective, chunk)
