"""Several models as one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.search.decoders import Decoder, Prediction

# B rows, K beams, V vocabulary, S source tokens


class Ensemble:
    """Decoders of models that share a target vocabulary; they expect the mean of what each does.

    The mean is that of probabilities: one model that is sure can carry the others.
    """

    def __init__(self, decoders: Sequence[Decoder]) -> None:
        if not decoders:
            raise InputError("an ensemble must have at least one decoder, but has none")
        self.decoders = tuple(decoders)

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Ask each, and take the mean."""
        predictions = [decoder.step(tokens_BK) for decoder in self.decoders]
        sizes = {p.log_probs_BKV.size(2) for p in predictions}
        if len(sizes) > 1:
            raise InputError(
                f"an ensemble's models must share a vocabulary, but have {sorted(sizes)} pieces"
            )
        mean_BKV = mean_log_probability([p.log_probs_BKV for p in predictions])
        return Prediction(mean_BKV, _mean_attention(predictions))

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Let each follow."""
        for decoder in self.decoders:
            decoder.reorder(rows_B, parents_BK)


def mean_log_probability(log_probs: Sequence[Tensor]) -> Tensor:
    """Return the logarithm of the mean of probabilities."""
    if len(log_probs) == 1:
        return log_probs[0]
    return torch.stack([*log_probs]).logsumexp(0) - math.log(len(log_probs))


def _mean_attention(predictions: Sequence[Prediction]) -> Tensor | None:
    """Return it if all tell theirs: sources may be cut alike or not, which search cannot know."""
    told = [p.attention_BKS for p in predictions if p.attention_BKS is not None]
    if len(told) < len(predictions) or len({part.size(2) for part in told}) > 1:
        return None
    return torch.stack(told).mean(0)
