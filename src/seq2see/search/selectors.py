"""Selection of candidates: stable top-k, sampling, diverse beam search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Protocol

import torch
from torch import Tensor

from seq2see.search.config import SamplingConfig
from seq2see.search.hypotheses import Beam, Candidates, gather_parents

# B rows, K beams, C candidates, V vocabulary, N anything in a row
# B rows, K beams (one), V vocabulary, N tokens that are kept, S sources
# B rows, G rows of one group, K beams, C candidates, V vocabulary, S sources

BLOCK_SIZE = 64
"""A vocabulary is searched in blocks of so many: the highest of each block are found in a third of
the time that ranking takes, and all that matters is in the blocks where they are highest."""


class CandidateSelector(Protocol):
    """A way to choose. It sees every continuation and names those that are wanted, best first."""

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Return candidates: `own` is what the model thinks, `values` what the processors left."""


@dataclass(frozen=True, slots=True)
class TopKSelector:
    """Beam search's own: those of highest value, over all beams of a row together."""

    beam_size: int

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Return twice as many as the beam is wide.

        Each beam ends in at most one of them, so that half is left to go on with. A beam of one
        is greedy: it takes the best, and when that is the stop symbol it is done.
        """
        if self.beam_size == 1:
            steps_BKC, tokens_BKC = stable_topk(step_scores_BKV, 1)
            sums_BC, tokens_BC = beam.beam_scores_BK + steps_BKC[:, :, 0], tokens_BKC[:, :, 0]
            return Candidates.from_tokens(
                beam, model_log_probs_BKV, torch.zeros_like(tokens_BC), tokens_BC, sums_BC
            )
        sums_BC, places_BC = stable_topk_sums(
            beam.beam_scores_BK, step_scores_BKV, 2 * self.beam_size
        )
        size = step_scores_BKV.size(2)
        return Candidates.from_tokens(
            beam, model_log_probs_BKV, places_BC // size, places_BC % size, sums_BC
        )


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the highest of the last axis, as many as there are up to `count`, and their places.

    The highest first, and of equals the one in front: `topk` promises no order among equals, and
    with it a translation could depend on the shape of its batch.
    """
    if k == 1:
        return _highest(values)
    if k >= values.size(-1):
        return values.sort(dim=-1, descending=True, stable=True)
    # One more than wanted, to see whether the last one has an equal outside.
    return _settled(*_top(values, k + 1), lambda rows: values[rows])


