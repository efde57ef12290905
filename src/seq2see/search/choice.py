"""Which continuations a step looks at, and in which order it wants them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from seq2see.search.beam import Beam, Candidates

# B rows, K beams, C candidates, V vocabulary, N anything in a row


class Choice(Protocol):
    """A way to choose. It sees every continuation and names those that are wanted, best first."""

    def choose(self, beam: Beam, own_BKV: Tensor, values_BKV: Tensor) -> Candidates:
        """Return candidates: `own` is what the model thinks, `values` what the processors left."""


@dataclass(frozen=True, slots=True)
class BestChoice:
    """Beam search's own: those of highest value, over all beams of a row together."""

    width: int

    def choose(self, beam: Beam, own_BKV: Tensor, values_BKV: Tensor) -> Candidates:
        """Return twice as many as the beam is wide.

        Each beam ends in at most one of them, so that half is left to go on with. A beam of one
        is greedy: it takes the best, and when that is the stop symbol it is done.
        """
        count = 2 * self.width if self.width > 1 else 1
        # First within each beam: to rank all of them at once would need their sums, a tensor as
        # large as the model's output.
        steps_BKC, tokens_BKC = best(values_BKV, count)
        sums_BN = (beam.values_BK[:, :, None] + steps_BKC).flatten(1)
        if steps_BKC.size(1) == 1:  # one beam: in order already
            parents_BC, tokens_BC = torch.zeros_like(tokens_BKC[:, 0]), tokens_BKC[:, 0]
            return Candidates.of(beam, own_BKV, parents_BC, tokens_BC, sums_BN)
        values_BC, places_BC = best(sums_BN, count)
        parents_BC = places_BC // tokens_BKC.size(2)
        tokens_BC = tokens_BKC.flatten(1).gather(1, places_BC)
        return Candidates.of(beam, own_BKV, parents_BC, tokens_BC, values_BC)


def best(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the highest of the last axis, as many as there are up to `count`, and their places.

    The highest first, and of equals the one in front: `topk` promises no order among equals, and
    with it a translation could depend on the shape of its batch.
    """
    if count == 1:
        return _highest(values)
    if count >= values.size(-1):
        return values.sort(dim=-1, descending=True, stable=True)
    # One more than wanted, to see whether the last one has an equal outside.
    top, places = _top(values, count + 1)
    equal = (top[..., 1:] == top[..., :-1]) & (top[..., 1:] > -torch.inf)
    rows = equal.any(-1)
    if rows.any():  # note: this is a sync point
        order = values[rows].sort(dim=-1, descending=True, stable=True)
        top[rows], places[rows] = (each[..., : count + 1] for each in order)
    return top[..., :count], places[..., :count]


BLOCK = 64
"""A vocabulary is searched in blocks of so many: the highest of each block are found in a third of
the time that ranking takes, and all that matters is in the blocks where they are highest."""


def _highest(values: Tensor) -> tuple[Tensor, Tensor]:
    if values.size(-1) < 4 * BLOCK:
        return values.max(-1, keepdim=True)  # the first of equals
    places = _shortlist(values, _maxima(values).max(-1, keepdim=True).indices)
    top, among = values.gather(-1, places).max(-1, keepdim=True)
    return top, places.gather(-1, among)


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `topk` does, up to the order of equals."""
    if values.size(-1) < 4 * BLOCK * count:
        return values.topk(count)
    places = _shortlist(values, _maxima(values).topk(count).indices)
    top, among = values.gather(-1, places).topk(count)
    return top, places.gather(-1, among)


def _maxima(values: Tensor) -> Tensor:
    blocks = values.size(-1) // BLOCK
    parts: Tensor = values[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK))
    return parts.amax(-1)


def _shortlist(values: Tensor, blocks: Tensor) -> Tensor:
    """Return the places in these blocks, and those behind the last block."""
    size, device = values.size(-1), values.device
    inside = blocks[..., None] * BLOCK + torch.arange(BLOCK, device=device)
    behind = torch.arange(size // BLOCK * BLOCK, size, device=device)
    return torch.cat((inside.flatten(-2), behind.expand(*blocks.shape[:-1], -1)), dim=-1)
