"""Attention inside one head: softmax(scores(q, k)) v, and every way to score.

`Attention.plain` is the reference. Kinds that torch has a kernel for have the fused form too, which
gives way to the plain one by itself when somebody listens.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.dropout import Dropout
from seq2see.model.masks import OPEN, Mask, masked_softmax
from seq2see.model.positions import RelativeDistances
from seq2see.model.recorder import AttentionListener, AttentionRecord
from seq2see.model.short import attend, is_short

# B batch, H heads, T queries, S keys, D features of a head, R mixtures of keys


class Inputs(NamedTuple):
    """What an attention works on."""

    queries_BHTD: Tensor
    keys_BHSD: Tensor
    values_BHSD: Tensor
    mask: Mask


class Attention(nn.Module):
    """Each query takes the mean of the values, weighted by the softmax of its scores."""

    def __init__(self, dropout: Dropout) -> None:
        super().__init__()
        self.dropout = dropout

    def scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return how well each query fits each key, [B, H, T, S]."""
        raise NotImplementedError

    def mix(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the weighted sum of the values."""
        return weights_BHTS @ values_BHSD

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return what is attended with, and to; some kinds change it first."""
        return inputs

    def fused(self, inputs: Inputs) -> Tensor | None:  # noqa: ARG002
        """Return the same as `plain` by a faster kernel, or None if there is none."""
        return None

    def plain(self, inputs: Inputs, listener: AttentionListener | None) -> Tensor:
        """Compute each step for itself, so that it can be heard."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        scores_BHTS = self.scores(queries_BHTD, keys_BHSD)
        hidden = mask.dense(queries_BHTD.size(2), keys_BHSD.size(2), queries_BHTD.device)
        weights_BHTS = masked_softmax(scores_BHTS, hidden)
        if listener is not None:
            heads = (queries_BHTD, keys_BHSD, values_BHSD)
            listener(AttentionRecord(*heads, scores_BHTS, hidden, weights_BHTS))
        return self.mix(self.dropout(weights_BHTS), values_BHSD)

    def forward(
        self,
        queries_BHTD: Tensor,
        keys_BHSD: Tensor,
        values_BHSD: Tensor,
        mask: Mask = OPEN,
        listener: AttentionListener | None = None,
    ) -> Tensor:
        """Return what each query takes from the values, [B, H, T, D]."""
        inputs = self.prepare(Inputs(queries_BHTD, keys_BHSD, values_BHSD, mask))
        if listener is None and not self.dropout.active:  # no kernel for CPUs has dropout
            mixed_BHTD = self.fused(inputs)
            if mixed_BHTD is not None:
                return mixed_BHTD
        return self.plain(inputs, listener)


class DotProductAttention(Attention):
    """scale · q·k. The paper's scale is 1/√d_k; 1 gives the unscaled product."""

    def __init__(self, scale: float, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.scale = scale

    def scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·k."""
        return (self.scale * queries_BHTD) @ keys_BHSD.transpose(-2, -1)

    def fused(self, inputs: Inputs) -> Tensor:
        """Return the same by a kernel, which never shows its weights: torch's, or that for short
        sentences."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        queries, keys = queries_BHTD.size(2), keys_BHSD.size(2)
        if self.training and is_short(queries_BHTD, keys_BHSD):
            hidden = mask.dense(queries, keys, queries_BHTD.device)
            return attend(queries_BHTD, keys_BHSD, values_BHSD, hidden, self.scale)
        only_causal = mask.causal and mask.hidden is None and queries == keys
        hidden = None if only_causal else mask.dense(queries, keys, queries_BHTD.device)
        return F.scaled_dot_product_attention(
            queries_BHTD,
            keys_BHSD,
            values_BHSD,
            attn_mask=None if hidden is None else ~hidden,  # torch's masks say what may be seen
            is_causal=only_causal,
            scale=self.scale,
        )

    def extra_repr(self) -> str:
        """Show the scale."""
        return f"scale={self.scale:.4g}"


class QKNormAttention(DotProductAttention):
    """LayerNorm(q)·LayerNorm(k): the norms bound the scores instead of 1/√d_k."""

    def __init__(self, d_head: int, scale: float, eps: float, dropout: Dropout) -> None:
        super().__init__(scale, dropout)
        self.query_norm = nn.LayerNorm(d_head, eps)
        self.key_norm = nn.LayerNorm(d_head, eps)

    def prepare(self, inputs: Inputs) -> Inputs:
        """Normalise queries and keys."""
        return inputs._replace(
            queries_BHTD=self.query_norm(inputs.queries_BHTD),
            keys_BHSD=self.key_norm(inputs.keys_BHSD),
        )


class AdditiveAttention(Attention):
    """v·tanh(q + k + b) for each head (Bahdanau et al., 2015).

    The multi-head projections are its matrices W_q and W_k. It holds a tensor of all query–key
    pairs with features, which is what makes it slower than a product.
    """

    def __init__(self, heads: int, d_head: int, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.bias_HD = nn.Parameter(torch.zeros(heads, d_head))
        self.vector_HD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(heads, d_head)))

    def scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return v·tanh(q + k + b)."""
        keys_BHSD = keys_BHSD + self.bias_HD[:, None, :]
        sums_BHTSD = queries_BHTD[:, :, :, None, :] + keys_BHSD[:, :, None, :, :]
        return torch.einsum("bhtsd,hd->bhts", sums_BHTSD.tanh(), self.vector_HD)


class RelativeAttention(Attention):
    """A dot product in which each distance between query and key has vectors of its own.

    scale · q·(k + a_K) scores, and v + a_V is mixed (Shaw et al., 2018).
    """

    def __init__(self, scale: float, distances: RelativeDistances, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.scale = scale
        self.distances = distances

    def scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·(k + a_K)."""
        queries_BHTD = self.scale * queries_BHTD
        by_content_BHTS = queries_BHTD @ keys_BHSD.transpose(-2, -1)
        return by_content_BHTS + self.distances.scores(queries_BHTD, keys_BHSD.size(2))

    def mix(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the weighted sum of v + a_V."""
        return weights_BHTS @ values_BHSD + self.distances.mix(weights_BHTS)


class LinformerAttention(DotProductAttention):
    """Attention over `rank` learned mixtures of the keys and values: O(n) (Wang et al., 2020).

    Mixing makes positions inseparable, so it can stand in the encoder's self-attention only.
    Padding is set to zero before it is mixed; what is left hides nothing.
    """

    def __init__(self, max_length: int, rank: int, scale: float, dropout: Dropout) -> None:
        super().__init__(scale, dropout)
        shape = (rank, max_length)
        self.mix_keys_RS = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.mix_values_RS = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))

    def prepare(self, inputs: Inputs) -> Inputs:
        """Mix keys and values."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        length, known = keys_BHSD.size(2), self.mix_keys_RS.size(1)
        if length > known:
            raise InputError(
                f"a sentence must have at most {known} tokens with linformer attention "
                f"(`encoder_attention.max_length`), but has {length} instead"
            )
        assert not mask.causal, "linformer cannot be causal; ModelConfig refuses it"
        if mask.hidden is not None:
            assert mask.hidden.size(-2) == 1, "linformer hides a key from all queries or from none"
            hidden_BHS1 = mask.hidden.transpose(-2, -1)
            keys_BHSD = keys_BHSD.masked_fill(hidden_BHS1, 0.0)
            values_BHSD = values_BHSD.masked_fill(hidden_BHS1, 0.0)
        keys_BHRD = self.mix_keys_RS[:, :length] @ keys_BHSD
        values_BHRD = self.mix_values_RS[:, :length] @ values_BHSD
        return Inputs(queries_BHTD, keys_BHRD, values_BHRD, OPEN)
