"""Basic modules: linear layer, dropout, batch norm, feed-forward network, residual connections.

`torch.nn.functional.dropout` draws one full random number per element on one thread, which takes an
eighth of a training step on a CPU. Here each element uses 16 random bits (the rate is exact to
1/65,536), so one 64-bit word is enough for four elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError

# N tokens of the batch, M features of the model

Sublayer = Callable[[Tensor], Tensor]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]

ACTIVATIONS: Mapping[Activation, Sublayer] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class XavierLinear(nn.Linear):
    """`nn.Linear` with Xavier initialization of the weights and zero biases.

    `num_stacked` matrices can be stacked into one, such as Q, K and V. Each is initialized
    separately, because Xavier initialization depends on the shape.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, num_stacked: int = 1
    ) -> None:
        self.num_stacked = num_stacked
        super().__init__(in_features, out_features * num_stacked, bias)

    def reset_parameters(self) -> None:
        """Initialize weights and biases."""
        for weight in self.weight.chunk(self.num_stacked):
            nn.init.xavier_uniform_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Dropout(nn.Module):
    """In training, sets each element to zero with probability `rate` and scales the others by
    1/(1 − rate)."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    @property
    def is_active(self) -> bool:
        """Whether the module changes its input."""
        return self.training and self.rate > 0

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with dropout applied."""
        if not self.is_active:
            return x
        if x.device.type != "cpu":  # other devices draw in parallel
            return F.dropout(x, self.rate)
        return x * sample_dropout_mask(x.shape, self.rate, x.dtype)

    def extra_repr(self) -> str:
        """Return the rate for `repr`."""
        return f"rate={self.rate}"


def sample_dropout_mask(shape: torch.Size, rate: float, dtype: torch.dtype) -> Tensor:
    """Return a CPU tensor of 0 with probability `rate`, otherwise 1/(1 − rate).

    The random numbers depend on the state of torch's CPU generator.
    """
    count = shape.numel()
    bits = _random_words((count + 3) // 4).view(np.int16)[:count]  # uniform on [-32768, 32767]
    is_kept = bits >= min(round(rate * 65536), 65535) - 32768
    # Converted as bytes: torch takes six times as long to convert booleans to floats.
    mask = torch.from_numpy(is_kept.view(np.uint8)).to(dtype)
    return mask.mul_(1 / (1 - rate)).view(shape)


def _random_words(count: int) -> NDArray[np.uint64]:
    """Return random words from SFC64, which is four times as fast as torch's generator.

    The seed is drawn from torch's generator.
    """
    seed = torch.empty((), dtype=torch.int64, device="cpu").random_().item()
    return np.random.SFC64(int(seed)).random_raw(count)


class BatchNorm(nn.BatchNorm1d):
    """Batch norm over the tokens of a batch without padding, [N, M]."""

    def forward(self, x_NM: Tensor) -> Tensor:
        """Return `x` normalized over the tokens, then scaled and shifted.

        Raises `InputError` in training if there is only one token.
        """
        if self.training and len(x_NM) == 1:
            raise InputError("batch norm must have at least 2 tokens to learn from, but has 1")
        return super().forward(x_NM)


NORMS: Mapping[str, type[nn.Module]] = {
    "layer": nn.LayerNorm,
    "batch": BatchNorm,
    "none": nn.Identity,
}
"""The norms by their names in `NormConfig`."""


class FeedForward(nn.Module):
    """Two linear layers with an activation function in between, applied to each position."""

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
    """Base class of residual connections: adds the output of a sublayer to its input."""

    def __init__(self, norm: nn.Module, dropout: Dropout) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Return the sum of `x` and the sublayer's output."""
        raise NotImplementedError


class PostNormResidual(Residual):
    """norm(x + sublayer(x)), as in the paper."""

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Normalize after the addition."""
        return self.norm(x_NM + self.dropout(sublayer(x_NM)))


class PreNormResidual(Residual):
    """x + sublayer(norm(x)). The sum is not normalized, so a stack ends with a final norm."""

    def forward(self, x_NM: Tensor, sublayer: Sublayer) -> Tensor:
        """Normalize before the sublayer."""
        return x_NM + self.dropout(sublayer(self.norm(x_NM)))
