"""Checkpoints of a run: the state of its parts, saved atomically, and averages of weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.bundle.files import fsync_path, write_with_default_mode
from seq2see.errors import InputError, TrainingError
from seq2see.training.config import CheckpointConfig
from seq2see.training.trainer import TrainingProgress, UpdateReport
from seq2see.training.workers import WorkerGroup, copy_into, full_tensor, shard_like

STATE_FILE = "state.json"


_PARTIAL = ".partial"


_LATE = 0.75
"""Of a run: from here on, weights are good enough to take the mean of."""


class HasState(Protocol):
    """Something that has a state: tensors, and what JSON can hold."""

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors, none of them twice; those that are shared out as they are."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the rest."""
        ...


class Checkpointable(HasState, Protocol):
    """Something that can take a state over, too."""

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over both."""
        ...


class StateSnapshot:
    """The state of a part as it is now, for those who keep it.

    What workers share out is put together by all of them, one tensor at a time: no device ever
    holds more of it than its share and that.
    """

    def __init__(self, part: HasState, keep_tensors: bool = True) -> None:
        self._tensors = {}
        for name, tensor in part.tensors().items():
            together = full_tensor(tensor)
            if keep_tensors:
                self._tensors[name] = together.cpu()
        self._state = part.state()

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors."""
        return self._tensors

    def state(self) -> dict[str, Any]:
        """Return the rest."""
        return self._state


class CheckpointDirectory:
    """The checkpoints of a run: the last, the last `keep` that are due, and those that are named.

    One is due at each multiple of `every`. One of an interruption is not: it lasts until the next.
    """

    def __init__(self, directory: Path, keep_last: int, interval: int = 1) -> None:
        self.directory = directory
        self._keep = keep_last
        self._every = interval

    def save(
        self, update: int, parts: Mapping[str, HasState], protected_updates: Iterable[int] = ()
    ) -> Path:
        """Write a checkpoint, and delete old ones that are not precious."""
        home, aside = self.path(update), self._aside(update)
        shutil.rmtree(aside, ignore_errors=True)
        try:
            self._write(update, parts, aside, home)
        except (OSError, SafetensorError) as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise TrainingError(
                f"{home} cannot be written: {getattr(error, 'strerror', None) or error}; "
                "the checkpoints before it are whole, and --resume goes on from the last"
            ) from error
        self._forget({*protected_updates, update})
        return home

    def _write(self, update: int, parts: Mapping[str, HasState], aside: Path, home: Path) -> None:
        """Write all of it aside, flush it, and give it its name: the one moment at which it is."""
        aside.mkdir(parents=True)
        files = []
        for name, part in parts.items():
            if tensors := part.tensors():
                files.append(f"{name}.safetensors")
                write_with_default_mode(aside / files[-1], partial(save_file, tensors))
        state = {name: part.state() for name, part in parts.items()}
        content = {"update": update, "files": files, **state}
        (aside / STATE_FILE).write_text(json.dumps(content), "utf-8")
        _flush_all(aside)
        shutil.rmtree(home, ignore_errors=True)
        aside.rename(home)
        fsync_path(self.directory)

    def restore(self, update: int, parts: Mapping[str, Checkpointable]) -> None:
        """Give every part its state of this update."""
        home = self.path(update)
        with reading_checkpoint(home):
            state = json.loads((home / STATE_FILE).read_text("utf-8"))
            for missing in (f for f in state.get("files", ()) if not (home / f).exists()):
                raise FileNotFoundError(f"{missing} is missing")
            for name, part in parts.items():
                file = home / f"{name}.safetensors"
                part.restore(load_file(file) if file.exists() else {}, state[name])

    def saved_updates(self) -> list[int]:
        """Return the updates of which there is a checkpoint, in order."""
        folders = self.directory.glob("[0-9]*")
        return sorted(int(f.name) for f in folders if f.name.isdecimal())

    def updates_to_average(self) -> list[int]:
        """Return the last `keep` of a run that has ended, interrupted or not.

        All are of its last quarter: a short run has others that had not learnt much yet.
        """
        updates = self.saved_updates()
        late = [update for update in updates[:-1] if update >= _LATE * updates[-1]]
        return [*self._due(late), *updates[-1:]][-self._keep :]

    def _due(self, updates: Iterable[int]) -> list[int]:
        return [update for update in updates if update % self._every == 0]

    def path(self, update: int) -> Path:
        """Return where the checkpoint of this update is."""
        return self.directory / f"{update:09d}"

    def _aside(self, update: int) -> Path:
        return self.directory / f"{update:09d}{_PARTIAL}"

    def _forget(self, precious: set[int]) -> None:
        kept = {*self._due(self.saved_updates())[-self._keep :], *precious}
        self._sweep()
        for update in self.saved_updates():
            if update not in kept:  # killed in the middle of it, no half of one keeps its name
                with suppress(OSError):
                    self.path(update).rename(self._aside(update))
        self._sweep()

    def _sweep(self) -> None:
        """Remove what is no whole checkpoint: none yet, when a run was killed, or no longer."""
        for aside in self.directory.glob(f"*{_PARTIAL}"):
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def reading_checkpoint(directory: Path) -> Iterator[None]:
    """Say of a checkpoint that cannot be read that it is damaged, and what to do."""
    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{directory} is damaged: {error}; delete it to go on from the one before"
        ) from None


