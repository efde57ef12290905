"""Checkpoints: everything that a run needs to resume bit-exactly, and averages of weights.

A checkpoint is a directory `checkpoints/000012000`, named after its update. It contains the tensors
of each part (`model.safetensors`, `optimizer.safetensors`, …) and one `state.json`. It is written
to a temporary directory, flushed and renamed, so that it is either complete or absent: killing the
run at any time leaves the previous checkpoint intact.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.atomic_files import PARTIAL_SUFFIX, atomic_directory, flushed_file
from seq2see.errors import InputError, TrainingError
from seq2see.training.config import CheckpointConfig
from seq2see.training.distributed import WorkerCommunicator, copy_into, full_tensor, shard_like
from seq2see.training.trainer import TrainingProgress, UpdateReport

STATE_FILE = "state.json"


_AVERAGE_START = 0.75
"""Fraction of the run after which checkpoints are averaged; earlier weights are too poor."""


class SavableState(Protocol):
    """Something with a state: tensors, and values that JSON can represent."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name, each once; sharded tensors are returned as they are."""
        ...

    def state(self) -> dict[str, Any]:
        """Return the part of the state that is stored as JSON."""
        ...


class SavableAndRestorableState(SavableState, Protocol):
    """Something whose state can also be restored."""

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Set the state."""
        ...


class StateSnapshot:
    """Copy of the state of a part on the CPU.

    Sharded tensors are gathered by all workers, one at a time, so that no device holds more than
    its shards and one full tensor. Workers with `keep_tensors=False` take part in the gathering
    but discard the result.
    """

    def __init__(self, part: SavableState, keep_tensors: bool = True) -> None:
        self._tensors = {}
        for name, tensor in part.tensors().items():
            gathered = full_tensor(tensor)
            if keep_tensors:
                self._tensors[name] = gathered.cpu()
        self._state = part.state()

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by name."""
        return self._tensors

    def state(self) -> dict[str, Any]:
        """Return the part of the state that is stored as JSON."""
        return self._state