def stable_topk_sums(starts_BK: Tensor, steps_BKV: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return what `best` does of the sums of each start and its steps, all in a row, [B, K·V].

    Few of them are made: all together would be a tensor as large as the model's output.
    """

    def sums(rows: Tensor | slice) -> Tensor:
        return (starts_BK[rows, :, None] + steps_BKV[rows]).flatten(1)

    _, beams, size = steps_BKV.shape
    if min(size, beams * size // k) < 4 * BLOCK_SIZE:
        return stable_topk(sums(slice(None)), k)
    highest_BN = (starts_BK[:, :, None] + _maxima(steps_BKV)).flatten(1)
    places_BN = _shortlist(highest_BN.topk(k + 1).indices, beams, size)
    steps_BN = steps_BKV.flatten(1).gather(1, places_BN)
    top, among = (starts_BK.gather(1, places_BN // size) + steps_BN).topk(k + 1)
    return _settled(top, places_BN.gather(1, among), sums)


def _settled(
    top: Tensor, places: Tensor, values: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return all but the last of the highest, with equals in the order of their places.

    `values` returns all that some rows have.
    """
    equal = (top[..., 1:] == top[..., :-1]) & (top[..., 1:] > -torch.inf)
    rows = equal.any(-1)
    if rows.any():  # note: this is a sync point
        order = values(rows).sort(dim=-1, descending=True, stable=True)
        top[rows], places[rows] = (each[..., : top.size(-1)] for each in order)
    return top[..., :-1], places[..., :-1]


def _highest(values: Tensor) -> tuple[Tensor, Tensor]:
    if values.size(-1) < 4 * BLOCK_SIZE:
        return values.max(-1, keepdim=True)  # the first of equals
    places = _shortlist(_maxima(values).max(-1, keepdim=True).indices, 1, values.size(-1))
    top, among = values.gather(-1, places).max(-1, keepdim=True)
    return top, places.gather(-1, among)


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `topk` does, up to the order of equals."""
    if values.size(-1) < 4 * BLOCK_SIZE * count:
        return values.topk(count)
    places = _shortlist(_maxima(values).topk(count).indices, 1, values.size(-1))
    top, among = values.gather(-1, places).topk(count)
    return top, places.gather(-1, among)


def _maxima(values: Tensor) -> Tensor:
    blocks = values.size(-1) // BLOCK_SIZE
    parts: Tensor = values[..., : blocks * BLOCK_SIZE].unflatten(-1, (blocks, BLOCK_SIZE))
    return parts.amax(-1)


def _shortlist(blocks: Tensor, beams: int, size: int) -> Tensor:
    """Return the places in these blocks, and those of each beam behind its last block.

    Blocks and places are counted through all beams, each with a vocabulary of that size.
    """
    whole, device = size // BLOCK_SIZE, blocks.device
    first = blocks // whole * size + blocks % whole * BLOCK_SIZE
    inside = first[..., None] + torch.arange(BLOCK_SIZE, device=device)
    starts_K1 = torch.arange(0, beams * size, size, device=device)[:, None]
    behind = (starts_K1 + torch.arange(whole * BLOCK_SIZE, size, device=device)).flatten()
    return torch.cat((inside.flatten(-2), behind.expand(*blocks.shape[:-1], -1)), dim=-1)


@dataclass(frozen=True, slots=True)
class SamplingSelector:
    """One draw a row. Each sample of a sentence is a row of its own."""

    config: SamplingConfig
    line_numbers: tuple[int, ...]
    """The line of each source."""

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Return the token that the row's number of this step falls on."""
        values_BV = step_scores_BKV[:, 0]
        weights_BN, tokens_BN = filter_top_k_top_p(values_BV / self.config.temperature, self.config)
        places_B1 = sample_indices(weights_BN, self.draw_uniform(beam))
        tokens_B1 = places_B1 if tokens_BN is None else tokens_BN.gather(1, places_B1)
        sums_B1 = beam.beam_scores_BK + values_BV.gather(1, tokens_B1)
        return Candidates.from_tokens(
            beam, model_log_probs_BKV, torch.zeros_like(tokens_B1), tokens_B1, sums_B1
        )

    def draw_uniform(self, beam: Beam) -> Tensor:
        """Return a number from [0, 1) for each row, [B, 1], made from its name and the step."""
        names = zip(beam.input_index_B.tolist(), beam.search_index_B.tolist(), strict=True)
        numbers = [
            keyed_uniform(self.config.seed, self.line_numbers[source], sample, beam.length)
            for source, sample in names
        ]
        return torch.tensor(
            numbers, dtype=_exact(beam.beam_scores_BK), device=beam.beam_scores_BK.device
        )[:, None]


def keyed_uniform(*name: int) -> float:
    """Return the number from [0, 1) that belongs to this name. No generator, so no state."""
    digest = blake2b(" ".join(map(str, name)).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


def filter_top_k_top_p(weights_BV: Tensor, config: SamplingConfig) -> tuple[Tensor, Tensor | None]:
    """Return the log-weights to draw from, and their tokens, None where all are kept in place."""
    if config.top_k is None and config.top_p == 1:
        return weights_BV, None
    weights_BN, tokens_BN = stable_topk(weights_BV, config.top_k or weights_BV.size(1))
    probs_BN = weights_BN.softmax(1)
    before_BN = probs_BN.cumsum(1) - probs_BN
    surplus_BN = before_BN >= config.top_p
    surplus_BN[:, 0] = False  # the likeliest stays, however it was rounded
    return weights_BN.masked_fill(surplus_BN, -torch.inf), tokens_BN


def sample_indices(weights_BN: Tensor, uniform_B1: Tensor) -> Tensor:
    """Return the place where each row's number falls among its weights, [B, 1]."""
    shares_BN = weights_BN.to(uniform_B1.dtype).softmax(1).nan_to_num(0)  # a row without any
    sums_BN = shares_BN.cumsum(1)
    places_B1 = torch.searchsorted(sums_BN, uniform_B1 * sums_BN[:, -1:], right=True)
    return places_B1.clamp(max=weights_BN.size(1) - 1)


def _exact(values: Tensor) -> torch.dtype:
    """Return the dtype to add probabilities in: single precision would lose the rare ones."""
    return torch.float32 if values.device.type == "mps" else torch.float64


@dataclass(frozen=True, slots=True)
class DiverseBeamSelector:
    """One group after the other. Each is a row of its own, and a beam search of its own."""

    beams_per_group: int
    num_groups: int
    diversity_penalty: float
    num_inputs: int

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Let each group choose, with what earlier groups of the sentence chose made dearer."""
        chosen_SV = step_scores_BKV.new_zeros(self.num_inputs, step_scores_BKV.size(2))
        rows, parts = [], []
        for group in range(self.num_groups):
            rows_G = (beam.search_index_B == group).nonzero().flatten()
            part = self.select_group(
                beam.select_rows(rows_G),
                model_log_probs_BKV[rows_G],
                step_scores_BKV[rows_G],
                chosen_SV,
            )
            count_selected_tokens(chosen_SV, beam.input_index_B[rows_G], part, self.beams_per_group)
            rows.append(rows_G)
            parts.append(part)
        return merge_groups(parts, torch.cat(rows))

    def select_group(
        self, beam: Beam, own_GKV: Tensor, values_GKV: Tensor, chosen_SV: Tensor
    ) -> Candidates:
        """Choose for one group. What diversity costs decides the order, and is then forgotten."""
        dearer_GKV = values_GKV - self.diversity_penalty * chosen_SV[beam.input_index_B][:, None]
        part = TopKSelector(self.beams_per_group).select(beam, own_GKV, dearer_GKV)
        rows_G1 = torch.arange(len(beam), device=own_GKV.device)[:, None]
        steps_GC = values_GKV[rows_G1, part.parents_BC, part.tokens_BC]
        sums_GC = gather_parents(beam.beam_scores_BK, part.parents_BC) + steps_GC
        return Candidates(
            part.parents_BC, part.tokens_BC, part.model_log_probs_BC, part.log_probs_BC, sums_GC
        )


def count_selected_tokens(
    chosen_SV: Tensor, sources_G: Tensor, part: Candidates, beams_per_group: int
) -> None:
    """Add what a group's best candidates chose to its sentence's counts."""
    alive_GC = part.beam_scores_BC[:, :beams_per_group] > -torch.inf
    tokens_GC = part.tokens_BC[:, :beams_per_group]
    sources_GC = sources_G[:, None].expand_as(tokens_GC)
    chosen_SV.index_put_((sources_GC, tokens_GC), alive_GC.to(chosen_SV.dtype), accumulate=True)


def merge_groups(parts: Sequence[Candidates], rows: Tensor) -> Candidates:
    """Put the candidates of all groups where their rows stand in the beam."""
    order = rows.argsort()
    names = [field.name for field in fields(Candidates)]
    return Candidates(*(torch.cat([getattr(p, name) for p in parts])[order] for name in names))
