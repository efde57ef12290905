"""The interface between a search and a model, and an ensemble of models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# B rows (one per search: a sentence, or one of its samples or beam groups), K beams, V vocabulary,
# S source tokens


@dataclass(frozen=True, slots=True)
class StepOutput:
    """The output of a model for one decoding step."""

    log_probs_BKV: Tensor
    """Normalized log-probabilities of the next token. The search may overwrite them."""
    attention_BKS: Tensor | None = None
    """Attention weights of this step for each source token, 0 at padding; for alignment and
    coverage. S is the same in all steps, also after sentences were removed."""


class IncrementalDecoder(Protocol):
    """A model that decodes a batch of encoded sources step by step.

    It starts with one row per source and one beam per row. The search changes both numbers by
    `reorder`.
    """

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Process the last token of each hypothesis (first the start symbol)."""

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Keep these rows; beam k of a row continues its old beam parents[k].

        The order of the rows does not change, so as many rows as before are all of them. A row is
        repeated only before the first step. The number of beams may change.
        """


@dataclass(frozen=True, slots=True)
class EnsembleDecoder:
    """Combines models that share a target vocabulary by averaging their probabilities.

    Because probabilities are averaged, not their logarithms, one confident model can outweigh the
    others.
    """

    decoders: Sequence[IncrementalDecoder]

    def step(self, tokens_BK: Tensor) -> StepOutput:
        """Run all decoders and return the mean of their outputs."""
        outputs = [decoder.step(tokens_BK) for decoder in self.decoders]
        mean_BKV = log_mean_probability([output.log_probs_BKV for output in outputs])
        weights = [each.attention_BKS for each in outputs if each.attention_BKS is not None]
        is_complete = len(weights) == len(outputs)
        return StepOutput(mean_BKV, torch.stack(weights).mean(0) if is_complete else None)

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Reorder all decoders."""
        for decoder in self.decoders:
            decoder.reorder(rows_B, parents_BK)


def log_mean_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of the probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))
