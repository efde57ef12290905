"""Which continuations a step looks at, and in which order it wants them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from seq2see.search.beam import Beam, Candidates

# B rows, K beams, C candidates, V vocabulary, N anything in a row


BLOCK = 64
"""A vocabulary is searched in blocks of so many: the highest of each block are found in a third of
the time that ranking takes, and all that matters is in the blocks where they are highest."""


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
        if self.width == 1:
            steps_BKC, tokens_BKC = best(values_BKV, 1)
            sums_BC, tokens_BC = beam.values_BK + steps_BKC[:, :, 0], tokens_BKC[:, :, 0]
            return Candidates.of(beam, own_BKV, torch.zeros_like(tokens_BC), tokens_BC, sums_BC)
        sums_BC, places_BC = best_sums(beam.values_BK, values_BKV, 2 * self.width)
        size = values_BKV.size(2)
        return Candidates.of(beam, own_BKV, places_BC // size, places_BC % size, sums_BC)


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
    return _settled(*_top(values, count + 1), lambda rows: values[rows])


def best_sums(starts_BK: Tensor, steps_BKV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `best` does of the sums of each start and its steps, all in a row, [B, K·V].

    Few of them are made: all together would be a tensor as large as the model's output.
    """

    def sums(rows: Tensor | slice) -> Tensor:
        return (starts_BK[rows, :, None] + steps_BKV[rows]).flatten(1)

    _, beams, size = steps_BKV.shape
    if min(size, beams * size // count) < 4 * BLOCK:
        return best(sums(slice(None)), count)
    highest_BN = (starts_BK[:, :, None] + _maxima(steps_BKV)).flatten(1)
    places_BN = _shortlist(highest_BN.topk(count + 1).indices, beams, size)
    steps_BN = steps_BKV.flatten(1).gather(1, places_BN)
    top, among = (starts_BK.gather(1, places_BN // size) + steps_BN).topk(count + 1)
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
    if values.size(-1) < 4 * BLOCK:
        return values.max(-1, keepdim=True)  # the first of equals
    places = _shortlist(_maxima(values).max(-1, keepdim=True).indices, 1, values.size(-1))
    top, among = values.gather(-1, places).max(-1, keepdim=True)
    return top, places.gather(-1, among)


def _top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return what `topk` does, up to the order of equals."""
    if values.size(-1) < 4 * BLOCK * count:
        return values.topk(count)
    places = _shortlist(_maxima(values).topk(count).indices, 1, values.size(-1))
    top, among = values.gather(-1, places).topk(count)
    return top, places.gather(-1, among)


def _maxima(values: Tensor) -> Tensor:
    blocks = values.size(-1) // BLOCK
    parts: Tensor = values[..., : blocks * BLOCK].unflatten(-1, (blocks, BLOCK))
    return parts.amax(-1)


def _shortlist(blocks: Tensor, beams: int, size: int) -> Tensor:
    """Return the places in these blocks, and those of each beam behind its last block.

    Blocks and places are counted through all beams, each with a vocabulary of that size.
    """
    whole, device = size // BLOCK, blocks.device
    first = blocks // whole * size + blocks % whole * BLOCK
    inside = first[..., None] + torch.arange(BLOCK, device=device)
    starts_K1 = torch.arange(0, beams * size, size, device=device)[:, None]
    behind = (starts_K1 + torch.arange(whole * BLOCK, size, device=device)).flatten()
    return torch.cat((inside.flatten(-2), behind.expand(*blocks.shape[:-1], -1)), dim=-1)
