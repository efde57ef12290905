"""Training losses and their configuration: cross-entropy, distillation, R-Drop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.errors import InputError, Problem
from seq2see.loss.chunked import (
    ChunkLossAndGradient,
    LossSum,
    OutputWeights,
    TeacherStates,
    compute_chunked_loss,
    compute_distillation_term,
    compute_r_drop_term,
)

# N tokens of the batch without padding, M features of the model


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
) -> LossSum:
    """Return the loss that the config selects.

    Raises `InputError` unless `teacher` is given if and only if `distillation_weight` is above 0.
    """
    if (teacher is None) == (config.distillation_weight > 0):
        raise InputError(
            "a teacher must be given if `distillation_weight` is above 0, and only then"
        )
    smoothing = config.label_smoothing
    if teacher is not None:
        weight = config.distillation_weight
        return compute_cross_entropy_with_distillation(
            states_NM, output_weights, labels_N, teacher, weight, smoothing
        )
    if config.r_drop_weight:
        return compute_cross_entropy_with_r_drop(
            states_NM, output_weights, labels_N, config.r_drop_weight, smoothing
        )
    return compute_chunked_cross_entropy(states_NM, output_weights, labels_N, smoothing)


def compute_chunked_cross_entropy(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return `smoothed_cross_entropy` of the logits of the states, which must contain no padding.

    `chunk_size` is the number of rows whose logits are in memory at a time.
    """
    objective = ChunkLossAndGradient(labels_N, smoothing)
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)


def compute_cross_entropy_with_distillation(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    teacher: TeacherStates,
    weight: float,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return (1 − weight) · cross-entropy + weight · KL(teacher ‖ student)."""
    check_teacher_shapes(teacher, states_NM, output_weights)
    objective = ChunkLossAndGradient(
        labels_N, smoothing, 1 - weight, partial(compute_distillation_term, teacher), weight
    )
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)


def compute_cross_entropy_with_r_drop(
    states_NM: Tensor,
    output_weights: OutputWeights,
    labels_N: Tensor,
    weight: float,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    """Return cross-entropy + weight · symmetric KL between two passes over the same tokens.

    The second half of the rows is the second pass, as in a batch that is concatenated with itself.
    The tokens of both passes are counted, so the mean is half of the formula in the R-Drop paper.
    """
    check_r_drop_labels(labels_N)
    objective = ChunkLossAndGradient(
        labels_N, smoothing, 1.0, compute_r_drop_term, weight, num_passes=2
    )
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)


def check_r_drop_labels(labels_N: Tensor) -> None:
    """Raise `InputError` if the second half of the labels does not repeat the first."""
    if len(labels_N) % 2 or (
        labels_N.device.type == "cpu" and not torch.equal(*labels_N.tensor_split(2))
    ):
        raise InputError("the second half of the labels must repeat the first for R-Drop")


def check_teacher_shapes(
    teacher: TeacherStates, states_NM: Tensor, output_weights: OutputWeights
) -> None:
    """Raise `InputError` if the teacher has another number of tokens or another vocabulary size."""
    ours = len(states_NM), len(output_weights.weight_VM)
    theirs = len(teacher.states_NM), len(teacher.output_weights.weight_VM)
    if ours != theirs:
        raise InputError(
            "the teacher must have as many tokens and the same vocabulary size as the student, "
            f"{list(ours)}, but has {list(theirs)} instead"
        )
