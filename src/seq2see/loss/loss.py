"""Training losses and their configuration: cross-entropy, distillation, R-Drop."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.loss.chunked import ChunkLoss, ToTeacher, between_passes, fused
from seq2see.loss.reference import Head, LossSum, Teacher

# N tokens in a row, without padding; M features
# N tokens in a row; M features; V vocabulary


class LossConfig(Config):
    """What training makes small."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread evenly over the vocabulary; 0: plain
    cross-entropy."""
    r_drop: float = Field(default=0.0, ge=0)
    """The weight of the symmetric KL divergence between two passes with different dropout (R-Drop;
    5 in its paper). A step takes twice as long. 0: one pass."""
    distillation: float = Field(default=0.0, ge=0, le=1)
    """The share of the KL divergence to a teacher; cross-entropy keeps the rest. 0: no teacher."""
    teacher: str | None = None
    """With `distillation`: the model directory of the teacher, seen from the recipe. Its tokenizer
    is taken over."""

    def conflicts(self) -> Iterator[str]:
        """Refuse two extra terms at once."""
        if self.r_drop and self.distillation:
            yield "`r_drop` must be 0 with `distillation`: each wants to be the only extra term"


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


def check_passes(labels_N: Tensor) -> None:
    """Refuse two passes over different tokens."""
    if len(labels_N) % 2 or (
        labels_N.device.type == "cpu" and not torch.equal(*labels_N.tensor_split(2))
    ):
        raise InputError("the second half of the labels must repeat the first for R-Drop")


def check_teacher(teacher: Teacher, states_NM: Tensor, head: Head) -> None:
    """Refuse a teacher of other tokens or pieces."""
    ours = len(states_NM), len(head.weight_VM)
    theirs = len(teacher.states_NM), len(teacher.head.weight_VM)
    if ours != theirs:
        raise InputError(
            f"the teacher must have as many tokens and pieces as the student, {list(ours)}, "
            f"but has {list(theirs)} instead"
        )
