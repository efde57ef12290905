"""Attention functions, and multi-head self-attention and cross-attention.

`Attention.plain_forward` is the reference implementation. Attention functions for which torch has a
kernel also have a fused implementation, which is used unless a listener records the attention.

For any number of heads, the four projection matrices have 4·d_model² weights. Q, K and V are
computed by one product where they have the same input.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.cache import KeyValues
from seq2see.model.embeddings import RelativePositionEmbeddings
from seq2see.model.masks import NO_MASK, AttentionMask, BatchLayout, masked_softmax
from seq2see.model.modules import Dropout, XavierLinear
from seq2see.model.recorder import (
    NULL_RECORDER,
    AttentionListener,
    AttentionRecord,
    AttentionSite,
    Recorder,
)
from seq2see.model.short_attention import short_attention, supports_short_attention

# B batch, H heads, T queries, S keys, D features of a head, R mixtures of keys
# N tokens in a row, B batch, R targets, H heads, T queries, S keys, D features of a head,
# M features of the model


class AttentionInputs(NamedTuple):
    """What an attention works on."""

    queries_BHTD: Tensor
    keys_BHSD: Tensor
    values_BHSD: Tensor
    mask: AttentionMask


class Attention(nn.Module):
    """Each query takes the mean of the values, weighted by the softmax of its scores."""

    def __init__(self, dropout: Dropout) -> None:
        super().__init__()
        self.dropout = dropout

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return how well each query fits each key, [B, H, T, S]."""
        raise NotImplementedError

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the weighted sum of the values."""
        return weights_BHTS @ values_BHSD

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Return what is attended with, and to; some kinds change it first."""
        return inputs

    def fused_forward(self, inputs: AttentionInputs) -> Tensor | None:  # noqa: ARG002
        """Return the same as `plain` by a faster kernel, or None if there is none."""
        return None

    def plain_forward(self, inputs: AttentionInputs, listener: AttentionListener | None) -> Tensor:
        """Compute each step for itself, so that it can be heard."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        scores_BHTS = self.compute_scores(queries_BHTD, keys_BHSD)
        hidden = mask.to_tensor(queries_BHTD.size(2), keys_BHSD.size(2), queries_BHTD.device)
        weights_BHTS = masked_softmax(scores_BHTS, hidden)
        if listener is not None:
            heads = (queries_BHTD, keys_BHSD, values_BHSD)
            listener(AttentionRecord(*heads, scores_BHTS, hidden, weights_BHTS))
        return self.weighted_sum(self.dropout(weights_BHTS), values_BHSD)

    def forward(
        self,
        queries_BHTD: Tensor,
        keys_BHSD: Tensor,
        values_BHSD: Tensor,
        mask: AttentionMask = NO_MASK,
        listener: AttentionListener | None = None,
    ) -> Tensor:
        """Return what each query takes from the values, [B, H, T, D]."""
        inputs = self.prepare_inputs(AttentionInputs(queries_BHTD, keys_BHSD, values_BHSD, mask))
        if listener is None and not self.dropout.is_active:  # no kernel for CPUs has dropout
            mixed_BHTD = self.fused_forward(inputs)
            if mixed_BHTD is not None:
                return mixed_BHTD
        return self.plain_forward(inputs, listener)


class DotProductAttention(Attention):
    """scale · q·k. The paper's scale is 1/√d_k; 1 gives the unscaled product."""

    def __init__(self, scale: float, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.scale = scale

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·k."""
        return (self.scale * queries_BHTD) @ keys_BHSD.transpose(-2, -1)

    def fused_forward(self, inputs: AttentionInputs) -> Tensor:
        """Return the same by a kernel, which never shows its weights: torch's, or that for short
        sentences."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        queries, keys = queries_BHTD.size(2), keys_BHSD.size(2)
        if self.training and supports_short_attention(queries_BHTD, keys_BHSD):
            hidden = mask.to_tensor(queries, keys, queries_BHTD.device)
            return short_attention(queries_BHTD, keys_BHSD, values_BHSD, hidden, self.scale)
        only_causal = mask.is_causal and mask.masked is None and queries == keys
        hidden = None if only_causal else mask.to_tensor(queries, keys, queries_BHTD.device)
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

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
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

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return v·tanh(q + k + b)."""
        keys_BHSD = keys_BHSD + self.bias_HD[:, None, :]
        sums_BHTSD = queries_BHTD[:, :, :, None, :] + keys_BHSD[:, :, None, :, :]
        return torch.einsum("bhtsd,hd->bhts", sums_BHTSD.tanh(), self.vector_HD)


class RelativeAttention(Attention):
    """A dot product in which each distance between query and key has vectors of its own.

    scale · q·(k + a_K) scores, and v + a_V is mixed (Shaw et al., 2018).
    """

    def __init__(
        self, scale: float, distances: RelativePositionEmbeddings, dropout: Dropout
    ) -> None:
        super().__init__(dropout)
        self.scale = scale
        self.distances = distances

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·(k + a_K)."""
        queries_BHTD = self.scale * queries_BHTD
        by_content_BHTS = queries_BHTD @ keys_BHSD.transpose(-2, -1)
        return by_content_BHTS + self.distances.compute_scores(queries_BHTD, keys_BHSD.size(2))

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the weighted sum of v + a_V."""
        return weights_BHTS @ values_BHSD + self.distances.weighted_sum(weights_BHTS)


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

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Mix keys and values."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        length, known = keys_BHSD.size(2), self.mix_keys_RS.size(1)
        if length > known:
            raise InputError(
                f"a sentence must have at most {known} tokens with linformer attention "
                f"(`encoder_attention.max_length`), but has {length} instead"
            )
        assert not mask.is_causal, "linformer cannot be causal; ModelConfig refuses it"
        if mask.masked is not None:
            assert mask.masked.size(-2) == 1, "linformer hides a key from all queries or from none"
            hidden_BHS1 = mask.masked.transpose(-2, -1)
            keys_BHSD = keys_BHSD.masked_fill(hidden_BHS1, 0.0)
            values_BHSD = values_BHSD.masked_fill(hidden_BHS1, 0.0)
        keys_BHRD = self.mix_keys_RS[:, :length] @ keys_BHSD
        values_BHRD = self.mix_values_RS[:, :length] @ values_BHSD
        return AttentionInputs(queries_BHTD, keys_BHRD, values_BHRD, NO_MASK)


class MultiHeadAttention(nn.Module):
    """What the two kinds have in common: the heads, the attention inside them, and W^O."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        attention: Attention,
        site: AttentionSite,
        bias: bool = True,
        shared_qk: bool = False,
    ) -> None:
        super().__init__()
        assert d_model % heads == 0, f"{heads} heads do not divide d_model {d_model}"
        self.heads = heads
        self.site = site
        self.shared_qk = shared_qk
        self.build_projections(d_model, bias)
        self.attention = attention
        self.output = XavierLinear(d_model, d_model, bias)

    def build_projections(self, d_model: int, bias: bool) -> None:
        """Make W^Q, W^K and W^V, fused as far as they have the same input."""
        raise NotImplementedError

    def split_heads(self, x_BTM: Tensor) -> Tensor:
        """Cut the features into heads, [B, H, T, D]."""
        return x_BTM.view(*x_BTM.shape[:-1], self.heads, -1).transpose(1, 2)

    def attend(
        self,
        queries_BHTD: Tensor,
        key_values: KeyValues,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder,
    ) -> Tensor:
        """Attend in each head and join the heads, [N, M]."""
        listener = recorder.attention_listener(self.site)
        mixed_BHTD = self.attention(
            queries_BHTD, key_values.keys_BHSD, key_values.values_BHSD, mask, listener
        )
        return self.output(layout.flatten(mixed_BHTD.transpose(1, 2).flatten(2)))

    def extra_repr(self) -> str:
        """Show the number of heads."""
        return f"heads={self.heads}"


