"""Token embeddings, positional encodings, and the output projection.

Absolute positions are added to the embeddings. Relative positions are a part of self-attention.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seq2see.errors import InputError
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T tokens or queries, S keys, M features of the model, D features of a head,
# F frequencies, R distances, N positions, V vocabulary


class TokenEmbedding(nn.Module):
    """A vector per id, initialized from N(0, 1/d_model): multiplied by √d_model it has variance 1.

    The padding id has a vector like all other ids: in some models it is also the start symbol.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight_VM = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the vector of each id, [B, T, M].

        Raises `InputError` on a CPU if there is no row for an id.
        """
        try:
            return F.embedding(ids_BT, self.weight_VM)
        except IndexError:  # on a CPU; other devices do not report which id is invalid
            last = len(self.weight_VM) - 1
            invalid = ids_BT[(ids_BT < 0) | (ids_BT > last)][0].item()
            raise InputError(
                f"an id must be from 0 to {last}, the last row of the embedding, "
                f"but is {invalid} instead"
            ) from None


SinusoidLayout = Literal["interleaved", "halves"]
SinusoidFrequencies = Literal["paper", "tensor2tensor"]


class BasePositionalEncoding(nn.Module):
    """Adds a vector for its position to each token. This base class adds nothing."""

    @property
    def max_positions(self) -> int | None:
        """The number of positions; None if it is unlimited."""
        return None

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:  # noqa: ARG002
        """Return `x` with positions added; its first token is at position `offset`."""
        return x_BTM


class SinusoidalPositions(BasePositionalEncoding):
    """Adds sines and cosines with geometrically growing wavelengths; defined for any position."""

    def __init__(self, layout: SinusoidLayout, frequencies: SinusoidFrequencies) -> None:
        super().__init__()
        self.layout = layout
        self.frequencies = frequencies

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return `x` with positions added; its first token is at position `offset`."""
        end = offset + x_BTM.size(1)
        size = max(512, 1 << (end - 1).bit_length())
        sinusoids = _cached_sinusoids(
            size, x_BTM.size(2), self.layout, self.frequencies, x_BTM.dtype, x_BTM.device
        )
        return x_BTM + sinusoids[offset:end]

    def extra_repr(self) -> str:
        """Return the variant for `repr`."""
        return f"layout={self.layout}, frequencies={self.frequencies}"


