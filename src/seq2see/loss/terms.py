"""Further terms beside the cross-entropy: each gives its sum and its gradient of the logits."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.loss.chunks import Rows
from seq2see.loss.output import Teacher
from seq2see.loss.plain import finite

# C tokens of a chunk; V vocabulary


class ToTeacher:
    """KL(teacher ‖ student), the teacher's logits made chunk by chunk."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher

    def __call__(self, logits_CV: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return the divergence of a chunk, and its gradient."""
        teacher_CV = self.teacher.head(rows.of(self.teacher.states_NM))
        log_p_CV = teacher_CV.log_softmax(dim=1, dtype=logits_CV.dtype)
        log_q_CV = logits_CV.log_softmax(dim=1)
        p_CV = log_p_CV.exp()
        loss = (p_CV * (finite(log_p_CV) - log_q_CV)).sum()
        return loss, log_q_CV.exp_().sub_(p_CV)


def between_passes(logits_CV: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the symmetric KL of the two passes.

    The gradients of KL(p ‖ q) are p · (log p − log q − KL) for the logits of p, q − p for q's.
    """
    log_p, log_q = logits_CV.unflatten(0, (rows.passes, -1)).log_softmax(dim=-1)
    difference = finite(log_p) - finite(log_q)
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * difference).sum(dim=-1, keepdim=True)
    q_to_p = -(q * difference).sum(dim=-1, keepdim=True)
    gradient_p = p * (difference - p_to_q) + p - q
    gradient_q = q * (-difference - q_to_p) + q - p
    return (p_to_q + q_to_p).sum() / 2, torch.cat((gradient_p, gradient_q)) / 2
