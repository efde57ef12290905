"""One update of the weights, stop signals, and the training loop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.data.batch_loader import Batch, BatchLoader
from seq2see.errors import TrainingError
from seq2see.keyed_random import mix_seeds
from seq2see.loss import LossSum
from seq2see.training.checkpoints import CheckpointDirectory, TrainingState, UpdateReport
from seq2see.training.config import ValidationConfig
from seq2see.training.distributed import WorkerCommunicator, gradient_sync
from seq2see.training.optimization import LearningRateSchedule, scale_and_clip_gradients
from seq2see.training.training_log import TrainingLog
from seq2see.training.validation import ValidationResult


@dataclass(frozen=True)
class ModelUpdater:
    """Updates the weights of a model.

    All random numbers are a function of seed, update, batch and worker.
    """

    objective: nn.Module
    optimizer: Optimizer
    schedule: LearningRateSchedule
    max_grad_norm: float
    seed: int
    workers: WorkerCommunicator

    def __call__(self, update: int, batches: Sequence[Batch]) -> UpdateReport:
        """Update the weights with this worker's batches; `update` is its number, counted from 1.

        Raise TrainingError without an update if the loss or the gradient is not finite.
        """
        self.objective.train()
        self.optimizer.zero_grad()
        loss, nll, num_tokens, *text_tokens = self._compute_gradients(update, batches)
        # The gradients are the mean over the workers of the sums over tokens.
        factor = self.workers.world_size / num_tokens
        norm = scale_and_clip_gradients(self.objective.parameters(), factor, self.max_grad_norm)
        learning_rate = self.schedule.learning_rate(update)
        self._check_finite(update, loss / num_tokens, norm, learning_rate)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()
        target_tokens, source_tokens = map(int, text_tokens)
        return UpdateReport(
            loss / num_tokens, nll / num_tokens, target_tokens, source_tokens, norm, learning_rate
        )

    def _compute_gradients(self, update: int, batches: Sequence[Batch]) -> list[float]:
        """Compute the gradients of all batches and return sums over all workers.

        The sums are: loss, negative log-likelihood, the number of tokens of both (R-Drop counts
        each token twice), target tokens and source tokens.
        """
        results: list[tuple[Tensor | int, ...]] = []
        for index, batch in enumerate(batches):
            is_last = index + 1 == len(batches)
            with gradient_sync(self.objective, is_last):
                # Batches are counted over all workers: no two of them have the same dropout mask.
                overall_index = index * self.workers.world_size + self.workers.rank
                torch.manual_seed(mix_seeds(self.seed, update, overall_index))
                loss: LossSum = self.objective(batch)
                loss.total.backward()
            text_tokens = batch.num_target_tokens, batch.num_source_tokens
            results.append((loss.total.detach(), loss.nll, loss.num_tokens, *text_tokens))
        sums = torch.zeros(5, dtype=torch.float64)
        for each in results:  # note: `float` waits for the GPU, so it comes after all batches
            sums += torch.tensor([float(x) for x in each], dtype=torch.float64)
        return self.workers.all_reduce(sums).tolist()

    def _check_finite(self, update: int, loss: float, norm: float, learning_rate: float) -> None:
        """Raise TrainingError with advice if the loss or the gradient norm is not finite."""
        if math.isfinite(loss) and math.isfinite(norm):
            return
        # The noam schedule has no peak_lr: a longer warm-up lowers its peak.
        peak = "" if self.schedule.config.kind == "noam" else "a lower schedule.peak_lr, "
        raise TrainingError(
            f"training diverged at update {update} (loss {loss:g}, gradient norm {norm:g}, "
            f"learning rate {learning_rate:g}); the update was not applied. Try {peak}a longer "
            "schedule.warmup_updates, or optimizer.max_grad_norm = 1"
        )


REPEAT_SECONDS = 3.0
"""Time in which further signals are ignored as repetitions of the first one: a terminal sends the
signal to each process of a run, and torchrun's agent forwards its own."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Remembers the first SIGINT or SIGTERM. A second one, some seconds later, ends the process."""

    def __init__(self) -> None:
        self._number = 0
        self._received_at = 0.0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        del frame
        if not self._number:
            self._number, self._received_at = number, time.monotonic()
        elif time.monotonic() - self._received_at >= REPEAT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def find_name(self, workers: WorkerCommunicator) -> str | None:
        """Return the name of the signal that any of the workers has received, if any."""
        received = torch.tensor(
            [number == self._number for number in STOP_SIGNALS], dtype=torch.int64
        )
        counts = workers.all_reduce(received).tolist()
        names = (n.name for n, count in zip(STOP_SIGNALS, counts, strict=True) if count)
        return next(names, None)


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle SIGINT and SIGTERM by a function within the context."""
    previous = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, old_handler in previous.items():
            signal.signal(number, old_handler)


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Raise TrainingError on SIGINT or SIGTERM, outside the updates that `StopSignal` covers."""

    def raise_received(number: int, frame: FrameType | None) -> None:
        del frame
        raise KeyboardInterrupt(signal.Signals(number).name)

    try:
        with handle_signals(raise_received):
            yield
    except KeyboardInterrupt as error:
        raise TrainingError(format_stop_message(error)) from None


