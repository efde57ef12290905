"""The interface between a search and a model, and an ensemble of models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from seq2see.errors import InputError

# B rows (a sentence each, or one of its samples or groups), K beams, V vocabulary, S source tokens
# B rows, K beams, V vocabulary, S source tokens


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What a model expects next."""

    log_probs_BKV: Tensor
    """Normalised. Belongs to the search from now on, which writes −∞ where nothing may follow."""
    attention_BKS: Tensor | None = None
    """How much this step looked at each source token, 0 on padding; for alignment and coverage.
    S is that of the first step throughout, whichever sentences are left."""


class IncrementalDecoder(Protocol):
    """A model that has read its sources and stands before the first target token.

    It begins with a row for each source and one beam a row. The search decides how many of both
    there are later, and says so with `reorder`.
    """

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Take the last token of each hypothesis (at first the start symbol) and look ahead."""

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these of the present rows; there, beam k goes on from the old beam parents[k].

        Rows stay in order: as many as before means all of them. Only before the first step is one
        taken more than once. The number of beams may change.
        """


class EnsembleDecoder:
    """Decoders of models that share a target vocabulary; they expect the mean of what each does.

    The mean is that of probabilities: one model that is sure can carry the others.
    """

    def __init__(self, decoders: Sequence[IncrementalDecoder]) -> None:
        if not decoders:
            raise InputError("an ensemble must have at least one decoder, but has none")
        self.decoders = tuple(decoders)

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Ask each, and take the mean."""
        predictions = [decoder.step(tokens_BK) for decoder in self.decoders]
        sizes = {p.log_probs_BKV.size(2) for p in predictions}
        if len(sizes) > 1:
            raise InputError(
                f"an ensemble's models must share a vocabulary, but have {sorted(sizes)} pieces"
            )
        mean_BKV = log_mean_probability([p.log_probs_BKV for p in predictions])
        return StepOutput(mean_BKV, _mean_attention(predictions))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Let each follow."""
        for decoder in self.decoders:
            decoder.reorder(rows_B, parents_BK)


def log_mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))


def _mean_attention(predictions: Sequence[StepOutput]) -> Tensor | None:
    """Return it if all tell theirs: sources may be cut alike or not, which search cannot know."""
    told = [p.attention_BKS for p in predictions if p.attention_BKS is not None]
    if len(told) < len(predictions) or len({part.size(2) for part in told}) > 1:
        return None
    return torch.stack(told).mean(0)
