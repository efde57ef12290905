"""The training loop: one update of the weights, listeners between updates, and reasons to stop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from seq2see.data.batch_loader import Batch, BatchLoader, UpdateBatches
from seq2see.data.batch_sampler import START_POSITION, DataPosition
from seq2see.errors import TrainingError
from seq2see.keyed_random import mix_seeds
from seq2see.loss import LossSum
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.optimizers_and_gradient_clipping import scale_and_clip_gradients
from seq2see.training.schedule import LearningRateSchedule


@dataclass(slots=True)
class TrainingProgress:
    """Progress of a run; it is part of each checkpoint."""

    update: int = 0
    """Number of finished updates."""
    epoch: int = 0
    """Epoch of the last update, counted from 0."""
    position: DataPosition = START_POSITION
    """Position in the training data after the last update."""
    tokens: int = 0
    """Number of source and target tokens trained on."""
    seconds: float = 0.0
    """Training time in seconds, including validations, over all interruptions."""

    def state(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return asdict(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the fields from a state."""
        for name, value in state.items():
            setattr(self, name, DataPosition(*value) if name == "position" else value)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """Result of one update of the weights, over all workers."""

    loss: float
    """Mean training loss per token, including label smoothing and extra terms."""
    nll: float
    """Mean negative log-likelihood per token."""
    target_tokens: int
    source_tokens: int
    gradient_norm: float
    """Gradient norm before clipping."""
    learning_rate: float
    seconds: float = 0.0
    """Time of the update, including loading its batches and excluding the listeners."""


