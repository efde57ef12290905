"""What is trained: a module that takes a batch and gives its loss. DDP and FSDP wrap this."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2see.data.batch_loader import Batch
from seq2see.loss import (
    LossConfig,
    LossSum,
    OutputWeights,
    TeacherStates,
    compute_training_loss,
    cross_entropy,
)
from seq2see.model import Transformer
from seq2see.model.masks import BatchLayout
from seq2see.text import PackedIds

_EMPTY = PackedIds.from_lists([[]])
"""A sentence of its end alone."""

# B batch, T target tokens, N target tokens in a row without padding, M features


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
        """Of matrix products."""
        self._teacher = [teacher.eval()] if teacher else []  # in a list it is no submodule

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    def forward(self, batch: Batch) -> LossSum:
        """Return the loss of a batch, for training or for validation as the module is set."""
        if not len(batch):
            return self._nothing()
        return self._computed(batch)

    def _computed(self, batch: Batch) -> LossSum:
        low = self.autocast_dtype != torch.float32
        with torch.autocast(self.device.type, self.autocast_dtype if low else None, enabled=low):
            return self._loss(
                Batch(*(x.to(self.device) for x in (batch.source_BS, batch.target_BT)))
            )

    def _loss(self, batch: Batch) -> LossSum:
        labels_BT = batch.labels_BT
        if self.training and self.config.r_drop_weight:
            batch, labels_BT = batch.duplicate_pairs(), labels_BT.repeat(2, 1)
        layout = BatchLayout.from_padding(labels_BT == self.pad_id)
        labels_N = layout.flatten(labels_BT.unsqueeze(-1)).squeeze(-1)
        states_NM = self._states(self.model, batch, layout)
        head = _head(self.model)
        if not self.training:
            return cross_entropy(states_NM, head, labels_N)
        return compute_training_loss(
            self.config, states_NM, head, labels_N, self._taught(batch, layout)
        )

    def _states(self, model: Transformer, batch: Batch, layout: BatchLayout) -> Tensor:
        memory = model.encode(batch.source_BS)
        return layout.flatten(model.decode(batch.decoder_input_BT, memory))

    def _taught(self, batch: Batch, layout: BatchLayout) -> TeacherStates | None:
        for teacher in self._teacher:
            with torch.no_grad():
                return TeacherStates(self._states(teacher, batch, layout), _head(teacher))
        return None

    def _nothing(self) -> LossSum:
        """Return no loss, with a gradient of zero for every parameter: the other workers wait.

        Where weights are shared out, each layer waits for all workers, so that it must be run: not
        as in training, where a batch norm would learn from a token that is no text.
        """
        before = self.training
        self.eval()
        loss = self._computed(Batch.from_packed_ids(_EMPTY, _EMPTY))
        self.train(before)
        return LossSum(loss.total * 0.0, torch.zeros_like(loss.nll), 0)


def _head(model: Transformer) -> OutputWeights:
    return OutputWeights(model.output.tokens.weight_VM, model.output.bias_V)
