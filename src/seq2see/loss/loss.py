"""Training losses and their configuration: cross-entropy, distillation, R-Drop."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.errors import InputError
from seq2see.loss.chunked import (
    ChunkLoss,
    DistillationTerm,
    compute_chunked_loss,
    compute_r_drop_term,
)
from seq2see.loss.reference import LossSum, OutputWeights, TeacherStates

# N tokens in a row, without padding; M features
# N tokens in a row; M features; V vocabulary


class LossConfig(Config):
    """What training makes small."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread evenly over the vocabulary; 0: plain
    cross-entropy."""
    r_drop_weight: float = Field(default=0.0, ge=0)
    """The weight of the symmetric KL divergence between two passes with different dropout (R-Drop;
    5 in its paper). A step takes twice as long. 0: one pass."""
    distillation_weight: float = Field(default=0.0, ge=0, le=1)
    """The share of the KL divergence to a teacher; cross-entropy keeps the rest. 0: no teacher."""
    teacher: str | None = None
    """With `distillation_weight`: the model directory of the teacher, seen from the recipe. Its tokenizer
    is taken over."""

    def conflicts(self) -> Iterator[str]:
        """Refuse two extra terms at once."""
        if self.r_drop_weight and self.distillation_weight:
            yield (
                "`r_drop_weight` must be 0 with `distillation_weight`: "
                "only one extra term is possible"
            )


def compute_training_loss(
    config: LossConfig,
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    teacher: TeacherStates | None = None,
) -> LossSum:
    """Return the loss that the config asks for, in the fused form."""
    if (teacher is None) == (config.distillation_weight > 0):
        raise InputError(
            "a teacher must be given if `distillation_weight` is above 0, and only then"
        )
    if teacher is not None:
        share = config.distillation_weight
        return distillation_loss(
            states_NM, output_weights, labels_N, teacher, share, config.label_smoothing
        )
    if config.r_drop_weight:
        return r_drop_loss(
            states_NM, output_weights, labels_N, config.r_drop_weight, config.label_smoothing
        )
    return cross_entropy(states_NM, output_weights, labels_N, config.label_smoothing)


def cross_entropy(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return `smoothed_cross_entropy` of the head's logits. Leave padding out before.

    `chunk` is the number of rows whose logits are held at a time.
    """
    return compute_chunked_loss(
        states_NM, output_weights, ChunkLoss(labels_N, smoothing), chunk_size
    )


def distillation_loss(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    teacher: TeacherStates,
    weight: float,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return (1 − share) · cross-entropy + share · KL(teacher ‖ student)."""
    check_teacher_shapes(teacher, states_NM, output_weights)
    objective = ChunkLoss(labels_N, smoothing, 1 - weight, DistillationTerm(teacher), weight)
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)


def r_drop_loss(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    weight: float,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return cross-entropy + weight · the symmetric KL between two passes over the same tokens.

    The second half of the rows is the second pass, as it comes from a batch put behind itself. Each
    pass counts its tokens, so that the mean is half of R-Drop's own formula.
    """
    check_r_drop_labels(labels_N)
    objective = ChunkLoss(labels_N, smoothing, 1.0, compute_r_drop_term, weight, num_passes=2)
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)


def check_r_drop_labels(labels_N: Tensor) -> None:
    """Refuse two passes over different tokens."""
    if len(labels_N) % 2 or (
        labels_N.device.type == "cpu" and not torch.equal(*labels_N.tensor_split(2))
    ):
        raise InputError("the second half of the labels must repeat the first for R-Drop")


def check_teacher_shapes(
    teacher: TeacherStates, states_NM: Tensor, output_weights: OutputWeights
) -> None:
    """Refuse a teacher of other tokens or pieces."""
    ours = len(states_NM), len(output_weights.weight_VM)
    theirs = len(teacher.states_NM), len(teacher.output_weights.weight_VM)
    if ours != theirs:
        raise InputError(
            f"the teacher must have as many tokens and pieces as the student, {list(ours)}, "
            f"but has {list(theirs)} instead"
        )
