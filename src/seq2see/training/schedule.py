"""The learning rate of each update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from seq2see.config import Config

ScheduleKind = Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "plateau"]


class ScheduleConfig(Config):
    """How the learning rate rises and falls."""

    kind: ScheduleKind = "inverse_sqrt"
    """Behind the warm-up: `paper`: d_model^-0.5 · update^-0.5. `inverse_sqrt`: the same shape from
    `peak` down. `linear` and `cosine`: from `peak` to `end` at the last update. `constant`: `peak`.
    `plateau`: `peak`, times `factor` when validation has not got better."""
    peak_lr: float = Field(default=0.001, gt=0, le=10)
    """The highest rate. `paper` has its own."""
    warmup_updates: int = Field(default=2000, ge=0)
    """Updates in which the rate rises from 0, in a line."""
    final_lr: float = Field(default=0.0, ge=0)
    """linear, cosine: the last rate."""
    factor: float = Field(default=0.5, gt=0, lt=1)
    """plateau: what the rate is multiplied by."""
    patience: int = Field(default=3, ge=1)
    """plateau: validations without a better score before it is."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a rate that would rise instead of fall."""
        if self.kind == "noam" and self.warmup_updates == 0:
            yield '`warmup_updates` must be at least 1 with kind = "noam", but is 0 instead'
        if self.final_lr > self.peak_lr:
            yield f"`final_lr` must be at most peak_lr = {self.peak_lr}, but is {self.final_lr} instead"


class LearningRateSchedule:
    """The rate as a function of the update's number, from 1, and of nothing else."""

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        self.config = config
        self.num_updates = num_updates
        """The planned number, which `linear` and `cosine` end with."""
        self._peak = self._paper_peak(d_model) if config.kind == "noam" else config.peak_lr

    def learning_rate(self, update: int) -> float:
        """Return the rate of this update."""
        if update < self.config.warmup_updates:
            return self._peak * update / self.config.warmup_updates
        return self._falling(update)

    def after_validation(self, improved: bool) -> None:
        """Hear whether the last validation was the best so far."""

    def state(self) -> dict[str, int]:
        """Return what must be remembered over a stop."""
        return {}

    def restore(self, state: Mapping[str, int]) -> None:
        """Take over what was remembered."""

    def _falling(self, update: int) -> float:
        match self.config.kind:
            case "noam" | "inverse_sqrt":
                return self._peak * math.sqrt(max(self.config.warmup_updates, 1) / max(update, 1))
            case "linear":
                return self._between(1 - self._progress(update))
            case "cosine":
                return self._between((1 + math.cos(math.pi * self._progress(update))) / 2)
            case _:
                return self._peak

    def _paper_peak(self, d_model: int) -> float:
        return float((d_model * self.config.warmup_updates) ** -0.5)

    def _between(self, share: float) -> float:
        return self.config.final_lr + (self._peak - self.config.final_lr) * share

    def _progress(self, update: int) -> float:
        """Return how much of the way from the warm-up's end to the last update is done."""
        length = max(self.num_updates - self.config.warmup_updates, 1)
        return min(1.0, (update - self.config.warmup_updates) / length)


def build_schedule(config: ScheduleConfig, d_model: int, num_updates: int) -> LearningRateSchedule:
    """Make the schedule that the config names, for so many updates."""
    kind = PlateauSchedule if config.kind == "plateau" else LearningRateSchedule
    return kind(config, d_model, num_updates)


class PlateauSchedule(LearningRateSchedule):
    """Falls when validation stops getting better: the one schedule that remembers something."""

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        super().__init__(config, d_model, num_updates)
        self.num_reductions = 0
        """How often it fell."""
        self.validations_since_best = 0
        """Validations since the best one, or since it last fell."""

    def after_validation(self, improved: bool) -> None:
        """Fall if nothing got better for too long."""
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.num_reductions, self.validations_since_best = self.num_reductions + 1, 0

    def _falling(self, update: int) -> float:
        return super()._falling(update) * self.config.factor**self.num_reductions

    def state(self) -> dict[str, int]:
        """Return what must be remembered over a stop."""
        return {
            "num_reductions": self.num_reductions,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Take over what was remembered."""
        self.num_reductions, self.validations_since_best = (
            state["num_reductions"],
            state["validations_since_best"],
        )