class ModelUpdater:
    """Updates the weights of a model.

    All random numbers are a function of seed, update, batch and worker.
    """

    def __init__(
        self,
        objective: nn.Module,
        optimizer: Optimizer,
        schedule: LearningRateSchedule,
        max_grad_norm: float,
        seed: int,
        workers: WorkerCommunicator,
    ) -> None:
        self.objective = objective
        self.optimizer = optimizer
        self.schedule = schedule
        self._max_grad_norm = max_grad_norm
        self._seed = seed
        self._workers = workers
        self._parameters = [p for p in objective.parameters() if p.requires_grad]

    def __call__(self, update: int, batches: Sequence[Batch]) -> UpdateReport:
        """Update the weights with this worker's batches; `update` is its number, counted from 1.

        Raise TrainingError without an update if the loss or the gradient is not finite.
        """
        self.objective.train()
        self.optimizer.zero_grad()
        loss, nll, num_tokens, *text_tokens = self._compute_gradients(update, batches)
        # The gradients are the mean over the workers of the sums over tokens.
        factor = self._workers.world_size / num_tokens
        norm = scale_and_clip_gradients(self._parameters, factor, self._max_grad_norm)
        learning_rate = self.schedule.learning_rate(update)
        self._check_finite(update, loss / num_tokens, norm, learning_rate)
        self._step(learning_rate)
        target_tokens, source_tokens = map(int, text_tokens)
        return UpdateReport(
            loss / num_tokens, nll / num_tokens, target_tokens, source_tokens, norm, learning_rate
        )

    def _compute_gradients(self, update: int, batches: Sequence[Batch]) -> list[float]:
        """Compute the gradients of all batches and return sums over all workers.

        The sums are: loss, negative log-likelihood, the number of tokens of both (R-Drop counts
        each token twice), target tokens and source tokens.
        """
        sums = torch.zeros(5, dtype=torch.float64)
        for index, batch in enumerate(batches):
            is_last = index + 1 == len(batches)
            with self._workers.gradient_sync(self.objective, is_last):
                loss = self._compute_loss(update, index, batch)
                text_tokens = batch.num_target_tokens, batch.num_source_tokens
                summands = loss.total.detach(), loss.nll, loss.num_tokens, *text_tokens
                sums += torch.tensor([float(x) for x in summands], dtype=torch.float64)
                if is_last:  # the sums are reduced while the gradients are computed
                    wait_for_sums = self._workers.all_reduce_async(sums)
                loss.total.backward()
        return wait_for_sums().tolist()

    def _compute_loss(self, update: int, index: int, batch: Batch) -> LossSum:
        # Batches are counted over all workers, so that no two of them have the same dropout mask.
        overall_index = index * self._workers.world_size + self._workers.rank
        torch.manual_seed(mix_seeds(self._seed, update, overall_index))
        loss: LossSum = self.objective(batch)
        return loss

    def _step(self, learning_rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        self.optimizer.step()

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


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a run ends."""

    text: str
    is_final: bool
    """Whether training is finished and a model is written; otherwise the run can be resumed."""


ALL_UPDATES_DONE = StopReason("done", is_final=True)


class UpdateLimit:
    """Listener that stops after a number of updates."""

    def __init__(self, num_updates: int) -> None:
        self._num_updates = num_updates

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Return a stop reason after the last update."""
        del report
        return ALL_UPDATES_DONE if progress.update >= self._num_updates else None


class SignalHandler:
    """Listener that stops after the update in which a worker received SIGINT or SIGTERM."""

    def __init__(self, workers: WorkerCommunicator) -> None:
        self._workers = workers
        self._signal_name: str | None = None
        self._received_at = 0.0

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handle signals within the context; a second one, some seconds later, ends the process."""
        previous = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._signal_name is None:
            self._signal_name = signal.Signals(number).name
            self._received_at = time.monotonic()
        elif time.monotonic() - self._received_at >= REPEAT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Return a stop reason if any worker has received a signal."""
        del progress, report
        name = next(filter(None, self._workers.all_gather(self._signal_name)), None)
        return StopReason(name, is_final=False) if name else None


class _SignalReceived(BaseException):
    """Raised by a signal. Like KeyboardInterrupt, it is not caught by `except Exception`."""


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Raise TrainingError on SIGINT or SIGTERM, outside the updates that SignalHandler covers."""

    def raise_received(number: int, frame: FrameType | None) -> None:
        del frame
        raise _SignalReceived(signal.Signals(number).name)

    previous = {number: signal.signal(number, raise_received) for number in _SIGNALS}
    try:
        yield
    except _SignalReceived as error:
        raise TrainingError(
            f"stopped by {error}; use --resume to continue from the last checkpoint"
        ) from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class UpdateListener(Protocol):
    """Called after each update: a log, a validation, a checkpoint."""

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Process the report of an update; return a reason to stop training, or None."""
        ...


class Trainer:
    """Training loop: updates until a listener returns a reason to stop."""

    def __init__(
        self,
        updater: ModelUpdater,
        loader: BatchLoader,
        progress: TrainingProgress,
        listeners: Sequence[UpdateListener],
    ) -> None:
        self._updater = updater
        self._loader = loader
        self._progress = progress
        self._listeners = listeners

    def run(self) -> StopReason:
        """Train from the current progress on; return why training ended."""
        start = ready = time.perf_counter()
        for update in self._loader.updates(self._progress.position):
            report = self._updater(self._progress.update + 1, update.batches)
            report = replace(report, seconds=time.perf_counter() - ready)
            start = self._advance(update, report, start)
            # All listeners are called, even after one of them has returned a reason to stop.
            results = [each.after_update(self._progress, report) for each in self._listeners]
            if reasons := [reason for reason in results if reason]:
                self._progress.seconds += time.perf_counter() - start
                return min(reasons, key=lambda reason: reason.is_final)  # signals come first
            ready = time.perf_counter()
        raise AssertionError("the loader must yield updates without end")

    def _advance(self, update: UpdateBatches, report: UpdateReport, start: float) -> float:
        """Add an update and the time since `start` to the progress; return the current time."""
        progress, now = self._progress, time.perf_counter()
        progress.update += 1
        progress.epoch = update.epoch
        progress.position = update.next_position
        progress.tokens += report.target_tokens + report.source_tokens
        progress.seconds += now - start
        return now
