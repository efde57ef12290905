"""Dropout with masks from raw random bits.

`torch.nn.functional.dropout` draws a full random number for each element, on one thread: an eighth
of a training step on a CPU. Sixteen bits decide as well (the rate is met to 1/65,536), so that a
64-bit word decides four elements.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout as torch_dropout


class Dropout(nn.Module):
    """Zero each element with probability `rate` in training, and scale the rest by 1/(1 − rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def active(self) -> bool:
        """Whether it does anything now."""
        return self.training and self.rate > 0

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, thinned out while training."""
        if not self.active:
            return x
        if x.device.type != "cpu":  # other devices draw in parallel
            return torch_dropout(x, self.rate)
        return x * keep_mask(x.shape, self.rate, x.dtype)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"rate={self.rate}"


def keep_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """Return 0 with probability `rate`, else 1/(1 − rate), as torch's CPU generator has it."""
    count = shape.numel()
    bits = _random_words((count + 3) // 4).view(np.int16)[:count]  # uniform on [-32768, 32767]
    keep = bits >= min(round(rate * 65536), 65535) - 32768
    # As bytes: torch takes six times as long to make floats of booleans.
    kept = torch.from_numpy(keep.view(np.uint8)).to(dtype)
    return kept.mul_(1 / (1 - rate)).view(shape)


def _random_words(count: int) -> NDArray[np.uint64]:
    """Draw a seed from torch's generator and the words from SFC64, which is four times as fast."""
    seed = torch.empty((), dtype=torch.int64, device="cpu").random_().item()
    return np.random.SFC64(int(seed)).random_raw(count)
