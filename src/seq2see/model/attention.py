"""Attention functions, and multi-head self-attention and cross-attention.

`AttentionFunction.plain_forward` is the reference implementation. Functions for which torch has a
kernel also have a fused implementation, which is used unless a listener records the attention.

For any number of heads, the four projection matrices have 4·d_model² weights. Q, K and V are
computed by one product where they have the same input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.basic_modules import Dropout, XavierLinear
from seq2see.model.cache import KeyValues
from seq2see.model.masks import NO_MASK, AttentionMask, BatchLayout, masked_softmax
from seq2see.model.positional_encodings import RelativePositions
from seq2see.model.recorder import (
    NULL_RECORDER,
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    Recorder,
)
from seq2see.model.short_attention import short_attention, supports_short_attention

if TYPE_CHECKING:
    from seq2see.model.config import AttentionFunctionConfig, ModelConfig

# B batch, G targets (several per source in beam search), H heads, T queries, S keys,
# D features of a head, R mixtures of keys, N tokens of the batch, M features of the model


class AttentionInputs(NamedTuple):
    """Queries, keys, values and mask of an attention function."""

    queries_BHTD: Tensor
    keys_BHSD: Tensor
    values_BHSD: Tensor
    mask: AttentionMask


class AttentionFunction(nn.Module):
    """Base class of attention functions: softmax(scores(q, k)) · v in each head."""

    def __init__(self, dropout: Dropout) -> None:
        super().__init__()
        self.dropout = dropout

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return the score of each key for each query before masking, [B, H, T, S]."""
        raise NotImplementedError

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the sum of the values, weighted by attention, [B, H, T, D]."""
        return weights_BHTS @ values_BHSD

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Return the inputs of the attention; some subclasses transform them."""
        return inputs

    def fused_forward(self, inputs: AttentionInputs) -> Tensor | None:  # noqa: ARG002
        """Return the same as `plain_forward` from a faster kernel, or None if there is none."""
        return None

    def plain_forward(self, inputs: AttentionInputs, listener: AttentionListener | None) -> Tensor:
        """Compute attention step by step and pass the steps to the listener."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        scores_BHTS = self.compute_scores(queries_BHTD, keys_BHSD)
        masked = mask.to_tensor(queries_BHTD.size(2), keys_BHSD.size(2), queries_BHTD.device)
        weights_BHTS = masked_softmax(scores_BHTS, masked)
        if listener is not None:
            heads = (queries_BHTD, keys_BHSD, values_BHSD)
            listener(AttentionIntermediates(*heads, scores_BHTS, masked, weights_BHTS))
        return self.weighted_sum(self.dropout(weights_BHTS), values_BHSD)

    def forward(
        self,
        queries_BHTD: Tensor,
        keys_BHSD: Tensor,
        values_BHSD: Tensor,
        mask: AttentionMask = NO_MASK,
        listener: AttentionListener | None = None,
    ) -> Tensor:
        """Return the attention output of each query, [B, H, T, D]."""
        inputs = self.prepare_inputs(AttentionInputs(queries_BHTD, keys_BHSD, values_BHSD, mask))
        if listener is None and not self.dropout.is_active:  # no CPU kernel supports dropout
            output_BHTD = self.fused_forward(inputs)
            if output_BHTD is not None:
                return output_BHTD
        return self.plain_forward(inputs, listener)


class DotProductAttention(AttentionFunction):
    """scale · q·k. The scale in the paper is 1/√d_k; a scale of 1 is the unscaled product."""

    def __init__(self, scale: float, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.scale = scale

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·k."""
        return (self.scale * queries_BHTD) @ keys_BHSD.transpose(-2, -1)

    def fused_forward(self, inputs: AttentionInputs) -> Tensor:
        """Return the output of torch's kernel, or of `short_attention` for short sequences."""
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        num_queries, num_keys = queries_BHTD.size(2), keys_BHSD.size(2)
        if self.training and supports_short_attention(queries_BHTD, keys_BHSD):
            masked = mask.to_tensor(num_queries, num_keys, queries_BHTD.device)
            return short_attention(queries_BHTD, keys_BHSD, values_BHSD, masked, self.scale)
        only_causal = mask.is_causal and mask.masked is None and num_queries == num_keys
        masked = None if only_causal else mask.to_tensor(num_queries, num_keys, queries_BHTD.device)
        return F.scaled_dot_product_attention(
            queries_BHTD,
            keys_BHSD,
            values_BHSD,
            attn_mask=None if masked is None else ~masked,  # torch: True where attention is allowed
            is_causal=only_causal,
            scale=self.scale,
        )

    def extra_repr(self) -> str:
        """Return the scale for `repr`."""
        return f"scale={self.scale:.4g}"


