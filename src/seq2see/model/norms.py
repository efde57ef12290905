"""Normalisation. Every norm takes the padding too, since only some can do without it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# B batch, T tokens, M features of the model, N tokens that are not padding


class Norm(nn.Module):
    """Leaves its input as it is, and is the base of those that do not."""

    def forward(self, x_BTM: Tensor, padding_BT: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return `x`, normalised; None means that nothing is padding."""
        return x_BTM


class LayerNorm(Norm):
    """Over the features of each token by itself: neither batch nor padding matter."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x_BTM: Tensor, padding_BT: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """Return `x` with mean 0 and variance 1 over the features, then scaled and shifted."""
        return nn.functional.layer_norm(x_BTM, self.weight.shape, self.weight, self.bias, self.eps)


class BatchNorm(Norm):
    """Over all tokens of the batch, for each feature; padding takes no part.

    While training it uses the batch's own statistics, later the running ones.
    """

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model, eps)

    def forward(self, x_BTM: Tensor, padding_BT: Tensor | None = None) -> Tensor:
        """Return `x` with mean 0 and variance 1 over the tokens, then scaled and shifted."""
        if padding_BT is None or not self.training:  # the running statistics know no batch
            return self.norm(x_BTM.flatten(0, 1)).view_as(x_BTM)
        real_BT = ~padding_BT
        normed_BTM = torch.zeros_like(x_BTM)
        normed_BTM[real_BT] = self.norm(x_BTM[real_BT])
        return normed_BTM
