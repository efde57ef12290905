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

from seq2see.loss.chunked import (
    LossSum as LossSum,
    OutputWeights as OutputWeights,
    TeacherStates as TeacherStates,
    default_chunk_size as default_chunk_size,
)
from seq2see.loss.training_losses import (
    LossConfig as LossConfig,
    compute_loss_from_states as compute_loss_from_states,
    smoothed_cross_entropy as smoothed_cross_entropy,
)
