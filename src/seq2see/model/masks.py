"""Attention masks, masked softmax, and removal of padding.

A key is masked if it is padding or if it comes later than the query. Masks are True where a key is
masked and are combined by OR: `padding | CAUSAL_MASK`.

Only attention needs to know which tokens form a sentence. All other modules process each token
independently and get the tokens of a batch as a flat tensor [N, M] without padding: padding costs
no time there and does not enter batch norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

# B batch, H heads, T queries, S keys
# B batch, T tokens of a sentence with its padding, N tokens in a row, M features


@dataclass(frozen=True, slots=True)
class AttentionMask:
    """Keys hidden from queries. The causal part stays a flag: fused kernels have a path for it."""

    masked: Tensor | None = None
    """True where a query must not look; broadcasts to [B, H, T, S]."""
    is_causal: bool = False
    """Hide what comes later than the query; the last query stands at the last key."""

    def __or__(self, other: AttentionMask) -> AttentionMask:
        """Hide what either of the two hides."""
        tensors = [m.masked for m in (self, other) if m.masked is not None]
        hidden = torch.logical_or(*tensors) if len(tensors) == 2 else next(iter(tensors), None)
        return AttentionMask(hidden, self.is_causal or other.is_causal)

    def to_tensor(self, num_queries: int, num_keys: int, device: torch.device) -> Tensor | None:
        """Return it as one tensor that broadcasts to [B, H, T, S], or None if nothing is hidden."""
        if not self.is_causal or num_queries == 1:  # nothing is later than the last query
            return self.masked
        later_TS = torch.ones(num_queries, num_keys, dtype=torch.bool, device=device).triu(
            num_keys - num_queries + 1
        )
        return later_TS if self.masked is None else later_TS | self.masked


NO_MASK = AttentionMask()
"""Hides nothing."""


CAUSAL_MASK = AttentionMask(is_causal=True)
"""Hides what comes later."""


def build_padding_mask(padding_BS: Tensor) -> AttentionMask:
    """Hide the padded keys from every query of every head. This is a sync point."""
    return AttentionMask(padding_BS[:, None, None, :]) if padding_BS.any() else NO_MASK


def masked_softmax(scores_BHTS: Tensor, masked: Tensor | None) -> Tensor:
    """Return weights that are 0 where hidden; a row that is hidden whole gives zeros.

    −∞ would make such a row NaN, and a large negative number alone would make it uniform.
    """
    if masked is None:
        return scores_BHTS.softmax(dim=-1)
    lowest = torch.finfo(scores_BHTS.dtype).min
    return scores_BHTS.masked_fill(masked, lowest).softmax(dim=-1).masked_fill(masked, 0.0)


class BatchLayout:
    """Every place of the batch is a token: row and sentences are two views of the same memory."""

    def __init__(self, batch_size: int, length: int) -> None:
        self.batch_size = batch_size
        self.length = length

    @staticmethod
    def from_padding(padding_BT: Tensor, unpad_threshold: float = 0.0) -> BatchLayout:
        """Return the layout that leaves padding out, if there is so much. This is a sync point.

        A little padding costs less than the copies to and fro.
        """
        padded = int(padding_BT.count_nonzero())
        if padded > unpad_threshold * padding_BT.numel():
            return UnpaddedLayout(padding_BT)
        return BatchLayout(*padding_BT.shape)

    def flatten(self, x_BTM: Tensor) -> Tensor:
        """Lay the sentences out in a row."""
        return x_BTM.flatten(0, 1)

    def unflatten(self, x_NM: Tensor) -> Tensor:
        """Put the tokens back into their sentences."""
        return x_NM.view(self.batch_size, self.length, -1)


class UnpaddedLayout(BatchLayout):
    """Padding has no place in the row; back in its sentence it is zero."""

    def __init__(self, padding_BT: Tensor) -> None:
        super().__init__(*padding_BT.shape)
        self.index_N = padding_BT.logical_not().flatten().nonzero().squeeze(1)

    def flatten(self, x_BTM: Tensor) -> Tensor:
        """Lay the real tokens out in a row."""
        return _Gather.apply(x_BTM.flatten(0, 1), self.index_N)

    def unflatten(self, x_NM: Tensor) -> Tensor:
        """Put the tokens back into their sentences, and zeros where there is padding."""
        places = self.batch_size * self.length
        return super().unflatten(_Scatter.apply(x_NM, self.index_N, places))


class _Gather(torch.autograd.Function):
    """Take rows. torch's own gradient of this adds rows one by one, though none is taken twice."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, index: Tensor) -> Tensor:
        return x.index_select(0, index)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        x, index = inputs
        ctx.save_for_backward(index)
        ctx.rows = len(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        return _Scatter.apply(gradients[0], index, ctx.rows), None


class _Scatter(torch.autograd.Function):
    """Put rows into a larger tensor of zeros: the transpose of `_Gather`, and its gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, index: Tensor, rows: int) -> Tensor:
        return x.new_zeros(rows, x.size(1)).index_put_((index,), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        _, index, _ = inputs
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        return _Gather.apply(gradients[0], index), None, None
