"""Basic modules: linear layer, dropout, batch norm, feed-forward network, residual connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import dropout as torch_dropout

from seq2see.errors import InputError
from seq2see.model.config import Activation

# N tokens in a row, M features of the model


class XavierLinear(nn.Linear):
    """`nn.Linear` that starts with Xavier weights and zero biases.

    `blocks` matrices may be stacked into one (Q, K and V): each starts as if it stood alone, since
    Xavier looks at the shape.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, num_stacked: int = 1
    ) -> None:
        self.num_stacked = num_stacked
        super().__init__(in_features, out_features * num_stacked, bias)

    def reset_parameters(self) -> None:
        """Draw the weights anew."""
        for weight in self.weight.chunk(self.num_stacked):
            nn.init.xavier_uniform_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Dropout(nn.Module):
    """Zero each element with probability `rate` in training, and scale the rest by 1/(1 − rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def is_active(self) -> bool:
        """Whether it does anything now."""
        return self.training and self.rate > 0

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, thinned out while training."""
        if not self.is_active:
            return x
        if x.device.type != "cpu":  # other devices draw in parallel
            return torch_dropout(x, self.rate)
        return x * sample_dropout_mask(x.shape, self.rate, x.dtype)

    def extra_repr(self) -> str:
        """Show the rate."""
        return f"rate={self.rate}"


def sample_dropout_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
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


Sublayer = Callable[[Tensor], Tensor]


ACTIVATIONS: Mapping[Activation, Sublayer] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class BatchNorm(nn.BatchNorm1d):
    """Over the tokens in a row, so that padding takes no part."""

    def forward(self, x_NM: Tensor) -> Tensor:
        """Return `x` with mean 0 and variance 1 over the tokens, then scaled and shifted."""
        if self.training and len(x_NM) == 1:
            raise InputError("batch norm must have at least 2 tokens to learn from, but has 1")
        return super().forward(x_NM)


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them, for each position by itself."""

    def __init__(self, d_model: int, d_ff: int, activation: Sublayer, dropout: Dropout) -> None:
        super().__init__()
        self.up = XavierLinear(d_model, d_ff)
        self.down = XavierLinear(d_ff, d_model)
        self.activation = activation
        self.dropout = dropout

    def forward(self, x_NM: Tensor) -> Tensor:
        """Return W₂·activation(W₁·x)."""
        return self.down(self.dropout(self.activation(self.up(x_NM))))


class Residual(nn.Module):
    """Adds to x what a sublayer makes of it, with a norm on the way."""

    def __init__(self, norm: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Return the sum."""
        raise NotImplementedError


class PostNormResidual(Residual):
    """norm(x + sublayer(x)), as in the paper."""

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Normalise behind the sum."""
        return self.norm(x_NM + self.dropout(sublayer(x_NM)))


class PreNormResidual(Residual):
    """x + sublayer(norm(x)): the sum itself is never normalised, so a last norm stands on top."""

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Normalise in front of the sublayer."""
        return x_NM + self.dropout(sublayer(self.norm(x_NM)))
