"""What does not fit together is refused with the reason."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.loss.output import Head, Teacher

# N tokens in a row; M features; V vocabulary


def check(states_NM: Tensor, head: Head, labels_N: Tensor) -> None:
    """Refuse what does not fit together."""
    weight_VM = head.weight_VM
    if states_NM.dim() != 2 or states_NM.size(1) != weight_VM.size(1):
        raise InputError(
            f"states must be [tokens, {weight_VM.size(1)}], as the output layer takes them, "
            f"but are {list(states_NM.shape)} instead"
        )
    if labels_N.shape != states_NM.shape[:1]:
        raise InputError(
            f"labels must be as many as the states, {len(states_NM)}, "
            f"but are {list(labels_N.shape)} instead"
        )
    if labels_N.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"labels must be int64 or int32, but are {labels_N.dtype} instead")
    if labels_N.device.type == "cpu":  # elsewhere to look would be to wait
        _check_range(labels_N, len(weight_VM) - 1)


def _check_range(labels_N: Tensor, last: int) -> None:
    wrong = labels_N[(labels_N < 0) | (labels_N > last)]
    if len(wrong):
        raise InputError(
            f"a label must be from 0 to {last}, the vocabulary's last, but is {wrong[0].item()} "
            f"instead; leave padding out"
        )


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
