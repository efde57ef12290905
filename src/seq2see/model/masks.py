"""Attention masks, masked softmax, and removal of padding.

A key is masked if it is padding or if it comes later than the query. Masks are True where a key is
masked and are combined by OR: `padding_mask | CAUSAL_MASK`.

Only attention needs to know which tokens form a sentence. All other modules process each token
independently and get the tokens of a batch as a flat tensor [N, M] without padding: padding costs
no time there and does not enter batch norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# B batch, H heads, T queries or tokens of a padded sentence, S keys, N tokens of the batch,
# M features


@dataclass(frozen=True, slots=True)
class AttentionMask:
    """Keys that are masked in attention. Causality is a flag, which fused kernels support."""

    masked: Tensor | None = None
    """True where a query must not attend to a key; broadcasts to [B, H, T, S]. None: nowhere."""
    is_causal: bool = False
    """Mask the keys that come later than the query. The last query is at the last key."""

    def __or__(self, other: AttentionMask) -> AttentionMask:
        """Return the mask of all keys that either of the two masks."""
        tensors = [m.masked for m in (self, other) if m.masked is not None]
        masked = torch.logical_or(*tensors) if len(tensors) == 2 else next(iter(tensors), None)
        return AttentionMask(masked, self.is_causal or other.is_causal)

    def to_tensor(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
        """Return one tensor that broadcasts to [B, H, T, S], or None if nothing is masked."""
        if not self.is_causal or num_queries == 1:  # no key is later than the last query
            return self.masked
        later_TS = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).triu(
            num_keys - num_queries + 1
        )
        return later_TS if self.masked is None else later_TS | self.masked


NO_MASK = AttentionMask()
"""Masks nothing."""
CAUSAL_MASK = AttentionMask(is_causal=True)
"""Masks keys that come later than the query."""


def build_padded_key_mask(padding_BS: Tensor) -> AttentionMask:
    """Return a mask of the padded keys for all queries and heads. This is a sync point."""
    return AttentionMask(padding_BS[:, None, None, :]) if padding_BS.any() else NO_MASK


def masked_softmax(scores_BHTS: Tensor, masked: Tensor | None) -> Tensor:
    """Return the softmax over the keys that are not masked; masked keys get 0.

    A row in which all keys are masked is all zeros: with −∞ as score it would be NaN, and with a
    large negative number it would be uniform.
    """
    if masked is None:
        return scores_BHTS.softmax(dim=-1)
    lowest = torch.finfo(scores_BHTS.dtype).min
    return scores_BHTS.masked_fill(masked, lowest).softmax(dim=-1).masked_fill(masked, 0.0)


class BatchLayout:
    """Converts between sentences [B, T, M] and the flat tokens of a batch [N, M].

    Args:
        batch_size: Number of sentences.
        length: Number of tokens of a padded sentence.
        index_N: Indices of the tokens that are not padding. `flatten` selects them, and `unflatten`
            fills padding with zeros. By default padding is treated as tokens, so that both forms
            are views of the same memory.
    """

    def __init__(self, batch_size: int, length: int, index_N: Tensor | None = None) -> None:
        self.batch_size = batch_size
        self.length = length
        self.index_N = index_N

    @staticmethod
    def from_padding(padding_BT: Tensor, unpad_threshold: float = 0.0) -> BatchLayout:
        """Return a layout without padding if its share is above the threshold.

        A small share of padding costs less than the copies. This is a sync point.
        """
        index_N = None
        if int(padding_BT.count_nonzero()) > unpad_threshold * padding_BT.numel():
            index_N = padding_BT.logical_not().flatten().nonzero().squeeze(1)
        return BatchLayout(len(padding_BT), padding_BT.size(1), index_N)

    def flatten(self, x_BTM: Tensor) -> Tensor:
        """Return the tokens of all sentences, [N, M]."""
        x_NM = x_BTM.flatten(0, 1)
        return x_NM if self.index_N is None else x_NM.index_select(0, self.index_N)

    def unflatten(self, x_NM: Tensor) -> Tensor:
        """Return the tokens as sentences, [B, T, M], with zeros where padding was removed."""
        if self.index_N is not None:
            zeros_NM = x_NM.new_zeros(self.batch_size * self.length, x_NM.size(1))
            x_NM = zeros_NM.index_put_((self.index_N,), x_NM)
        return x_NM.view(self.batch_size, self.length, -1)
