"""The layers of encoder and decoder, and the residual connections that hold them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.cache import LayerCache
from seq2see.model.config import Activation
from seq2see.model.dropout import Dropout
from seq2see.model.layout import Layout
from seq2see.model.linear import Linear
from seq2see.model.masks import CAUSAL, Mask
from seq2see.model.multihead import CrossAttention, SelfAttention
from seq2see.model.recorder import SILENCE, Recorder

# N tokens in a row, M features of the model

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
        self.up = Linear(d_model, d_ff)
        self.down = Linear(d_ff, d_model)
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


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(
        self,
        x_NM: Tensor,
        layout: Layout,
        mask: Mask,
        recorder: Recorder = SILENCE,
    ) -> Tensor:
        """Return the next layer's input."""

        def attend(h_NM: Tensor) -> Tensor:
            mixed_NM, _ = self.attention(h_NM, layout, mask, recorder)
            return mixed_NM

        x_NM = self.attention_residual(x_NM, attend)
        return self.feed_forward_residual(x_NM, self.feed_forward)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, then feed-forward."""

    def __init__(
        self,
        attention: SelfAttention,
        cross_attention: CrossAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.attention = attention
        self.attention_residual = residual()
        self.cross_attention = cross_attention
        self.cross_attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def remember(self, memory_NM: Tensor, layout: Layout) -> LayerCache:
        """Return the cache from which this layer starts: keys and values of the memory."""
        return LayerCache(self.cross_attention.remember(memory_NM, layout))

    def forward(
        self,
        x_NM: Tensor,
        layout: Layout,
        cache: LayerCache,
        memory_mask: Mask,
        recorder: Recorder = SILENCE,
    ) -> tuple[Tensor, LayerCache]:
        """Return the next layer's input, and the cache with these tokens in it."""
        new = cache

        def attend(h_NM: Tensor) -> Tensor:
            nonlocal new
            mixed_NM, past = self.attention(h_NM, layout, CAUSAL, recorder, cache.past)
            new = LayerCache(cache.memory, past)
            return mixed_NM

        def look_at_source(h_NM: Tensor) -> Tensor:
            return self.cross_attention(h_NM, cache.memory, layout, memory_mask, recorder)

        x_NM = self.attention_residual(x_NM, attend)
        x_NM = self.cross_attention_residual(x_NM, look_at_source)
        return self.feed_forward_residual(x_NM, self.feed_forward), new
