"""How far apart two tensors are."""

from __future__ import annotations

import torch
from torch import Tensor


def apart(ours: Tensor, theirs: Tensor) -> float:
    """Return the largest difference of any two elements in the same place."""
    return float((ours - theirs).detach().abs().max())


def differing(ours: Tensor, theirs: Tensor) -> int:
    """Count the elements that are not the same to the last bit."""
    return int(torch.count_nonzero(ours != theirs))