def format_stop_message(signal_name: object) -> str:
    """Return the message for a signal outside the updates, after which nothing is saved."""
    return f"stopped by {signal_name}; use --resume to continue from the last checkpoint"


@dataclass
class Trainer:
    """The training loop: updates, with validations and checkpoints between them."""

    updater: ModelUpdater
    loader: BatchLoader
    validate: Callable[[], ValidationResult]
    """Evaluates the model on the validation set."""
    state: TrainingState
    checkpoints: CheckpointDirectory
    log: TrainingLog
    config: ValidationConfig
    num_updates: int
    """Planned number of updates."""
    workers: WorkerCommunicator

    def run(self) -> str | None:
        """Train from the current progress on until the end or a signal, and save a checkpoint.

        Return the name of the signal; None if the training is finished.
        """
        if self._is_finished():  # the run was interrupted after its last update
            return None
        progress, stop_signal = self.state.progress, StopSignal()
        ready = time.perf_counter()
        start = ready - progress.seconds
        with handle_signals(stop_signal):
            for update in self.loader.updates(progress.position):
                report = self.updater(progress.update + 1, update.batches)
                now = time.perf_counter()
                progress.seconds = now - start
                progress.add_update(update, replace(report, seconds=now - ready))
                self.log.write_reports(progress)
                if self.state.ema:
                    self.state.ema.update(progress.update)
                if progress.update % self.config.interval == 0:
                    self._validate()
                # Signals come first: the final scores may take longer than the time to shut down.
                name = stop_signal.find_name(self.workers)
                is_last = name is not None or self._is_finished()
                if is_last:
                    progress.seconds = time.perf_counter() - start
                if is_last or self._is_checkpoint_due():  # with the state after all of the above
                    self.checkpoints.save(self.state, self.workers)
                if is_last:
                    return name
                ready = time.perf_counter()
        raise AssertionError("the loader must yield updates without end")

    def _is_finished(self) -> bool:
        """Return whether all updates are done, or the validations have not improved."""
        progress, patience = self.state.progress, self.config.patience
        is_exceeded = patience is not None and progress.validations_since_best >= patience
        return is_exceeded or progress.update >= self.num_updates

    def _validate(self) -> None:
        """Validate the model, and report whether it is the best one so far."""
        result, progress = self.validate(), self.state.progress
        improved = progress.add_validation(result.metric_value(self.config.metric))
        self.state.schedule.after_validation(progress.update, improved)
        self.log.write("validation", progress, {**result.log_record(), "best": improved})

    def _is_checkpoint_due(self) -> bool:
        """Return whether the update is at the interval of checkpoints, or the best one so far."""
        update = self.state.progress.update
        is_regular = update % self.checkpoints.config.interval == 0
        return is_regular or update == self.state.progress.best_update
