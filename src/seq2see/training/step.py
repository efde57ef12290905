"""One update: batches in, gradients summed over batches and workers, a step out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from seq2see.data.batches import Batch
from seq2see.errors import TrainingError
from seq2see.loss import LossSum
from seq2see.training.optimiser import scale_gradients
from seq2see.training.schedule import Schedule
from seq2see.training.workers import Workers


@dataclass(frozen=True, slots=True)
class StepReport:
    """What an update did."""

    loss: float
    """The mean over all tokens of all workers, smoothing and extra terms included."""
    nll: float
    """The mean of −log p of the right token."""
    tokens: int
    """Target tokens of all workers."""
    source_tokens: int
    gradient_norm: float
    """Before clipping."""
    rate: float
    seconds: float = 0.0
    """Time that it took with its batches, but without those who hear of it."""


class Stepper:
    """Updates a model. All that is random follows from seed, update, batch and worker."""

    def __init__(
        self,
        objective: nn.Module,
        optimiser: Optimizer,
        schedule: Schedule,
        clip: float,
        seed: int,
        workers: Workers,
    ) -> None:
        self.objective = objective
        self.optimiser = optimiser
        self.schedule = schedule
        self._clip = clip
        self._seed = seed
        self._workers = workers
        self._parameters = [p for p in objective.parameters() if p.requires_grad]

    def __call__(self, number: int, batches: Sequence[Batch]) -> StepReport:
        """Make the update of this number, from 1, out of this worker's batches."""
        self.objective.train()
        self.optimiser.zero_grad()
        loss, nll, tokens, *of_text = self._gradients(number, batches)
        # Behind the last batch the gradients are the mean over the workers of sums over tokens.
        norm = scale_gradients(self._parameters, self._workers.count / tokens, self._clip)
        rate = self.schedule.rate(number)
        self._refuse_nonsense(number, loss / tokens, norm, rate)
        self._step(rate)
        targets, sources = map(int, of_text)
        return StepReport(loss / tokens, nll / tokens, targets, sources, norm, rate)

    def _gradients(self, number: int, batches: Sequence[Batch]) -> list[float]:
        """Make them, and return what everything sums up to, over all workers: loss and nll, the
        tokens that these are of (R-Drop has each twice), target and source tokens."""
        sums = torch.zeros(5, dtype=torch.float64)
        for place, batch in enumerate(batches):
            is_last = place + 1 == len(batches)
            with self._workers.synchronised(self.objective, is_last):
                loss = self._loss(number, place, batch)
                of_text = batch.target_tokens, batch.source_tokens
                parts = loss.total.detach(), loss.nll, loss.tokens, *of_text
                sums += torch.tensor([float(part) for part in parts], dtype=torch.float64)
                if is_last:  # the sums travel while the gradients are made
                    arrived = self._workers.summing(sums)
                loss.total.backward()
        return arrived().tolist()

    def _loss(self, number: int, place: int, batch: Batch) -> LossSum:
        # Counted over all workers, so that no two of them drop the same places.
        overall = place * self._workers.count + self._workers.rank
        torch.manual_seed(mixed(self._seed, number, overall))
        loss: LossSum = self.objective(batch)
        return loss

    def _step(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()

    def _refuse_nonsense(self, number: int, loss: float, norm: float, rate: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        # The paper's schedule has no peak of its own: a longer warm-up makes it lower.
        peak = "" if self.schedule.config.kind == "paper" else "a lower schedule.peak, "
        raise TrainingError(
            f"the loss is {loss:g} and the gradient {norm:g} in update {number}, at the rate "
            f"{rate:g}; it was not made. Try {peak}a longer schedule.warmup, or optimiser.clip = 1"
        )


def mixed(*numbers: int) -> int:
    """Return a seed that follows from all of these."""
    state = 0
    for number in numbers:
        state = (state ^ number) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state


_WORD = 2**64 - 1
