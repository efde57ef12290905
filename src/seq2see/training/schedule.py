"""The learning rate of each update."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from seq2see.config import Config

Kind = Literal["paper", "inverse_sqrt", "linear", "cosine", "constant", "plateau"]


class ScheduleConfig(Config):
    """How the learning rate rises and falls."""

    kind: Kind = "inverse_sqrt"
    """Behind the warm-up: `paper`: d_model^-0.5 · update^-0.5. `inverse_sqrt`: the same shape from
    `peak` down. `linear` and `cosine`: from `peak` to `end` at the last update. `constant`: `peak`.
    `plateau`: `peak`, times `factor` when validation has not got better."""
    peak: float = Field(default=0.001, gt=0, le=10)
    """The highest rate. `paper` has its own."""
    warmup: int = Field(default=2000, ge=0)
    """Updates in which the rate rises from 0, in a line."""
    end: float = Field(default=0.0, ge=0)
    """linear, cosine: the last rate."""
    factor: float = Field(default=0.5, gt=0, lt=1)
    """plateau: what the rate is multiplied by."""
    patience: int = Field(default=3, ge=1)
    """plateau: validations without a better score before it is."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a rate that would rise instead of fall."""
        if self.kind == "paper" and self.warmup == 0:
            yield "`warmup` must be at least 1 with the paper's schedule, but is 0 instead"
        if self.end > self.peak:
            yield f"`end` must be at most peak = {self.peak}, but is {self.end} instead"


class Schedule:
    """The rate as a function of the update's number, from 1, and of nothing else."""

    def __init__(self, config: ScheduleConfig, d_model: int, updates: int) -> None:
        self.config = config
        self.updates = updates
        """The planned number, which `linear` and `cosine` end with."""
        self._peak = self._paper_peak(d_model) if config.kind == "paper" else config.peak

    def rate(self, update: int) -> float:
        """Return the rate of this update."""
        if update < self.config.warmup:
            return self._peak * update / self.config.warmup
        return self._falling(update)

    def judge(self, improved: bool) -> None:
        """Hear whether the last validation was the best so far."""

    def state(self) -> dict[str, int]:
        """Return what must be remembered over a stop."""
        return {}

    def restore(self, state: Mapping[str, int]) -> None:
        """Take over what was remembered."""

    def _falling(self, update: int) -> float:
        match self.config.kind:
            case "paper" | "inverse_sqrt":
                return self._peak * math.sqrt(max(self.config.warmup, 1) / max(update, 1))
            case "linear":
                return self._between(1 - self._progress(update))
            case "cosine":
                return self._between((1 + math.cos(math.pi * self._progress(update))) / 2)
            case _:
                return self._peak

    def _paper_peak(self, d_model: int) -> float:
        return float((d_model * self.config.warmup) ** -0.5)

    def _between(self, share: float) -> float:
        return self.config.end + (self._peak - self.config.end) * share

    def _progress(self, update: int) -> float:
        """Return how much of the way from the warm-up's end to the last update is done."""
        length = max(self.updates - self.config.warmup, 1)
        return min(1.0, (update - self.config.warmup) / length)


def build_schedule(config: ScheduleConfig, d_model: int, updates: int) -> Schedule:
    """Make the schedule that the config names, for so many updates."""
    kind = Plateau if config.kind == "plateau" else Schedule
    return kind(config, d_model, updates)


class Plateau(Schedule):
    """Falls when validation stops getting better: the one schedule that remembers something."""

    def __init__(self, config: ScheduleConfig, d_model: int, updates: int) -> None:
        super().__init__(config, d_model, updates)
        self.falls = 0
        """How often it fell."""
        self.waited = 0
        """Validations since the best one, or since it last fell."""

    def judge(self, improved: bool) -> None:
        """Fall if nothing got better for too long."""
        self.waited = 0 if improved else self.waited + 1
        if self.waited >= self.config.patience:
            self.falls, self.waited = self.falls + 1, 0

    def _falling(self, update: int) -> float:
        return super()._falling(update) * self.config.factor**self.falls

    def state(self) -> dict[str, int]:
        """Return what must be remembered over a stop."""
        return {"falls": self.falls, "waited": self.waited}

    def restore(self, state: Mapping[str, int]) -> None:
        """Take over what was remembered."""
        self.falls, self.waited = state["falls"], state["waited"]
