"""Training losses and their configuration: cross-entropy, distillation, R-Drop."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pydantic import Field
from torch import Tensor

from seq2see.config import Config
from seq2see.errors import Problem
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
    chunk_size: int | None = None,
) -> LossSum:
    """Return the loss that the config selects. There must be a teacher with `distillation_weight`.

    With distillation it is (1 − weight) · cross-entropy + weight · KL(teacher ‖ student), with
    R-Drop cross-entropy + weight · symmetric KL between two passes over the same tokens. The second
    half of the rows is the second pass, as in a batch that is concatenated with itself. The tokens
    of both passes are counted, so the mean is half of the formula in the R-Drop paper.
    """
    assert (teacher is None) == (config.distillation_weight == 0)
    objective = ChunkLossAndGradient(labels_N, config.label_smoothing)
    if teacher is not None:
        weight = config.distillation_weight
        objective = objective._replace(
            weight=1 - weight,
            term=partial(compute_distillation_term, teacher),
            term_weight=weight,
        )
    elif config.r_drop_weight:
        objective = objective._replace(
            term=compute_r_drop_term, term_weight=config.r_drop_weight, num_passes=2
        )
    return compute_chunked_loss(states_NM, output_weights, objective, chunk_size)