class CheckpointDirectory:
    """Directory with the checkpoints of a run.

    It keeps the latest checkpoint, the last `keep_last` regular ones and the protected ones.
    Checkpoints at multiples of `interval` are regular. The checkpoint of an interruption is not: it
    is deleted when the next one is saved.
    """

    def __init__(self, directory: Path, keep_last: int, interval: int = 1) -> None:
        self.directory = directory
        self._keep_last = keep_last
        self._interval = interval

    def save(
        self, update: int, parts: Mapping[str, SavableState], protected_updates: Iterable[int] = ()
    ) -> Path:
        """Write a checkpoint and delete old ones; return its path.

        Raise TrainingError if it cannot be written.
        """
        path = self.path(update)
        try:
            with atomic_directory(path, replace=True) as directory:
                self._write(update, parts, directory)
        except (OSError, SafetensorError) as error:
            raise TrainingError(
                f"{path} cannot be written: {getattr(error, 'strerror', None) or error}; "
                "earlier checkpoints are intact, use --resume to continue from the last one"
            ) from error
        self._delete_old({*protected_updates, update})
        return path

    def _write(self, update: int, parts: Mapping[str, SavableState], directory: Path) -> None:
        files = []
        for name, part in parts.items():
            if tensors := part.tensors():
                files.append(f"{name}.safetensors")
                with flushed_file(directory / files[-1]) as path:
                    save_file(tensors, path)
        state = {name: part.state() for name, part in parts.items()}
        content = {"update": update, "files": files, **state}
        (directory / STATE_FILE).write_text(json.dumps(content), "utf-8")

    def restore(self, update: int, parts: Mapping[str, SavableAndRestorableState]) -> None:
        """Restore the state of every part from the checkpoint of this update.

        Raise InputError if the checkpoint is damaged.
        """
        directory = self.path(update)
        with reading_checkpoint(directory):
            state = json.loads((directory / STATE_FILE).read_text("utf-8"))
            for missing in (f for f in state.get("files", ()) if not (directory / f).exists()):
                raise FileNotFoundError(f"{missing} is missing")
            for name, part in parts.items():
                file = directory / f"{name}.safetensors"
                part.restore(load_file(file) if file.exists() else {}, state[name])

    def saved_updates(self) -> list[int]:
        """Return the updates that have a checkpoint, in ascending order."""
        names = [path.name for path in self.directory.glob("[0-9]*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def updates_to_average(self) -> list[int]:
        """Return the updates of the checkpoints to average at the end of a run.

        They are at most `keep_last`: the last one, and the regular ones before it in the last
        quarter of the run. The result does not depend on interruptions.
        """
        updates = self.saved_updates()
        late = [update for update in updates[:-1] if update >= _AVERAGE_START * updates[-1]]
        return [*self._regular(late), *updates[-1:]][-self._keep_last :]

    def _regular(self, updates: Iterable[int]) -> list[int]:
        return [update for update in updates if update % self._interval == 0]

    def path(self, update: int) -> Path:
        """Return the path of the checkpoint of this update."""
        return self.directory / f"{update:09d}"

    def _delete_old(self, protected_updates: set[int]) -> None:
        kept = {*self._regular(self.saved_updates())[-self._keep_last :], *protected_updates}
        self._delete_partial()
        for update in self.saved_updates():
            # Rename first: if the run is killed now, no incomplete checkpoint keeps a valid name.
            if update not in kept:
                with suppress(OSError):
                    path = self.path(update)
                    path.rename(path.with_name(path.name + PARTIAL_SUFFIX))
        self._delete_partial()

    def _delete_partial(self) -> None:
        """Delete incomplete checkpoints: not completely written, or to be deleted."""
        for path in self.directory.glob(f"*{PARTIAL_SUFFIX}"):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def reading_checkpoint(directory: Path) -> Iterator[None]:
    """Convert errors of reading a checkpoint into an InputError that says what to do."""
    try:
        yield
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(
            f"{directory} is damaged: {error}; delete it to continue from the previous one"
        ) from None


class ModelCheckpointAdapter:
    """State of a model: its weights; tied weights are stored once."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name."""
        return {
            name: tensor.detach() for name, tensor in state_without_duplicates(self._model).items()
        }

    def state(self) -> dict[str, Any]:
        """Return an empty state: the weights are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Set the weights; raise InputError if the names are not those of the model."""
        del state
        own = state_without_duplicates(self._model)
        if own.keys() != tensors.keys():
            different = sorted(own.keys() ^ tensors.keys())
            raise InputError(
                f"the weights are those of another model: they differ in {different[0]}"
            )
        for name, tensor in own.items():
            copy_into(tensors[name], tensor)


def state_without_duplicates(module: nn.Module) -> dict[str, Tensor]:
    """Return the state of a module; tied tensors appear only under their first name."""
    seen: set[int] = set()
    state = module.state_dict(keep_vars=True).items()
    return {name: t for name, t in state if id(t) not in seen and not seen.add(id(t))}  # type: ignore[func-returns-value]


class OptimizerCheckpointAdapter:
    """State of an optimizer: the moments of every weight, by the name of the weight."""

    def __init__(self, optimizer: Optimizer, model: nn.Module) -> None:
        self._optimizer = optimizer
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def tensors(self) -> dict[str, Tensor]:
        """Return the moments by name."""
        return {
            f"{self._names[id(parameter)]}/{key}": value
            for parameter, state in self._optimizer.state.items()
            for key, value in state.items()
        }

    def state(self) -> dict[str, Any]:
        """Return an empty state: learning rates come from the schedule."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Set the moments."""
        del state
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                prefix = f"{self._names[id(parameter)]}/"
                self._optimizer.state[parameter] = {
                    name.removeprefix(prefix): shard_like(tensor, parameter)
                    for name, tensor in tensors.items()
                    if name.startswith(prefix)
                }


class HasJsonState(Protocol):
    """Something whose state can be represented as JSON."""

    def state(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the state."""
        ...


class JsonCheckpointAdapter:
    """Adapter for a part without tensors."""

    def __init__(self, part: HasJsonState) -> None:
        self._part = part

    def tensors(self) -> dict[str, Tensor]:
        """Return no tensors."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return the state."""
        return self._part.state()

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Set the state."""
        del tensors
        self._part.restore(state)


def average_checkpoints(files: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in these files, computed in float64."""
    total: dict[str, Tensor] = {}
    for file in files:
        with reading_checkpoint(file.parent):
            weights = load_file(file)
        for name, tensor in weights.items():
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (t / len(files)).to(weights[name].dtype) for name, t in total.items()}


class ExponentialMovingAverage:
    """Exponential moving average of the weights.

    The first updates are averaged with equal weights, so that the initial weights soon lose their
    influence.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self._average = {
            name: t.detach().clone() for name, t in state_without_duplicates(model).items()
        }

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> None:
        """Update the average with the current weights."""
        del report
        decay = min(self._decay, (progress.update - 1) / progress.update)
        for name, tensor in state_without_duplicates(self._model).items():
            if tensor.is_floating_point():
                self._average[name].lerp_(tensor.detach(), 1 - decay)
            else:
                self._average[name].copy_(tensor.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return the averaged weights by name."""
        return dict(self._average)

    def state(self) -> dict[str, Any]:
        """Return an empty state: the tensors are all."""
        return {}

    def restore(self, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Set the averaged weights."""
        del state
        with torch.no_grad():
            for name, tensor in self._average.items():
                copy_into(tensors[name], tensor)


class CheckpointSaver:
    """Listener that saves checkpoints. It must come last: it saves the state of the others."""

    def __init__(
        self,
        checkpoints: CheckpointDirectory,
        config: CheckpointConfig,
        parts: Mapping[str, SavableAndRestorableState],
        workers: WorkerCommunicator,
        best_update: Callable[[], int],
    ) -> None:
        self._checkpoints = checkpoints
        self._config = config
        self._parts = parts
        self._workers = workers
        self._best_update = best_update

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> None:
        """Save a checkpoint at each interval and at the best update so far."""
        del report
        if progress.update % self._config.interval == 0 or progress.update == self._best_update():
            self.save(progress)

    def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint of this update, unless it exists."""
        is_saved = progress.update in self._checkpoints.saved_updates()
        if not self._workers.broadcast(is_saved):
            is_main = self._workers.is_main
            parts = {name: StateSnapshot(part, is_main) for name, part in self._parts.items()}
            best = {self._best_update()}
            self._workers.run_on_main(lambda: self._checkpoints.save(progress.update, parts, best))

    def final_weights(self) -> dict[str, Tensor]:
        """Return the weights of the final model, as `checkpoints.final_weights` selects them."""
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
