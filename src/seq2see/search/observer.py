"""How a search is seen through: whoever observes hears every hypothesis, and the search keeps none.

The whole tree can be drawn from it: candidate `c` of a step goes on from beam `parents[c]`, which
was the candidate of the step before whose `beams` says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from torch import Tensor

from seq2see.search.hypotheses import Beam, Candidates

# B rows, K beams, C candidates


class CandidateStatus(IntEnum):
    """What became of a candidate. Each has exactly one."""

    NONE = 0
    """It never was one: its place was left over, or its row is done already."""
    ALIVE = 1
    """It went on to the next step."""
    FINISHED = 2
    """It ended, and is a hypothesis."""
    PRUNED = 3
    """Others were better."""
    STOPPED = 4
    """It was alive when the rule said that its row is done."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of all rows, candidates in the order in which they were wanted: rank 0 first."""

    beam: Beam
    """The hypotheses before the step."""
    candidates: Candidates
    scores_BC: Tensor
    """What each would be worth, had it ended here."""
    statuses_BC: Tensor
    """A `Fate` for each candidate."""
    next_beam_BC: Tensor
    """The beam that a living candidate is in the next step, otherwise −1."""
    remaining_rows_B: Tensor | None
    """The rows that are left in the next step; None: all."""


class SearchObserver(Protocol):
    """Hears each step."""

    def step(self, record: StepRecord) -> None:
        """Take a step's record. Its tensors are the search's own: read only."""
