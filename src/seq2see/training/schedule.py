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
    """Learning rate as a function of the number of the update, counted from 1."""

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        self.config = config
        self.num_updates = num_updates
        """Planned number of updates, at which `linear` and `cosine` reach `final_lr`."""
        self._peak_lr = self._noam_peak(d_model) if config.kind == "noam" else config.peak_lr

    def learning_rate(self, update: int) -> float:
        """Return the learning rate of this update."""
        if update < self.config.warmup_updates:
            return self._peak_lr * update / self.config.warmup_updates
        return self._after_warmup(update)

    def after_validation(self, improved: bool) -> None:
        """Report whether the last validation was the best so far. Only `plateau` uses it."""

    def state(self) -> dict[str, int]:
        """Return the state to store in a checkpoint."""
        return {}

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state."""

    def _after_warmup(self, update: int) -> float:
        match self.config.kind:
            case "noam" | "inverse_sqrt":
                return self._peak_lr * math.sqrt(
                    max(self.config.warmup_updates, 1) / max(update, 1)
                )
            case "linear":
                return self._interpolate(1 - self._progress(update))
            case "cosine":
                return self._interpolate((1 + math.cos(math.pi * self._progress(update))) / 2)
            case _:
                return self._peak_lr

    def _noam_peak(self, d_model: int) -> float:
        return float((d_model * self.config.warmup_updates) ** -0.5)

    def _interpolate(self, fraction: float) -> float:
        """Return a learning rate between `final_lr` (0) and the peak (1)."""
        return self.config.final_lr + (self._peak_lr - self.config.final_lr) * fraction

    def _progress(self, update: int) -> float:
        """Return the fraction of the updates after the warm-up that are done."""
        length = max(self.num_updates - self.config.warmup_updates, 1)
        return min(1.0, (update - self.config.warmup_updates) / length)


def build_schedule(config: ScheduleConfig, d_model: int, num_updates: int) -> LearningRateSchedule:
    """Build the schedule of a config for a planned number of updates."""
    kind = PlateauSchedule if config.kind == "plateau" else LearningRateSchedule
    return kind(config, d_model, num_updates)


class PlateauSchedule(LearningRateSchedule):
    """Reduces the learning rate when validation stops improving. The only schedule with a state."""

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        super().__init__(config, d_model, num_updates)
        self.num_reductions = 0
        """Number of reductions so far."""
        self.validations_since_best = 0
        """Number of validations since the best one or the last reduction."""

    def after_validation(self, improved: bool) -> None:
        """Reduce the learning rate after `patience` validations without improvement."""
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.num_reductions, self.validations_since_best = self.num_reductions + 1, 0

    def _after_warmup(self, update: int) -> float:
        return super()._after_warmup(update) * self.config.factor**self.num_reductions

    def state(self) -> dict[str, int]:
        """Return the state to store in a checkpoint."""
        return {
            "num_reductions": self.num_reductions,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state."""
        self.num_reductions, self.validations_since_best = (
            state["num_reductions"],
            state["validations_since_best"],
        )
