"""How far the model is from its targets: cross-entropy, distillation, R-Drop.

A loss is a sum and a count of tokens. Who takes the step divides, last of all: then the mean is
right over several batches and several workers too.

The output layer belongs to the loss. Its logits are the largest tensor of a training step, and the
fused forms never hold more than a chunk of their rows: logits, loss and the gradient of the logits
take turns in the same memory, and what is left of a chunk is its part of the gradients of states
and weights. These are made on the way forward; on the way back they are only scaled. The plain
forms are the formulas, and what the fused ones are tested against.

Sums and softmax are in float32 at least, whatever the states are in; a float32 sum over a batch is
good to about six digits. Matrix products are in the type of states and weights, or of autocast.
"""

from seq2see.loss.chunked import default_chunk_size
from seq2see.loss.loss import (
    LossConfig,
    compute_training_loss,
    cross_entropy,
    distillation_loss,
    r_drop_loss,
)
from seq2see.loss.reference import (
    LossSum,
    OutputWeights,
    TeacherStates,
    kl_divergence,
    smoothed_cross_entropy,
    symmetric_kl,
)

__all__ = [
    "LossConfig",
    "LossSum",
    "OutputWeights",
    "TeacherStates",
    "compute_training_loss",
    "cross_entropy",
    "default_chunk_size",
    "distillation_loss",
    "kl_divergence",
    "r_drop_loss",
    "smoothed_cross_entropy",
    "symmetric_kl",
]