def _flush_all(folder: Path) -> None:
    """Wait until the files of a folder are on the disk, and the folder too."""
    for path in (*folder.iterdir(), folder):
        fsync_path(path)


class CheckpointableModel:
    """The weights, each under one name, although tied ones have several."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights."""
        return {
            name: tensor.detach() for name, tensor in state_without_duplicates(self._model).items()
        }

    def state(self) -> dict[str, Any]:
        """Return nothing: the weights are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over the weights."""
        del state
        own = state_without_duplicates(self._model)
        if own.keys() != tensors.keys():
            different = sorted(own.keys() ^ tensors.keys())
            raise InputError(f"weights must be those of this model, but differ in {different[0]}")
        for name, tensor in own.items():
            copy_into(tensors[name], tensor)


def state_without_duplicates(module: nn.Module) -> dict[str, Tensor]:
    """Return the state of a module, what is shared under its first name only."""
    seen: set[int] = set()
    state = module.state_dict(keep_vars=True).items()
    return {name: t for name, t in state if id(t) not in seen and not seen.add(id(t))}  # type: ignore[func-returns-value]


class CheckpointableOptimizer:
    """The moments of every weight, by its name."""

    def __init__(self, optimizer: Optimizer, model: nn.Module) -> None:
        self._optimizer = optimizer
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments."""
        return {
            f"{self._names[id(parameter)]}/{key}": value
            for parameter, state in self._optimizer.state.items()
            for key, value in state.items()
        }

    def state(self) -> dict[str, Any]:
        """Return nothing: rates come from the schedule."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take over the moments."""
        del state
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                start = f"{self._names[id(parameter)]}/"
                self._optimizer.state[parameter] = {
                    name.removeprefix(start): shard_like(tensor, parameter)
                    for name, tensor in tensors.items()
                    if name.startswith(start)
                }


class HasJsonState(Protocol):
    """A part whose state JSON can hold."""

    def state(self) -> dict[str, Any]:
        """Return its state."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        ...


class CheckpointableJson:
    """A part without tensors."""

    def __init__(self, part: HasJsonState) -> None:
        self._part = part

    def tensors(self) -> dict[str, Tensor]:
        """Return nothing."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return its state."""
        return self._part.state()

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take it over."""
        del tensors
        self._part.restore(state)


def average_checkpoints(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in these files, summed in float64."""
    total: dict[str, Tensor] = {}
    for file in files:
        with reading_checkpoint(file.parent):
            weights = load_file(file)
        for name, tensor in weights.items():
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (t / len(files)).to(weights[name].dtype) for name, t in total.items()}


class ExponentialMovingAverage:
    """An exponential moving average of the weights: each update keeps `decay` of what it was.

    It starts as the plain mean of the first updates, so that it soon forgets the first weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self._average = {
            name: t.detach().clone() for name, t in state_without_duplicates(model).items()
        }

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> None:
        """Take the new weights in."""
        del report
        decay = min(self._decay, (progress.update - 1) / progress.update)
        for name, tensor in state_without_duplicates(self._model).items():
            if tensor.is_floating_point():
                self._average[name].lerp_(tensor.detach(), 1 - decay)
            else:
                self._average[name].copy_(tensor.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return the average."""
        return dict(self._average)

    def state(self) -> dict[str, Any]:
        """Return nothing: the tensors are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Take an average over."""
        del state
        with torch.no_grad():
            for name, tensor in self._average.items():
                copy_into(tensors[name], tensor)


class Checkpointer:
    """Saves every part of a run, now and then. It listens last, so that all others are in it."""

    def __init__(
        self,
        checkpoints: CheckpointDirectory,
        config: CheckpointConfig,
        parts: Mapping[str, Checkpointable],
        workers: WorkerGroup,
        best_update: Callable[[], int],
    ) -> None:
        self._checkpoints = checkpoints
        self._config = config
        self._parts = parts
        self._workers = workers
        self._best_update = best_update

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> None:
        """Save if it is time, or if this is the best so far."""
        del report
        if progress.update % self._config.interval == 0 or progress.update == self._best_update():
            self.save(progress)

    def save(self, progress: TrainingProgress) -> None:
        """Save now, unless it was done."""
        saved = progress.update in self._checkpoints.saved_updates()
        if not self._workers.broadcast(saved):
            keep = self._workers.is_main
            parts = {name: StateSnapshot(part, keep) for name, part in self._parts.items()}
            best = {self._best_update()}
            self._workers.run_on_main(lambda: self._checkpoints.save(progress.update, parts, best))

    def final_weights(self) -> dict[str, Tensor]:
        """Return the weights that become the model."""
        updates = self._checkpoints.saved_updates()
        best = self._best_update()
        match self._config.final_weights:
            case "best" if best in updates:
                chosen = [best]
            case "average":
                chosen = self._checkpoints.updates_to_average()
            case "ema":
                return StateSnapshot(self._parts["ema"]).tensors()
            case _:
                chosen = updates[-1:]
        files = [self._checkpoints.path(update) / "model.safetensors" for update in chosen]
        return average_checkpoints(files)
