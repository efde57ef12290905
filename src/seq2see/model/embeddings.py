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
from seq2see.model.modules import Dropout

# B batch, T tokens, M features of the model, V vocabulary
# B batch, T tokens or queries, S keys, M features of the model, D features of a head, R distances


class TokenEmbedding(nn.Module):
    """A vector for each id, from N(0, 1/d_model): times √d_model it has variance 1.

    No id is special here. In some models the start symbol is the padding id, so the padding needs a
    vector like every other.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight_VM = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def forward(self, ids_BT: Tensor) -> Tensor:
        """Return the vector of each id."""
        try:
            return F.embedding(ids_BT, self.weight_VM)
        except IndexError:  # on a CPU; other devices do not tell which id it was
            last = len(self.weight_VM) - 1
            wrong = ids_BT[(ids_BT < 0) | (ids_BT > last)][0].item()
            raise InputError(
                f"an id must be from 0 to {last}, the table's last, but is {wrong} instead"
            ) from None


SinusoidLayout = Literal["interleaved", "halves"]


SinusoidFrequencies = Literal["paper", "tensor2tensor"]


class PositionalEncoding(nn.Module):
    """Adds to each token what tells its position; this one adds nothing."""

    @property
    def max_positions(self) -> int | None:
        """How many positions there are; None: any number."""
        return None

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:  # noqa: ARG002
        """Return `x`, whose first token stands at position `offset`."""
        return x_BTM


class SinusoidalPositions(PositionalEncoding):
    """Waves of geometrically growing length; any position has its vector, trained or not."""

    def __init__(self, layout: SinusoidLayout, frequencies: SinusoidFrequencies) -> None:
        super().__init__()
        self.layout = layout
        self.frequencies = frequencies

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Add the waves to `x`, whose first token stands at position `offset`."""
        end = offset + x_BTM.size(1)
        size = max(512, 1 << (end - 1).bit_length())
        waves = _table(
            size, x_BTM.size(2), self.layout, self.frequencies, x_BTM.dtype, x_BTM.device
        )
        return x_BTM + waves[offset:end]

    def extra_repr(self) -> str:
        """Show the variant."""
        return f"layout={self.layout}, frequencies={self.frequencies}"


