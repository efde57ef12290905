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
from seq2see.loss import LossSum
from seq2see.training.optimizer import scale_gradients
from seq2see.training.schedule import LearningRateSchedule
from seq2see.training.workers import WorkerGroup


@dataclass(slots=True)
class TrainingProgress:
    """How far a run has come."""

    update: int = 0
    """Updates done."""
    epoch: int = 0
    """The epoch of the last one, from 0."""
    position: DataPosition = START_POSITION
    """Where the data goes on."""
    tokens: int = 0
    """Tokens seen, source and target."""
    seconds: float = 0.0
    """Time spent, over all stops."""

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        return asdict(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        for name, value in state.items():
            setattr(self, name, DataPosition(*value) if name == "position" else value)


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update did."""

    loss: float
    """The mean over all tokens of all workers, smoothing and extra terms included."""
    nll: float
    """The mean of −log p of the right token."""
    target_tokens: int
    """Target tokens of all workers."""
    source_tokens: int
    gradient_norm: float
    """Before clipping."""
    learning_rate: float
    seconds: float = 0.0
    """Time that it took with its batches, but without those who hear of it."""


class ModelUpdater:
    """Updates a model. All that is random follows from seed, update, batch and worker."""

    def __init__(
        self,
        objective: nn.Module,
        optimizer: Optimizer,
        schedule: LearningRateSchedule,
        max_grad_norm: float,
        seed: int,
        workers: WorkerGroup,
    ) -> None:
        self.objective = objective
        self.optimizer = optimizer
        self.schedule = schedule
        self._clip = max_grad_norm
        self._seed = seed
        self._workers = workers
        self._parameters = [p for p in objective.parameters() if p.requires_grad]

    def __call__(self, update: int, batches: Sequence[Batch]) -> UpdateReport:
        """Make the update of this number, from 1, out of this worker's batches."""
        self.objective.train()
        self.optimizer.zero_grad()
        loss, nll, tokens, *of_text = self._gradients(update, batches)
        # Behind the last batch the gradients are the mean over the workers of sums over tokens.
        norm = scale_gradients(self._parameters, self._workers.world_size / tokens, self._clip)
        rate = self.schedule.learning_rate(update)
        self._refuse_nonsense(update, loss / tokens, norm, rate)
        self._step(rate)
        targets, sources = map(int, of_text)
        return UpdateReport(loss / tokens, nll / tokens, targets, sources, norm, rate)

    def _gradients(self, number: int, batches: Sequence[Batch]) -> list[float]:
        """Make them, and return what everything sums up to, over all workers: loss and nll, the
        tokens that these are of (R-Drop has each twice), target and source tokens."""
        sums = torch.zeros(5, dtype=torch.float64)
        for place, batch in enumerate(batches):
            is_last = place + 1 == len(batches)
            with self._workers.gradient_sync(self.objective, is_last):
                loss = self._loss(number, place, batch)
                of_text = batch.num_target_tokens, batch.num_source_tokens
                parts = loss.total.detach(), loss.nll, loss.num_tokens, *of_text
                sums += torch.tensor([float(part) for part in parts], dtype=torch.float64)
                if is_last:  # the sums travel while the gradients are made
                    arrived = self._workers.all_reduce_async(sums)
                loss.total.backward()
        return arrived().tolist()

    def _loss(self, number: int, place: int, batch: Batch) -> LossSum:
        # Counted over all workers, so that no two of them drop the same places.
        overall = place * self._workers.world_size + self._workers.rank
        torch.manual_seed(mix_seeds(self._seed, number, overall))
        loss: LossSum = self.objective(batch)
        return loss

    def _step(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def _refuse_nonsense(self, number: int, loss: float, norm: float, rate: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        # The paper's schedule has no peak of its own: a longer warm-up makes it lower.
        peak = "" if self.schedule.config.kind == "noam" else "a lower schedule.peak_lr, "
        raise TrainingError(
            f"the loss is {loss:g} and the gradient {norm:g} in update {number}, at the rate "
            f"{rate:g}; it was not made. Try {peak}a longer schedule.warmup_updates, "
            "or optimizer.max_grad_norm = 1"
        )


def mix_seeds(*seeds: int) -> int:
    """Return a seed that follows from all of these."""
    state = 0
    for number in seeds:
        state = (state ^ number) & _WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15) & _WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _WORD
        state ^= state >> 31
    return state


_WORD = 2**64 - 1


REPEAT_SECONDS = 3.0
"""Seconds in which further signals are the first once more: a terminal sends one to each process
of a run, and torchrun's agent passes its own on."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a run ends."""

    text: str
    is_final: bool
    """Whether it has come to its end, so that there is a result; or else it may go on."""


ALL_UPDATES_DONE = StopReason("done", is_final=True)


class UpdateLimit:
    """Stops after so many updates."""

    def __init__(self, num_updates: int) -> None:
        self._updates = num_updates

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Stop if that was the last."""
        del report
        return ALL_UPDATES_DONE if progress.update >= self._updates else None


class SignalHandler:
    """Stops after the update in which SIGINT or SIGTERM came to any worker."""

    def __init__(self, workers: WorkerGroup) -> None:
        self._workers = workers
        self._came: str | None = None
        self._since = 0.0

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Hear signals; another one, some seconds later, does what it always does."""
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        del frame
        if self._came is None:
            self._came, self._since = signal.Signals(number).name, time.monotonic()
        elif time.monotonic() - self._since >= REPEAT_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Stop if one has come."""
        del progress, report
        came = next(filter(None, self._workers.all_gather(self._came)), None)
        return StopReason(came, is_final=False) if came else None


class _Stopped(BaseException):
    """A signal that came, as KeyboardInterrupt is one: nobody takes it for an error of theirs."""


@contextmanager
def signals_as_errors() -> Iterator[None]:
    """Make a signal one line wherever it comes, but for updates, behind which `Signals` saves."""

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        raise _Stopped(signal.Signals(number).name)

    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    try:
        yield
    except _Stopped as error:
        raise TrainingError(
            f"stopped by {error}; --resume goes on from the last checkpoint"
        ) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class UpdateListener(Protocol):
    """Something that happens between updates: a log, a validation, a checkpoint."""

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Hear of an update; return a reason to stop, if there is one."""
        ...


class Trainer:
    """Trains until a listener gives a reason to stop."""

    def __init__(
        self,
        updater: ModelUpdater,
        loader: BatchLoader,
        progress: TrainingProgress,
        listeners: Sequence[UpdateListener],
    ) -> None:
        self._stepper = updater
        self._loader = loader
        self._progress = progress
        self._listeners = listeners

    def run(self) -> StopReason:
        """Go on from where the progress stands; return why it ended."""
        start = ready = time.perf_counter()
        for update in self._loader.updates(self._progress.position):
            report = self._stepper(self._progress.update + 1, update.batches)
            report = replace(report, seconds=time.perf_counter() - ready)
            start = self._advance(update, report, start)
            # Every listener hears of it, also behind one that wants to stop.
            reasons = [each.after_update(self._progress, report) for each in self._listeners]
            if found := [reason for reason in reasons if reason]:
                self._progress.seconds += time.perf_counter() - start
                return min(found, key=lambda reason: reason.is_final)  # a signal cannot wait
            ready = time.perf_counter()
        raise AssertionError("updates have no end")

    def _advance(self, update: UpdateBatches, report: UpdateReport, start: float) -> float:
        progress, now = self._progress, time.perf_counter()
        progress.update += 1
        progress.epoch = update.epoch
        progress.position = update.next_position
        progress.tokens += report.target_tokens + report.source_tokens
        progress.seconds += now - start
        return now
