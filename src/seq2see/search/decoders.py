"""What a search asks of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

# B rows (a sentence each, or one of its samples or groups), K beams, V vocabulary, S source tokens


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model expects next."""

    log_probs_BKV: Tensor
    """Normalised. Belongs to the search from now on, which writes −∞ where nothing may follow."""
    attention_BKS: Tensor | None = None
    """How much this step looked at each source token, 0 on padding; for alignment and coverage.
    S is that of the first step throughout, whichever sentences are left."""


class Decoder(Protocol):
    """A model that has read its sources and stands before the first target token.

    It begins with a row for each source and one beam a row. The search decides how many of both
    there are later, and says so with `reorder`.
    """

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Take the last token of each hypothesis (at first the start symbol) and look ahead."""

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these of the present rows; there, beam k goes on from the old beam parents[k].

        Rows stay in order: as many as before means all of them. Only before the first step is one
        taken more than once. The number of beams may change.
        """