class QKNormAttention(DotProductAttention):
    """LayerNorm(q)·LayerNorm(k): the norms limit the scores instead of 1/√d_k."""

    def __init__(self, d_head: int, scale: float, eps: float, dropout: Dropout) -> None:
        super().__init__(scale, dropout)
        self.query_norm = nn.LayerNorm(d_head, eps)
        self.key_norm = nn.LayerNorm(d_head, eps)

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Normalize queries and keys."""
        return inputs._replace(
            queries_BHTD=self.query_norm(inputs.queries_BHTD),
            keys_BHSD=self.key_norm(inputs.keys_BHSD),
        )


class AdditiveAttention(AttentionFunction):
    """v·tanh(q + k + b) for each head (Bahdanau et al., 2015).

    The multi-head projections are the matrices W_q and W_k. This is slower than dot-product
    attention because it needs a tensor with the features of all query–key pairs.
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


class RelativeAttention(AttentionFunction):
    """Dot-product attention with relative positions, which add to the scores and to the output."""

    def __init__(self, scale: float, distances: RelativePositions, dropout: Dropout) -> None:
        super().__init__(dropout)
        self.scale = scale
        self.distances = distances

    def compute_scores(self, queries_BHTD: Tensor, keys_BHSD: Tensor) -> Tensor:
        """Return scale · q·k plus the scores of the distances."""
        queries_BHTD = self.scale * queries_BHTD
        content_scores_BHTS = queries_BHTD @ keys_BHSD.transpose(-2, -1)
        return content_scores_BHTS + self.distances.compute_scores(queries_BHTD, keys_BHSD.size(2))

    def weighted_sum(self, weights_BHTS: Tensor, values_BHSD: Tensor) -> Tensor:
        """Return the weighted sum of the values plus that of the distances."""
        return weights_BHTS @ values_BHSD + self.distances.weighted_sum(weights_BHTS)


class LinformerAttention(DotProductAttention):
    """Attention over `rank` learned mixtures of the keys and values: O(n) (Wang et al., 2020).

    A mixture combines all positions, so it cannot be causal and is only possible in the encoder's
    self-attention. Padding is set to zero before mixing; the mixtures need no mask.
    """

    def __init__(self, max_length: int, rank: int, scale: float, dropout: Dropout) -> None:
        super().__init__(scale, dropout)
        shape = (rank, max_length)
        self.mix_keys_RS = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.mix_values_RS = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))

    def prepare_inputs(self, inputs: AttentionInputs) -> AttentionInputs:
        """Replace keys and values by their mixtures.

        Raises `InputError` if there are more keys than `max_length`.
        """
        queries_BHTD, keys_BHSD, values_BHSD, mask = inputs
        length, max_length = keys_BHSD.size(2), self.mix_keys_RS.size(1)
        if length > max_length:
            raise InputError(
                f"a sentence must have at most {max_length} tokens with linformer attention "
                f"(`encoder_attention.max_length`), but has {length} instead"
            )
        assert not mask.is_causal, "linformer attention cannot be causal; ModelConfig rejects it"
        if mask.masked is not None:
            assert mask.masked.size(-2) == 1, "linformer attention needs one mask for all queries"
            masked_BHS1 = mask.masked.transpose(-2, -1)
            keys_BHSD = keys_BHSD.masked_fill(masked_BHS1, 0.0)
            values_BHSD = values_BHSD.masked_fill(masked_BHS1, 0.0)
        keys_BHRD = self.mix_keys_RS[:, :length] @ keys_BHSD
        values_BHRD = self.mix_values_RS[:, :length] @ values_BHSD
        return AttentionInputs(queries_BHTD, keys_BHRD, values_BHRD, NO_MASK)


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """One value of `attention.kind`."""

    build: Callable[[ModelConfig, AttentionFunctionConfig, float, Dropout], AttentionFunction]
    """Builds the function from the configs, the scale and the dropout."""
    settings: tuple[str, ...] = ("scale",)
    """Fields of `AttentionFunctionConfig` that not all kinds use."""
    is_scaled: bool = True
    """The default scale is 1/√d_head, otherwise 1."""
    is_dot_product: bool = False
    """It is q·k without weights of its own; relative positions and CTranslate2 require this."""
    is_encoder_only: bool = False
    """It mixes positions, so it cannot be causal or cached."""


ATTENTION_KINDS: Mapping[str, AttentionKind] = {
    "scaled_dot": AttentionKind(
        lambda _, __, scale, dropout: DotProductAttention(scale, dropout), is_dot_product=True
    ),
    "dot": AttentionKind(
        lambda _, __, scale, dropout: DotProductAttention(scale, dropout),
        is_scaled=False,
        is_dot_product=True,
    ),
    "additive": AttentionKind(
        lambda model, _, __, dropout: AdditiveAttention(
            model.heads, model.d_model // model.heads, dropout
        ),
        settings=(),
    ),
    "qk_norm": AttentionKind(
        lambda model, _, scale, dropout: QKNormAttention(
            model.d_model // model.heads, scale, model.norm.eps, dropout
        ),
        is_scaled=False,
    ),
    "linformer": AttentionKind(
        lambda _, attention, scale, dropout: LinformerAttention(
            attention.max_length, attention.rank, scale, dropout
        ),
        settings=("scale", "max_length", "rank"),
        is_encoder_only=True,
    ),
}
"""The kinds of attention functions."""
DOT_PRODUCT_KINDS = tuple(name for name, kind in ATTENTION_KINDS.items() if kind.is_dot_product)


