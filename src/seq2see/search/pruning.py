"""Which candidates end, which go on, and when a row is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from seq2see.search.beam import Candidates
from seq2see.search.finished import Finished
from seq2see.search.scoring import attainable

# B rows, K beams, C candidates


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the candidates of one step."""

    ends_BC: Tensor
    """It is a finished hypothesis now: with the stop symbol, or cut at its greatest length."""
    places_BK: Tensor
    """Which candidates the next beams are."""
    values_BK: Tensor
    """Their values, −∞ where there was none to take."""


def judge(candidates: Candidates, width: int, eos: int, last_B: Tensor) -> Verdict:
    """Let the first `width` candidates end that can, and as many go on as there is room for.

    To count among the finished, a candidate must be as good as those that the beam would keep.
    """
    alive_BC = candidates.values_BC > -torch.inf
    stops_BC = (candidates.tokens_BC == eos) | last_B[:, None]
    ends_BC = alive_BC & stops_BC
    if candidates.values_BC.size(1) == 1:
        places_BK = torch.zeros_like(candidates.parents_BC)
        return Verdict(ends_BC, places_BK, candidates.values_BC.masked_fill(stops_BC, -torch.inf))
    ends_BC[:, width:] = False
    goes_on_BC = alive_BC & ~stops_BC
    # Those that go on to the front, in their order: no two keys are equal, so `topk` will do.
    count = goes_on_BC.size(1)
    keys_BC = goes_on_BC * count - torch.arange(count, device=goes_on_BC.device)
    places_BK = keys_BC.topk(min(width, count)).indices
    values_BK = candidates.values_BC.masked_fill(~goes_on_BC, -torch.inf).gather(1, places_BK)
    return Verdict(ends_BC, places_BK, values_BK)


@dataclass(frozen=True, slots=True)
class Standing:
    """How each row stands behind a step: what goes on, and what has ended so far."""

    values_BK: Tensor
    limits_B: Tensor
    finished: Finished
    rows_B: Tensor
    """Where the rows stand among the finished."""


class StopRule(Protocol):
    """Says when a row needs no further step."""

    def stops(self, standing: Standing) -> Tensor:
        """Return for each row whether it is done."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Stop when no live hypothesis could still enter the n best."""

    alpha: float

    def stops(self, standing: Standing) -> Tensor:
        """Compare what the living may reach with what the n-th best has; a tie changes nothing."""
        reachable_B = attainable(standing.values_BK, standing.limits_B, self.alpha)
        return reachable_B <= standing.finished.threshold_R[standing.rows_B]


@dataclass(frozen=True, slots=True)
class BeamFull:
    """Stop when as many have ended as the beam is wide: ctranslate2's rule."""

    width: int

    def stops(self, standing: Standing) -> Tensor:
        """Count the finished."""
        return standing.finished.counts_R[standing.rows_B] >= self.width


@dataclass(frozen=True, slots=True)
class BestEnded:
    """Stop when the likeliest candidate has ended and n are there: ctranslate2's, no penalties."""

    n_best: int

    def stops(self, standing: Standing) -> Tensor:
        """Count the finished, once the likeliest is among them."""
        ready_R = standing.finished.best_ended_R & (standing.finished.counts_R >= self.n_best)
        return ready_R[standing.rows_B]
