"""What a query must not see.

There are two reasons to hide a key: it is padding, or it comes later than the query. Masks say
True where a key is hidden and are combined by OR: `padding | CAUSAL`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# B batch, H heads, T queries, S keys


@dataclass(frozen=True, slots=True)
class Mask:
    """Keys hidden from queries. The causal part stays a flag: fused kernels have a path for it."""

    hidden: Tensor | None = None
    """True where a query must not look; broadcasts to [B, H, T, S]."""
    causal: bool = False
    """Hide what comes later than the query; the last query stands at the last key."""

    def __or__(self, other: Mask) -> Mask:
        """Hide what either of the two hides."""
        tensors = [m.hidden for m in (self, other) if m.hidden is not None]
        hidden = torch.logical_or(*tensors) if len(tensors) == 2 else next(iter(tensors), None)
        return Mask(hidden, self.causal or other.causal)

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Return it as one tensor that broadcasts to [B, H, T, S], or None if nothing is hidden."""
        if not self.causal or queries == 1:  # nothing is later than the last query
            return self.hidden
        later_TS = torch.ones(queries, keys, dtype=torch.bool, device=device).triu(
            keys - queries + 1
        )
        return later_TS if self.hidden is None else later_TS | self.hidden


OPEN = Mask()
"""Hides nothing."""
CAUSAL = Mask(causal=True)
"""Hides what comes later."""


def padding_mask(padding_BS: Tensor) -> Mask:
    """Hide the padded keys from every query of every head. This is a sync point."""
    return Mask(padding_BS[:, None, None, :]) if padding_BS.any() else OPEN


def masked_softmax(scores_BHTS: Tensor, hidden: Tensor | None) -> Tensor:
    """Return weights that are 0 where hidden; a row that is hidden whole gives zeros.

    −∞ would make such a row NaN, and a large negative number alone would make it uniform.
    """
    if hidden is None:
        return scores_BHTS.softmax(dim=-1)
    lowest = torch.finfo(scores_BHTS.dtype).min
    return scores_BHTS.masked_fill(hidden, lowest).softmax(dim=-1).masked_fill(hidden, 0.0)