class MultiHeadAttention(nn.Module):
    """Base class of self-attention and cross-attention: heads, attention function and W^O."""

    def __init__(
        self,
        d_model: int,
        heads: int,
        attention: AttentionFunction,
        site: AttentionModuleId,
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
        """Create W^Q, W^K and W^V; those with the same input are stacked into one matrix."""
        raise NotImplementedError

    def split_heads(self, x_BTM: Tensor) -> Tensor:
        """Return the features of each head, [B, H, T, D]."""
        return x_BTM.view(*x_BTM.shape[:-1], self.heads, -1).transpose(1, 2)

    def attend(
        self,
        queries_BHTD: Tensor,
        key_values: KeyValues,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder,
    ) -> Tensor:
        """Return the attention output of all heads after W^O, [N, M]."""
        listener = recorder.attention_listener(self.site)
        output_BHTD = self.attention(
            queries_BHTD, key_values.keys_BHSD, key_values.values_BHSD, mask, listener
        )
        return self.output(layout.flatten(output_BHTD.transpose(1, 2).flatten(2)))

    def extra_repr(self) -> str:
        """Return the number of heads for `repr`."""
        return f"heads={self.heads}"


class SelfAttention(MultiHeadAttention):
    """Attention between the tokens of one sentence."""

    def build_projections(self, d_model: int, bias: bool) -> None:
        """Create one matrix for Q, K and V; with `shared_qk`, Q and K share their part."""
        self.qkv = XavierLinear(d_model, d_model, bias, num_stacked=2 if self.shared_qk else 3)

    def project(self, x_NM: Tensor, layout: BatchLayout) -> tuple[Tensor, KeyValues]:
        """Return the queries, and the keys and values, of each head."""
        parts_BTM = layout.unflatten(self.qkv(x_NM)).chunk(self.qkv.num_stacked, dim=-1)
        queries, *others = (self.split_heads(part_BTM) for part_BTM in parts_BTM)
        keys, values = [queries, *others] if self.shared_qk else others
        return queries, KeyValues(keys, values)

    def forward(
        self,
        x_NM: Tensor,
        layout: BatchLayout,
        mask: AttentionMask,
        recorder: Recorder = NULL_RECORDER,
        past: KeyValues | None = None,
    ) -> tuple[Tensor, KeyValues]:
        """Attend to these tokens and to `past`.

        Returns the output, [N, M], and the keys and values of all tokens so far.
        """
        queries_BHTD, key_values = self.project(x_NM, layout)
        if past is not None:
            key_values = past.append(key_values)
        return self.attend(queries_BHTD, key_values, layout, mask, recorder), key_values


class CrossAttention(MultiHeadAttention):
    """Attention of the target tokens to the encoder output."""

    def build_projections(self, d_model: int, bias: bool) -> None:
        """Create W^Q, and one matrix for K and V; with `shared_qk`, W^Q also projects the keys."""
        self.query = XavierLinear(d_model, d_model, bias)
        num_stacked = 1 if self.shared_qk else 2
        self.key_value = XavierLinear(d_model, d_model, bias, num_stacked)

    def project_memory(self, memory_NM: Tensor, layout: BatchLayout) -> KeyValues:
        """Return keys and values of the encoder output, which are the same for all steps."""
        projected_BSM = layout.unflatten(self.key_value(memory_NM))
        parts_BSM = projected_BSM.chunk(self.key_value.num_stacked, dim=-1)
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
        """Return the attention output, [N, M]. Several targets may share a source."""
        queries_GTM = layout.unflatten(self.query(x_NM))
        num_sources = len(key_values.keys_BHSD)
        targets_per_source = len(queries_GTM) // num_sources
        if targets_per_source > 1 and recorder.attention_listener(self.site):
            # A record has one row per target.
            key_values, mask = _repeat_per_target(key_values, mask, targets_per_source)
        elif targets_per_source > 1:  # the targets of a source become queries of one sentence
            queries_GTM = queries_GTM.reshape(num_sources, -1, queries_GTM.size(2))
        return self.attend(self.split_heads(queries_GTM), key_values, layout, mask, recorder)


def _repeat_per_target(
    key_values: KeyValues, mask: AttentionMask, targets_per_source: int
) -> tuple[KeyValues, AttentionMask]:
    """Return keys, values and mask with one row per target instead of one per source."""
    tensors = (key_values.keys_BHSD, key_values.values_BHSD)
    copies = KeyValues(*(tensor.repeat_interleave(targets_per_source, 0) for tensor in tensors))
    if mask.masked is None:
        return copies, mask
    masked = mask.masked.repeat_interleave(targets_per_source, 0)
    return copies, AttentionMask(masked, mask.is_causal)
