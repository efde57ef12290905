"""Positional encodings: absolute ones are added to embeddings, relative ones belong to attention.

A kind of `positions.kind` is a class in `POSITIONAL_ENCODINGS`. The classes state which settings
they use; configs, `ModelBuilder`, the conversion to CTranslate2 and explanations read them there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from seq2see.errors import InputError, Problem

if TYPE_CHECKING:
    from seq2see.model.config import ModelConfig

# B batch, H heads, T tokens or queries, S keys, M features of the model, D features of a head,
# F frequencies, R distances, N positions

SinusoidLayout = Literal["interleaved", "halves"]
SinusoidFrequencies = Literal["paper", "tensor2tensor"]


class PositionalEncoding(nn.Module):
    """Base class of all positional encodings."""

    kind: ClassVar[str] = "none"
    """Value of `positions.kind`."""
    settings: ClassVar[tuple[str, ...]] = ()
    """Fields of `PositionsConfig` that this kind uses. `max_length` is the number of positions."""

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:  # noqa: ARG003
        """Create the encoding of a stack, or of one attention module if it is relative."""
        return cls()

    @classmethod
    def conflicts(cls, config: ModelConfig) -> Iterator[Problem]:  # noqa: ARG003
        """Yield a problem for each setting of the model that this kind does not support."""
        yield from ()


class AbsolutePositions(PositionalEncoding):
    """Adds a vector for its position to each token. This base class adds nothing."""

    @property
    def max_positions(self) -> int | None:
        """The number of positions; None if it is unlimited."""
        return None

    def forward(self, x_BTM: Tensor, offset: int = 0) -> Tensor:  # noqa: ARG002
        """Return `x` with positions added; its first token is at position `offset`."""
        return x_BTM


class SinusoidalPositions(AbsolutePositions):
    """Adds sines and cosines with geometrically growing wavelengths; defined for any position."""

    kind = "sinusoid"
    settings = ("layout", "frequencies")

    def __init__(self, layout: SinusoidLayout, frequencies: SinusoidFrequencies) -> None:
        super().__init__()
        self.layout = layout
        self.frequencies = frequencies

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Create the encoding of a stack."""
        return cls(config.positions.layout, config.positions.frequencies)

    @classmethod
    def conflicts(cls, config: ModelConfig) -> Iterator[Problem]:
        """Yield a problem if sines and cosines cannot have equal numbers."""
        if config.d_model % 2:
            yield Problem(
                "d_model", f"must be even for sinusoid positions, but is {config.d_model} instead"
            )

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
        positions = torch.arange(size)  # on the CPU: MPS has no float64
        return compute_sinusoids(positions, d_model, layout, frequencies).to(dtype).to(device)


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


class LearnedPositions(AbsolutePositions):
    """Adds a learned vector for each position below `max_length`."""

    kind = "learned"
    settings = ("max_length",)

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.weight_NM = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Create the encoding of a stack."""
        return cls(config.d_model, config.positions.max_length)

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


class RelativePositions(PositionalEncoding):
    """Part of a self-attention module that depends on distances. This base class adds nothing."""

    def compute_scores(self, queries_BHTD: Tensor, num_keys: int) -> Tensor:  # noqa: ARG002
        """Return what is added to the scores; it broadcasts to [B, H, T, S].

        The queries are scaled. The last query is at the last key.
        """
        return queries_BHTD.new_zeros(())

    def weighted_sum(self, weights_BHTS: Tensor) -> Tensor:
        """Return what is added to the attention output; it broadcasts to [B, H, T, D]."""
        return weights_BHTS.new_zeros(())


class RelativePositionEmbeddings(RelativePositions):
    """A key and a value vector per distance, clipped at ±`max_distance` (Shaw et al., 2018).

    The heads of a layer share them. The products are computed for 2·max_distance + 1 distances and
    then gathered, which avoids a tensor with the features of all query–key pairs.
    """

    kind = "relative"
    settings = ("max_distance",)

    def __init__(self, d_head: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        shape = (2 * max_distance + 1, d_head)
        self.key_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))
        self.value_RD = nn.Parameter(nn.init.xavier_uniform_(torch.empty(shape)))

    @classmethod
    def from_config(cls, config: ModelConfig) -> Self:
        """Create the embeddings of one attention module."""
        return cls(config.d_model // config.heads, config.positions.max_distance)

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
        key_S = torch.arange(num_keys, device=like_BHTx.device)
        distance_TS = key_S - key_S[num_keys - like_BHTx.size(2) :, None]
        index_TS = distance_TS.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return index_TS.expand(*like_BHTx.shape[:2], -1, -1)


POSITIONAL_ENCODINGS: Mapping[str, type[AbsolutePositions] | type[RelativePositions]] = {
    encoding.kind: encoding
    for encoding in (
        SinusoidalPositions,
        LearnedPositions,
        RelativePositionEmbeddings,
        AbsolutePositions,
    )
}
"""The kinds of positional encodings."""
