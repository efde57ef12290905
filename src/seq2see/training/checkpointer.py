"""Writes checkpoints between updates, and the result in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from seq2see.training.averages import mean_of_checkpoints
from seq2see.training.checkpoints import Checkpoints, Part, Snapshot
from seq2see.training.config import CheckpointsConfig
from seq2see.training.parts import Progress
from seq2see.training.step import StepReport
from seq2see.training.workers import Workers


class Checkpointer:
    """Saves every part of a run, now and then. It listens last, so that all others are in it."""

    def __init__(
        self,
        checkpoints: Checkpoints,
        config: CheckpointsConfig,
        parts: Mapping[str, Part],
        workers: Workers,
        best_update: Callable[[], int],
    ) -> None:
        self._checkpoints = checkpoints
        self._config = config
        self._parts = parts
        self._workers = workers
        self._best_update = best_update

    def after_update(self, progress: Progress, report: StepReport) -> None:
        """Save if it is time, or if this is the best so far."""
        del report
        if progress.update % self._config.every == 0 or progress.update == self._best_update():
            self.save(progress)

    def save(self, progress: Progress) -> None:
        """Save now, unless it was done."""
        saved = progress.update in self._checkpoints.updates()
        if not self._workers.agreed(saved):
            keep = self._workers.leads
            parts = {name: Snapshot(part, keep) for name, part in self._parts.items()}
            best = {self._best_update()}
            self._workers.led(lambda: self._checkpoints.save(progress.update, parts, best))

    def result(self) -> dict[str, Tensor]:
        """Return the weights that become the model."""
        updates = self._checkpoints.updates()
        best = self._best_update()
        match self._config.result:
            case "best" if best in updates:
                chosen = [best]
            case "mean":
                chosen = self._checkpoints.final()
            case "ema":
                return Snapshot(self._parts["average"]).tensors()
            case _:
                chosen = updates[-1:]
        files = [self._checkpoints.path(update) / "model.safetensors" for update in chosen]
        return mean_of_checkpoints(files)