@lru_cache(maxsize=16)
def _cached_sinusoids(
    size: int,
    d_model: int,
    layout: SinusoidLayout,
    frequencies: SinusoidFrequencies,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return the vectors of the first `size` positions, which each decoding step needs.

    This is not a buffer of the module: a buffer would be rounded by each change of dtype and would
    be lost on the meta device.
    """
    with torch.inference_mode(mode=False):
        positions = torch.arange(size, device=device)
        return compute_sinusoids(positions, d_model, layout, frequencies).to(dtype)


def compute_sinusoids(
    positions_T: Tensor,
    d_model: int,
    layout: SinusoidLayout = "interleaved",
    frequencies: SinusoidFrequencies = "paper",
) -> Tensor:
    """Return sin(position·f) and cos(position·f) for d_model/2 frequencies f, in float64.

    The two options are independent: the paper interleaves sines and cosines, and its frequencies
    are 10000^(−2i/d); Tensor2Tensor puts the sines first, and its last frequency is exactly
    1/10000.
    """
    num_frequencies = d_model // 2
    last = num_frequencies if frequencies == "paper" else max(num_frequencies - 1, 1)
    exponents_F = torch.arange(num_frequencies, dtype=torch.float64, device=positions_T.device)
    frequencies_F = torch.exp(-math.log(10000.0) * (exponents_F / last))
    angles_TF = positions_T.double()[:, None] * frequencies_F
    sines_and_cosines = (angles_TF.sin(), angles_TF.cos())
    if layout == "halves":
        return torch.cat(sines_and_cosines, dim=1)
    return torch.stack(sines_and_cosines, dim=2).flatten(1)


class LearnedPositions(BasePositionalEncoding):
    """Adds a learned vector for each position below `max_length`."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight_NM = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    @property
    def max_positions(self) -> int:
        """The number of positions with a learned vector."""
        return len(self.weight_NM)

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Return `x` with positions added; its first token is at position `offset`.

        Raises `InputError` if a position is not below `max_positions`.
        """
        end, limit = offset + x_BTM.size(1), self.max_positions
        if end > limit:
            raise InputError(
                f"a sentence must have at most {limit} tokens with learned positions "
                f"(`positions.max_length`), but has {end} instead"
            )
        return x_BTM + self.weight_NM[offset:end]


class RelativePositionEmbeddings(nn.Module):
    """A key and a value vector per distance, clipped at ±`max_distance` (Shaw et al., 2018).

    The heads of a layer share them. The products are computed for 2·max_distance + 1 distances and
    then gathered, which avoids a tensor with the features of all query–key pairs.
    """

    def __init__(self, d_head: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        shape = (2 * max_distance + 1, d_head)
        self.key_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.value_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))

    def compute_scores(self, queries_BHTD: Tensor, num_keys: int) -> Tensor:
        """Return q·a_K of each query for its distance to each key, [B, H, T, S]."""
        by_distance_BHTR = queries_BHTD @ self.key_RD.T
        return by_distance_BHTR.gather(-1, self._index(by_distance_BHTR, num_keys))

    def weighted_sum(self, weights_BHTS: Tensor) -> Tensor:
        """Return the sum of the value vectors of all distances, weighted by attention."""
        by_distance_BHTR = weights_BHTS.new_zeros(*weights_BHTS.shape[:-1], len(self.value_RD))
        index_BHTS = self._index(weights_BHTS, weights_BHTS.size(-1))
        return by_distance_BHTR.scatter_add(-1, index_BHTS, weights_BHTS) @ self.value_RD

    def _index(self, like_BHTx: Tensor, num_keys: int) -> Tensor:
        """Return the row of each query–key distance; the last query is at the last key."""
        num_queries = like_BHTx.size(2)
        key_S = torch.arange(num_keys, device=like_BHTx.device)
        query_T = torch.arange(num_keys - num_queries, num_keys, device=like_BHTx.device)
        distance_TS = (key_S - query_T[:, None]).clamp(-self.max_distance, self.max_distance)
        return (distance_TS + self.max_distance).expand(*like_BHTx.shape[:2], -1, -1)


class Embeddings(nn.Module):
    """Input of the encoder or decoder: √d_model · token + position (+ token type), then a norm."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: BasePositionalEncoding,
        dropout: Dropout,
        scale: bool,
        norm: nn.Module,
        types: TokenEmbedding | None = None,
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.types = types
        self.norm = norm
        self.dropout = dropout
        self.factor = math.sqrt(tokens.weight_VM.size(1)) if scale else 1.0

    def forward(self, ids_BT: Tensor, offset: int = 0, types_BT: Tensor | None = None) -> Tensor:
        """Return the embeddings of tokens, the first of which is at position `offset`.

        Raises `InputError` if the ids or the token types are invalid.
        """
        check_ids_shape_and_dtype(ids_BT)
        x_BTM = self.tokens(ids_BT) * self.factor
        if self.types is not None:
            x_BTM = x_BTM + self.types(_resolve_types(ids_BT, types_BT))
        elif types_BT is not None:
            raise InputError(
                "token types must be left out: this model has none (`embeddings.token_types` is 0)"
            )
        return self.dropout(self.norm(self.positions(x_BTM, offset)))


def _resolve_types(ids_BT: Tensor, types_BT: Tensor | None) -> Tensor:
    """Return the token types after a check of their shape; by default type 0 for all tokens."""
    if types_BT is None:
        return torch.zeros_like(ids_BT)
    check_ids_shape_and_dtype(types_BT)
    if types_BT.shape != ids_BT.shape:
        raise InputError(
            f"token types must have the shape of the ids, {_format_shape(ids_BT)}, "
            f"but have {_format_shape(types_BT)} instead"
        )
    return types_BT


class OutputProjection(nn.Module):
    """Linear layer from states to logits; its matrix is often shared with a token embedding."""

    def __init__(self, tokens: TokenEmbedding, bias: bool) -> None:
        super().__init__()
        self.tokens = tokens
        self.bias_V = nn.Parameter(torch.zeros(len(tokens.weight_VM))) if bias else None

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return the logits, [B, T, V]."""
        return F.linear(x_BTM, self.tokens.weight_VM, self.bias_V)

    def log_probabilities(self, x_BTM: Tensor) -> Tensor:
        """Return the log softmax of the logits, [B, T, V], in float32 or higher precision."""
        logits_BTV = self(x_BTM)
        precision = torch.promote_types(logits_BTV.dtype, torch.float32)
        if precision == logits_BTV.dtype and logits_BTV.is_inference():
            # In place: allocating a second tensor of this size costs more than the computation.
            return torch.log_softmax(logits_BTV, -1, out=logits_BTV)
        return logits_BTV.log_softmax(dim=-1, dtype=precision)


def check_ids_shape_and_dtype(ids_BT: Tensor) -> None:
    """Raise `InputError` if `ids_BT` is not a batch of ids.

    Whether the ids are in the vocabulary is checked by `TokenEmbedding`.
    """
    if not isinstance(ids_BT, Tensor):
        raise InputError(f"ids must be a tensor, but are {type(ids_BT).__name__} instead")
    if ids_BT.dim() != 2:
        raise InputError(f"ids must have two axes [batch, tokens], but have {ids_BT.dim()} instead")
    if ids_BT.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"ids must be int64 or int32, but are {ids_BT.dtype} instead")
    if ids_BT.numel() == 0:
        raise InputError(
            "a batch must have at least one sentence of one token, "
            f"but is {_format_shape(ids_BT)} instead"
        )


def _format_shape(x: Tensor) -> str:
    return " × ".join(map(str, x.shape))
