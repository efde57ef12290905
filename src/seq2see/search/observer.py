"""Observation of a search: an observer receives a record of each step, which the search discards.

The records contain the complete search tree: candidate `c` of a step extends beam `parents[c]`,
which is the candidate of the previous step with that number in `next_beam_BC`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from torch import Tensor

from seq2see.search.hypotheses import Beam, Candidates

# B rows, C candidates


class CandidateStatus(IntEnum):
    """What happened to a candidate in a step."""

    NONE = 0
    """Not a candidate: the slot is unused, or the row has stopped."""
    ALIVE = 1
    """It is a hypothesis of the next step."""
    FINISHED = 2
    """It is a finished hypothesis."""
    PRUNED = 3
    """Other candidates were better."""
    STOPPED = 4
    """It was alive when the search of its row stopped."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of all rows, with the candidates in order of preference."""

    beam: Beam
    """The hypotheses before the step."""
    log_probs_BKV: Tensor
    """Log-probabilities of the model for the next token of each hypothesis."""
    candidates: Candidates
    scores_BC: Tensor
    """The score of each candidate if it ended in this step."""
    statuses_BC: Tensor
    """A `CandidateStatus` for each candidate."""
    next_beam_BC: Tensor
    """The beam index of each live candidate in the next step, otherwise −1."""
    remaining_rows_B: Tensor | None
    """The rows of the next step; None: all."""


class SearchObserver(Protocol):
    """Receives a record of each step."""

    def step(self, record: StepRecord) -> None:
        """Process the record of a step. Its tensors belong to the search: do not change them."""
