"""The layers of encoder and decoder, and the residual connections that hold them together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.model.cache import LayerCache
from seq2see.model.config import Activation
from seq2see.model.dropout import Dropout
from seq2see.model.linear import Linear
from seq2see.model.masks import CAUSAL, Mask
from seq2see.model.multihead import CrossAttention, SelfAttention
from seq2see.model.norms import Norm
from seq2see.model.recorder import SILENCE, Recorder

# B batch, T tokens, S source tokens, M features of the model

Sublayer = Callable[[Tensor], Tensor]

ACTIVATIONS: Mapping[Activation, Sublayer] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Two linear layers with a non-linearity between them, for each position by itself."""

    def __init__(self, d_model: int, d_ff: int, activation: Sublayer, dropout: Dropout) -> None:
        super().__init__()
        self.up = Linear(d_model, d_ff)
        self.down = Linear(d_ff, d_model)
        self.activation = activation
        self.dropout = dropout

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return W₂·activation(W₁·x)."""
        return self.down(self.dropout(self.activation(self.up(x_BTM))))


class Residual(nn.Module):
    """Adds what a sublayer makes of x to x: norm(x + sublayer(x)), as in the paper."""

    def __init__(self, norm: Norm, dropout: Dropout) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = dropout

    def forward(self, x_BTM: Tensor, sublayer: Sublayer, padding_BT: Tensor | None) -> Tensor:
        """Normalise behind the sum."""
        return self.norm(x_BTM + self.dropout(sublayer(x_BTM)), padding_BT)


class PreNormResidual(Residual):
    """x + sublayer(norm(x)): the sum itself is never normalised, so a last norm stands on top."""

    def forward(self, x_BTM: Tensor, sublayer: Sublayer, padding_BT: Tensor | None) -> Tensor:
        """Normalise in front of the sublayer."""
        return x_BTM + self.dropout(sublayer(self.norm(x_BTM, padding_BT)))


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
        x_BSM: Tensor,
        padding_BS: Tensor,
        mask: Mask,
        recorder: Recorder = SILENCE,
    ) -> Tensor:
        """Return the next layer's input."""

        def attend(h_BSM: Tensor) -> Tensor:
            mixed_BSM, _ = self.attention(h_BSM, mask, recorder)
            return mixed_BSM

        x_BSM = self.attention_residual(x_BSM, attend, padding_BS)
        return self.feed_forward_residual(x_BSM, self.feed_forward, padding_BS)


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

    def forward(
        self,
        x_BTM: Tensor,
        padding_BT: Tensor | None,
        cache: LayerCache,
        memory_mask: Mask,
        recorder: Recorder = SILENCE,
    ) -> Tensor:
        """Return the next layer's input, and remember these tokens in the cache."""

        def attend(h_BTM: Tensor) -> Tensor:
            mixed_BTM, cache.past = self.attention(h_BTM, CAUSAL, recorder, cache.past)
            return mixed_BTM

        def look_at_source(h_BTM: Tensor) -> Tensor:
            return self.cross_attention(h_BTM, cache.memory, memory_mask, recorder)

        x_BTM = self.attention_residual(x_BTM, attend, padding_BT)
        x_BTM = self.cross_attention_residual(x_BTM, look_at_source, padding_BT)
        return self.feed_forward_residual(x_BTM, self.feed_forward, padding_BT)