@lru_cache(maxsize=16)
def _table(
    size: int,
    d_model: int,
    layout: SinusoidLayout,
    frequencies: SinusoidFrequencies,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return the first positions, kept since they are asked for at each step.

    Not a buffer of the module: that would be rounded by each change of dtype and lost on the meta
    device, while this is a function of its arguments.
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

    The two choices are independent: the paper interleaves, and its frequencies are 10000^(−2i/d);
    Tensor2Tensor puts the sines first, and its frequencies end at 1/10000 exactly.
    """
    pairs = d_model // 2
    last = pairs if frequencies == "paper" else max(pairs - 1, 1)
    steps_F = torch.arange(pairs, dtype=torch.float64, device=positions_T.device) / last
    angles_TF = positions_T.double()[:, None] * torch.exp(-math.log(10000.0) * steps_F)
    waves = (angles_TF.sin(), angles_TF.cos())
    if layout == "halves":
        return torch.cat(waves, dim=1)
    return torch.stack(waves, dim=2).flatten(1)


class LearnedPositions(PositionalEncoding):
    """A vector for each position up to `max_length`, learned."""

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight_NM = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    @property
    def max_positions(self) -> int:
        """As many as were learned."""
        return len(self.weight_NM)

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:
        """Add the vectors to `x`, whose first token stands at position `offset`."""
        end, known = offset + x_BTM.size(1), len(self.weight_NM)
        if end > known:
            raise InputError(
                f"a sentence must have at most {known} tokens with learned positions "
                f"(`positions.max_length`), but has {end} instead"
            )
        return x_BTM + self.weight_NM[offset:end]


class RelativePositionEmbeddings(nn.Module):
    """A key and a value vector for each distance, clipped at ±`max_distance` (Shaw et al., 2018).

    Shared by the heads of a layer. Distances are gathered from 2·max_distance + 1 products, so that
    no tensor of all query–key pairs with features exists.
    """

    def __init__(self, d_head: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        shape = (2 * max_distance + 1, d_head)
        self.key_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.value_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))

    def compute_scores(self, queries_BHTD: Tensor, num_keys: int) -> Tensor:
        """Return q·a for the distance of each query to each of so many keys."""
        by_distance_BHTR = queries_BHTD @ self.key_RD.T
        return by_distance_BHTR.gather(-1, self._index(by_distance_BHTR, num_keys))

    def weighted_sum(self, weights_BHTS: Tensor) -> Tensor:
        """Return the sum over keys of weight × the value vector of their distance."""
        by_distance_BHTR = weights_BHTS.new_zeros(*weights_BHTS.shape[:-1], len(self.value_RD))
        index_BHTS = self._index(weights_BHTS, weights_BHTS.size(-1))
        return by_distance_BHTR.scatter_add(-1, index_BHTS, weights_BHTS) @ self.value_RD

    def _index(self, like_BHTx: Tensor, keys: int) -> Tensor:
        """Return the row of each query–key distance; the last query stands at the last key."""
        queries = like_BHTx.size(2)
        key_S = torch.arange(keys, device=like_BHTx.device)
        query_T = torch.arange(keys - queries, keys, device=like_BHTx.device)
        distance_TS = (key_S - query_T[:, None]).clamp(-self.max_distance, self.max_distance)
        return (distance_TS + self.max_distance).expand(*like_BHTx.shape[:2], -1, -1)


class Embeddings(nn.Module):
    """The input of a stack: √d_model · token + position (+ token type), normalised if asked for."""

    def __init__(
        self,
        tokens: TokenEmbedding,
        positions: PositionalEncoding,
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
        """Embed tokens, the first of which stands at position `offset`."""
        check_ids(ids_BT)
        x_BTM = self.tokens(ids_BT) * self.factor
        if self.types is not None:
            x_BTM = x_BTM + self.types(_types_of(ids_BT, types_BT))
        elif types_BT is not None:
            raise InputError(
                "token types must be left out: this model has none (`embeddings.token_types` is 0)"
            )
        return self.dropout(self.norm(self.positions(x_BTM, offset)))


def _types_of(ids_BT: Tensor, types_BT: Tensor | None) -> Tensor:
    """Return the given types, if they fit the ids, or type 0 for all."""
    if types_BT is None:
        return torch.zeros_like(ids_BT)
    check_ids(types_BT)
    if types_BT.shape != ids_BT.shape:
        raise InputError(
            f"token types must have the shape of the ids, {_shape(ids_BT)}, "
            f"but have {_shape(types_BT)} instead"
        )
    return types_BT


class OutputProjection(nn.Module):
    """A score for each piece of the vocabulary: a linear layer, its matrix often a token table."""

    def __init__(self, tokens: TokenEmbedding, bias: bool) -> None:
        super().__init__()
        self.tokens = tokens
        self.bias_V = nn.Parameter(torch.zeros(len(tokens.weight_VM))) if bias else None

    def forward(self, x_BTM: Tensor) -> Tensor:
        """Return the logits, [B, T, V]."""
        return F.linear(x_BTM, self.tokens.weight_VM, self.bias_V)

    def log_probabilities(self, x_BTM: Tensor) -> Tensor:
        """Return log softmax of the logits, in float32 at least, finite at any magnitude."""
        logits_BTV = self(x_BTM)
        precision = torch.promote_types(logits_BTV.dtype, torch.float32)
        if precision == logits_BTV.dtype and logits_BTV.is_inference():
            # In their own place: a second tensor of that size costs more than the sum itself.
            return torch.log_softmax(logits_BTV, -1, out=logits_BTV)
        return logits_BTV.log_softmax(dim=-1, dtype=precision)


def check_ids(ids_BT: Tensor) -> None:
    """Refuse what is not a batch of ids. Whether each is in the vocabulary, the look-up tells."""
    if not isinstance(ids_BT, Tensor):
        raise InputError(f"ids must be a tensor, but are {type(ids_BT).__name__} instead")
    if ids_BT.dim() != 2:
        raise InputError(f"ids must have two axes [batch, tokens], but have {ids_BT.dim()} instead")
    if ids_BT.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"ids must be int64 or int32, but are {ids_BT.dtype} instead")
    if ids_BT.numel() == 0:
        raise InputError(
            f"a batch must have at least one sentence of one token, but is {_shape(ids_BT)} instead"
        )


def _shape(x: Tensor) -> str:
    return " × ".join(map(str, x.shape))
