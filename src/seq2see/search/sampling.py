"""Draw tokens instead of taking the best, so that a line's draws depend on nothing but itself."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from seq2see.search.beam import Beam, Candidates
from seq2see.search.choice import best
from seq2see.search.config import SamplingConfig

# B rows, K beams (one), V vocabulary, N tokens that are kept, S sources


@dataclass(frozen=True, slots=True)
class SampleChoice:
    """One draw a row. Each sample of a sentence is a row of its own."""

    config: SamplingConfig
    lines: tuple[int, ...]
    """The line of each source."""

    def choose(self, beam: Beam, own_BKV: Tensor, values_BKV: Tensor) -> Candidates:
        """Return the token that the row's number of this step falls on."""
        values_BV = values_BKV[:, 0]
        weights_BN, tokens_BN = likeliest(values_BV / self.config.temperature, self.config)
        places_B1 = drawn(weights_BN, self.uniform(beam))
        tokens_B1 = places_B1 if tokens_BN is None else tokens_BN.gather(1, places_B1)
        sums_B1 = beam.values_BK + values_BV.gather(1, tokens_B1)
        return Candidates.of(beam, own_BKV, torch.zeros_like(tokens_B1), tokens_B1, sums_B1)

    def uniform(self, beam: Beam) -> Tensor:
        """Return a number from [0, 1) for each row, [B, 1], made from its name and the step."""
        names = zip(beam.sources_B.tolist(), beam.members_B.tolist(), strict=True)
        numbers = [
            uniform(self.config.seed, self.lines[source], sample, beam.length)
            for source, sample in names
        ]
        return torch.tensor(numbers, dtype=_exact(beam.values_BK), device=beam.values_BK.device)[
            :, None
        ]


def uniform(*name: int) -> float:
    """Return the number from [0, 1) that belongs to this name. No generator, so no state."""
    digest = blake2b(" ".join(map(str, name)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def likeliest(weights_BV: Tensor, config: SamplingConfig) -> tuple[Tensor, Tensor | None]:
    """Return the log-weights to draw from, and their tokens, None where all are kept in place."""
    if config.top_k is None and config.top_p == 1:
        return weights_BV, None
    weights_BN, tokens_BN = best(weights_BV, config.top_k or weights_BV.size(1))
    probs_BN = weights_BN.softmax(1)
    before_BN = probs_BN.cumsum(1) - probs_BN
    surplus_BN = before_BN >= config.top_p
    surplus_BN[:, 0] = False  # the likeliest stays, however it was rounded
    return weights_BN.masked_fill(surplus_BN, -torch.inf), tokens_BN


def drawn(weights_BN: Tensor, uniform_B1: Tensor) -> Tensor:
    """Return the place where each row's number falls among its weights, [B, 1]."""
    shares_BN = weights_BN.to(uniform_B1.dtype).softmax(1).nan_to_num(0)  # a row without any
    sums_BN = shares_BN.cumsum(1)
    places_B1 = torch.searchsorted(sums_BN, uniform_B1 * sums_BN[:, -1:], right=True)
    return places_B1.clamp(max=weights_BN.size(1) - 1)


def _exact(values: Tensor) -> torch.dtype:
    """Return the dtype to add probabilities in: single precision would lose the rare ones."""
    return torch.float32 if values.device.type == "mps" else torch.float64
