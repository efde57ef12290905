"""The module that is trained: it returns the loss of a batch. DDP and FSDP wrap it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2see.data.batch_loader import Batch
from seq2see.loss import LossConfig, LossSum, OutputWeights, TeacherStates, compute_loss_from_states
from seq2see.model import Transformer
from seq2see.model.masks import BatchLayout
from seq2see.text import PackedIds

_CROSS_ENTROPY = LossConfig(label_smoothing=0.0)
"""Without smoothing and extra terms."""
_EMPTY = PackedIds.from_lists([[]])
"""One sentence without words."""

# B batch, T target tokens, N target tokens without padding, M features


class Objective(nn.Module):
    """A model and its loss; with distillation also a teacher, which is not trained."""

    def __init__(
        self,
        model: Transformer,
        config: LossConfig,
        pad_id: int,
        teacher: Transformer | None = None,
        autocast_dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.pad_id = pad_id
        self.autocast_dtype = autocast_dtype
        """Data type of matrix products."""
        self._teacher = [teacher.eval()] if teacher else []  # a list hides it from the submodules

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(self.parameters()).device

    def forward(self, batch: Batch) -> LossSum:
        """Return the loss of a batch: the training loss in training mode, else cross-entropy."""
        if not len(batch):
            return self._zero_loss()
        enabled = self.autocast_dtype != torch.float32
        dtype = self.autocast_dtype if enabled else None
        with torch.autocast(self.device.type, dtype, enabled=enabled):
            return self._compute_loss(
                Batch(batch.source_BS.to(self.device), batch.target_BT.to(self.device))
            )

    def _compute_loss(self, batch: Batch) -> LossSum:
        labels_BT = batch.labels_BT
        if self.training and self.config.r_drop_weight:
            batch, labels_BT = batch.duplicate_pairs(), labels_BT.repeat(2, 1)
        layout = BatchLayout.from_padding(labels_BT == self.pad_id)
        labels_N = layout.flatten(labels_BT.unsqueeze(-1)).squeeze(-1)
        states_NM = self._decoder_states(self.model, batch, layout)
        config, teacher = _CROSS_ENTROPY, None
        if self.training:
            config, teacher = self.config, self._teacher_states(batch, layout)
        weights = _output_weights(self.model)
        return compute_loss_from_states(config, states_NM, weights, labels_N, teacher)

    def _decoder_states(self, model: Transformer, batch: Batch, layout: BatchLayout) -> Tensor:
        memory = model.encode(batch.source_BS)
        return layout.flatten(model.decode(batch.decoder_input_BT, memory))

    def _teacher_states(self, batch: Batch, layout: BatchLayout) -> TeacherStates | None:
        for teacher in self._teacher:
            with torch.no_grad():
                states_NM = self._decoder_states(teacher, batch, layout)
                return TeacherStates(states_NM, _output_weights(teacher))
        return None

    def _zero_loss(self) -> LossSum:
        """Return a zero loss that depends on every parameter.

        The gradients of an empty batch can then be synchronized. With FSDP each layer waits for all
        workers, so the model must be run; in evaluation mode, since batch normalization must not
        use a token that is not in the text.
        """
        was_training = self.training
        self.eval()
        loss = self.forward(Batch.from_packed_ids(_EMPTY, _EMPTY))
        self.train(was_training)
        return LossSum(loss.total * 0.0, torch.zeros_like(loss.nll), 0)


def _output_weights(model: Transformer) -> OutputWeights:
    return OutputWeights(model.output.tokens.weight_VM, model.output.bias_V)