class SelfAttention(MultiHeadAttention):
    """Tokens look at the tokens of their own sentence."""

    def build_projections(self, d_model: int, bias: bool) -> None:
        """Make one matrix for all three; a shared one serves queries and keys."""
        self.qkv = XavierLinear(d_model, d_model, bias, num_stacked=2 if self.shared_qk else 3)

    def project(self, x_NM: Tensor, layout: BatchLayout) -> tuple[Tensor, KeyValues]:
        """Return the queries, and the keys and values, of each head."""
        parts_BTM = layout.unflatten(self.qkv(x_NM)).chunk(self.qkv.num_stacked, dim=-1)
        first, *others = (self.split_heads(part_BTM) for part_BTM in parts_BTM)
        keys, values = [first, *others] if self.shared_qk else others
        return first, KeyValues(keys, values)

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
        past: KeyValues | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """Attend to these tokens and those of the past; return also what the next step needs."""
        queries_BHTD, memory = self.project(x_NM, layout)
        if past is not None:
            memory = past.append(memory)
        return self.attend(queries_BHTD, memory, layout, mask, recorder), memory


class CrossAttention(MultiHeadAttention):
    """Target tokens look at the memory of the source."""

    def build_projections(self, d_model: int, bias: bool) -> None:
        """Make one matrix for the target and one for the memory; a shared W^Q makes keys too."""
        self.query = XavierLinear(d_model, d_model, bias)
        self.key_value = XavierLinear(
            d_model, d_model, bias, num_stacked=1 if self.shared_qk else 2
        )

    def project_memory(self, memory_NM: Tensor, layout: BatchLayout) -> KeyValues:
        """Return keys and values of the memory, which stay the same for every step."""
        parts_BSM = layout.unflatten(self.key_value(memory_NM)).chunk(
            self.key_value.num_stacked, dim=-1
        )
        keys_BSM = layout.unflatten(self.query(memory_NM)) if self.shared_qk else parts_BSM[0]
        return KeyValues(self.split_heads(keys_BSM), self.split_heads(parts_BSM[-1]))

    def forward(
        self,
        x_NM: Tensor,
        key_values: KeyValues,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
    ) -> Tensor:
        """Attend to the memory, of which each row may serve several targets."""
        queries_RTM = layout.unflatten(self.query(x_NM))
        sources = len(key_values.keys_BHSD)
        sharers = len(queries_RTM) // sources
        if sharers > 1 and recorder.attention_listener(self.site):
            key_values, mask = _apart(
                key_values, mask, sharers
            )  # a record has a row for each target
        elif sharers > 1:  # the memory cannot tell if they are tokens of one target or of several
            queries_RTM = queries_RTM.reshape(sources, -1, queries_RTM.size(2))
        return self.attend(self.split_heads(queries_RTM), key_values, layout, mask, recorder)


def _apart(memory: KeyValues, mask: AttentionMask, sharers: int) -> tuple[KeyValues, AttentionMask]:
    """Return memory and mask with a row for each of those that share one."""
    parts = (memory.keys_BHSD, memory.values_BHSD)
    copies = KeyValues(*(part.repeat_interleave(sharers, 0) for part in parts))
    if mask.masked is None:
        return copies, mask
    return copies, AttentionMask(mask.masked.repeat_interleave(sharers, 0), mask.is_causal)
