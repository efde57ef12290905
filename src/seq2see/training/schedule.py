"""The learning rate of each update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import Problem

ScheduleKind = Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "plateau"]


class ScheduleConfig(Config):
    """Learning rate schedule."""

    kind: ScheduleKind = "inverse_sqrt"
    """Schedule after the warm-up. `noam`: d_model^-0.5 · update^-0.5. `inverse_sqrt`: the same
    shape from `peak_lr`. `linear`, `cosine`: from `peak_lr` to `final_lr` at the last update.
    `constant`: `peak_lr`. `plateau`: `peak_lr`, multiplied by `factor` when validation does not
    improve."""
    peak_lr: float = Field(default=0.001, gt=0, le=10)
    """Learning rate at the end of the warm-up; ignored by `noam`."""
    warmup_updates: int = Field(default=2000, ge=0)
    """Number of updates over which the learning rate increases linearly from 0."""
    final_lr: float = Field(default=0.0, ge=0)
    """Final learning rate of `linear` and `cosine`."""
    factor: float = Field(default=0.5, gt=0, lt=1)
    """`plateau`: factor of each reduction."""
    patience: int = Field(default=3, ge=1)
    """`plateau`: number of validations without improvement before a reduction."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem for a missing warm-up or a final learning rate above the peak."""
        if self.kind == "noam" and self.warmup_updates == 0:
            yield Problem(
                "warmup_updates", 'must be at least 1 with kind = "noam", but is 0 instead'
            )
        if self.final_lr > self.peak_lr:
            yield Problem(
                "final_lr",
                f"must be at most peak_lr = {self.peak_lr}, but is {self.final_lr} instead",
            )


class LearningRateSchedule:
    """Learning rate as a function of the number of the update, counted from 1.

    Only `plateau` has a state: it depends on the validations so far.
    """

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        self.config = config
        self.num_updates = num_updates
        """Planned number of updates, at which `linear` and `cosine` reach `final_lr`."""
        self.num_reductions = 0
        """`plateau`: number of reductions so far."""
        self.validations_since_best = 0
        """`plateau`: number of validations after the warm-up since the best one or the last
        reduction."""
        noam_peak = max(1, d_model * config.warmup_updates) ** -0.5
        self._peak_lr = noam_peak if config.kind == "noam" else config.peak_lr

    def learning_rate(self, update: int) -> float:
        """Return the learning rate of this update."""
        warmup = self.config.warmup_updates
        if update < warmup:
            return self._peak_lr * update / warmup
        progress = min(1.0, (update - warmup) / max(self.num_updates - warmup, 1))
        match self.config.kind:
            case "noam" | "inverse_sqrt":
                return self._peak_lr * math.sqrt(max(warmup, 1) / max(update, 1))
            case "linear":
                return self._interpolate(1 - progress)
            case "cosine":
                return self._interpolate((1 + math.cos(math.pi * progress)) / 2)
            case _:
                return self._peak_lr * self.config.factor**self.num_reductions

    def _interpolate(self, fraction: float) -> float:
        """Return a learning rate between `final_lr` (0) and the peak (1)."""
        return self.config.final_lr + (self._peak_lr - self.config.final_lr) * fraction

    def after_validation(self, update: int, improved: bool) -> None:
        """Report a validation after this update; `plateau` may reduce the learning rate.

        During the warm-up the learning rate is not reduced, since it has not reached its peak.
        """
        if self.config.kind != "plateau" or update < self.config.warmup_updates:
            return
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.num_reductions, self.validations_since_best = self.num_reductions + 1, 0

    def state(self) -> dict[str, int]:
        """Return the state to store in a checkpoint."""
        return {
            "num_reductions": self.num_reductions,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state."""
        self.num_reductions = state["num_reductions"]
        self.validations_since_best = state["validations_since_best"]
