"""How the tokens of a batch lie: in sentences for attention, in a row for everything else.

Only attention needs to know which tokens form a sentence. All other parts work on each token by
itself and get the tokens in a row, [N, M], from which padding is left out: it costs nothing, and a
norm over the batch cannot see it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# B batch, T tokens of a sentence with its padding, N tokens in a row, M features


class Layout:
    """Every place of the batch is a token: row and sentences are two views of the same memory."""

    def __init__(self, batch: int, length: int) -> None:
        self.batch = batch
        self.length = length

    @staticmethod
    def without(padding_BT: Tensor, at_least: float = 0.0) -> Layout:
        """Return the layout that leaves padding out, if there is so much. This is a sync point.

        A little padding costs less than the copies to and fro.
        """
        padded = int(padding_BT.count_nonzero())
        if padded > at_least * padding_BT.numel():
            return RaggedLayout(padding_BT)
        return Layout(*padding_BT.shape)

    def row(self, x_BTM: Tensor) -> Tensor:
        """Lay the sentences out in a row."""
        return x_BTM.flatten(0, 1)

    def sentences(self, x_NM: Tensor) -> Tensor:
        """Put the tokens back into their sentences."""
        return x_NM.view(self.batch, self.length, -1)


class RaggedLayout(Layout):
    """Padding has no place in the row; back in its sentence it is zero."""

    def __init__(self, padding_BT: Tensor) -> None:
        super().__init__(*padding_BT.shape)
        self.index_N = padding_BT.logical_not().flatten().nonzero().squeeze(1)

    def row(self, x_BTM: Tensor) -> Tensor:
        """Lay the real tokens out in a row."""
        return _Gather.apply(x_BTM.flatten(0, 1), self.index_N)

    def sentences(self, x_NM: Tensor) -> Tensor:
        """Put the tokens back into their sentences, and zeros where there is padding."""
        places = self.batch * self.length
        return super().sentences(_Scatter.apply(x_NM, self.index_N, places))


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
