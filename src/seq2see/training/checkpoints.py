"""The state of a run, and its checkpoints, from which it resumes bit-exactly.

A checkpoint is a directory `checkpoints/000012000`, named after its update. It contains the tensors
of the state (`model.safetensors`, `optimizer.safetensors`, …), `state.json`, and a manifest with
the checksums of all files. It is written to a temporary directory, flushed and renamed, so that it
is either complete or absent: killing the run at any time leaves the previous checkpoint intact.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.atomic_files import (
    PARTIAL_SUFFIX,
    atomic_directory,
    flushed_file,
    read_verified_manifest,
    write_manifest,
)
from seq2see.data.batch_sampler import DataPosition, UpdateBatches
from seq2see.errors import InputError, TrainingError, writing
from seq2see.training.config import CheckpointConfig
from seq2see.training.distributed import WorkerCommunicator, copy_into, full_tensor, shard_like
from seq2see.training.optimization import LearningRateSchedule

STATE_FILE = "state.json"

_AVERAGE_START = 0.75
"""Fraction of the run after which checkpoints are averaged; earlier weights are too poor."""


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
    """Time of the update, including loading its batches."""


@dataclass(slots=True)
class TrainingProgress:
    """Progress of a run: the part of its state that is stored as JSON."""

    update: int = 0
    """Number of finished updates."""
    epoch: int = 0
    """Epoch of the last update, counted from 0."""
    position: DataPosition = field(default_factory=DataPosition)
    """Position in the training data after the last update."""
    tokens: int = 0
    """Number of source and target tokens trained on."""
    seconds: float = 0.0
    """Training time in seconds, including validations, over all interruptions."""
    best_value: float | None = None
    """Best value of the validation metric so far; larger is better."""
    best_update: int = 0
    """Update of the best validation; 0 before the first validation."""
    validations_since_best: int = 0
    unlogged_reports: list[UpdateReport] = field(default_factory=list)
    """Reports of the updates since the last training record of the log."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Build the progress from the JSON form of its fields."""
        reports = [UpdateReport(**report) for report in values["unlogged_reports"]]
        position = DataPosition(*values["position"])
        return cls(**{**values, "position": position, "unlogged_reports": reports})

    def add_update(self, batches: UpdateBatches[Any], report: UpdateReport) -> None:
        """Count an update."""
        self.update += 1
        self.epoch = batches.epoch
        self.position = batches.next_position
        self.tokens += report.target_tokens + report.source_tokens
        self.unlogged_reports.append(report)

    def add_validation(self, value: float) -> bool:
        """Count a validation with this value of the metric; return whether it is the best one."""
        improved = self.best_value is None or value > self.best_value
        if improved:
            self.best_value, self.best_update = value, self.update
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        return improved


@dataclass
class TrainingState:
    """Everything that a run needs to resume bit-exactly."""

    model: nn.Module
    optimizer: Optimizer
    schedule: LearningRateSchedule
    ema: ExponentialMovingAverage | None = None
    progress: TrainingProgress = field(default_factory=TrainingProgress)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors by part and name. Sharded tensors are returned as they are."""
        average = {"ema": self.ema.weights} if self.ema else {}
        optimizer = optimizer_tensors(self.optimizer, self.model)
        return {"model": model_tensors(self.model), "optimizer": optimizer, **average}

    def values(self) -> dict[str, Any]:
        """Return the part of the state that is stored as JSON."""
        return {"progress": asdict(self.progress), "schedule": self.schedule.state()}

    def restore(
        self, tensors: Mapping[str, Mapping[str, Tensor]], values: Mapping[str, Any]
    ) -> None:
        """Set the state; raise InputError if the tensors are those of another model."""
        load_model_tensors(self.model, tensors["model"])
        load_optimizer_tensors(self.optimizer, self.model, tensors["optimizer"])
        if self.ema:
            for name, tensor in self.ema.weights.items():
                copy_into(tensors["ema"][name], tensor)
        self.progress = TrainingProgress.from_json(values["progress"])
        self.schedule.restore(values["schedule"])


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a model by name; tied weights only under their first name."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor.detach()))
    return dict(tensors.values())


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Set the weights of a model; raise InputError if the names are those of another model."""
    own = model_tensors(model)
    if own.keys() != tensors.keys():
        different = sorted(own.keys() ^ tensors.keys())
        raise InputError(f"the weights are those of another model: they differ in {different[0]}")
    for name, tensor in own.items():
        copy_into(tensors[name], tensor)


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return the moments of every weight as `name of the weight/name of the moment`.

    An optimizer has no other state: learning rates come from the schedule.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_optimizer_tensors(
    optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Set the moments of every weight. Raise ValueError if one has another shape."""
    parameters = dict(model.named_parameters())
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        if tensor.dim() and tensor.shape != parameters[name].shape:
            raise ValueError(f"{path} must have the shape of the weight, {parameters[name].shape}")
        optimizer.state[parameters[name]][key] = shard_like(tensor, parameters[name])


class ExponentialMovingAverage:
    """Exponential moving average of the weights.

    The first updates are averaged with equal weights, so that the initial weights soon lose their
    influence.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self._model = model
        self._decay = decay
        self.weights = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
        """Averaged weights by name."""

    def update(self, num_updates: int) -> None:
        """Update the average with the current weights, after this number of updates."""
        decay = min(self._decay, (num_updates - 1) / num_updates)
        for name, tensor in model_tensors(self._model).items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - decay)
            else:
                self.weights[name].copy_(tensor)


class CheckpointDirectory:
    """Directory with the checkpoints of a run.

    It keeps the latest checkpoint, the last `keep_last` regular ones and the best one. Checkpoints
    at multiples of `interval` are regular. The checkpoint of an interruption is not: it is deleted
    when the next one is saved.
    """

    def __init__(self, directory: Path, config: CheckpointConfig) -> None:
        self.directory = directory
        self.config = config

    def path(self, update: int) -> Path:
        """Return the path of the checkpoint of this update."""
        return self.directory / f"{update:09d}"

    def saved_updates(self) -> list[int]:
        """Return the updates that have a checkpoint, in ascending order."""
        names = [path.name for path in self.directory.glob("[0-9]*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def save(self, state: TrainingState, workers: WorkerCommunicator) -> None:
        """Save a checkpoint of the state and delete old ones, unless its update has one.

        All workers must call it. Raise TrainingError if it cannot be written.
        """
        if workers.broadcast(self.path(state.progress.update).exists()):
            return
        tensors = {
            part: gather_on_cpu(own, workers.is_main) for part, own in state.tensors().items()
        }
        workers.run_on_main(lambda: self._save(tensors, state.values(), state.progress))

    def _save(
        self,
        tensors: Mapping[str, Mapping[str, Tensor]],
        values: Mapping[str, Any],
        progress: TrainingProgress,
    ) -> None:
        path = self.path(progress.update)
        try:
            with atomic_directory(path, replace=True) as directory:
                for part, own in tensors.items():
                    with flushed_file(directory / f"{part}.safetensors") as file:
                        save_file(dict(own), file)
                names = {part: sorted(own) for part, own in tensors.items()}
                content = json.dumps({"tensors": names, **values})
                (directory / STATE_FILE).write_text(content, "utf-8")
                write_manifest(directory, {})
        except (OSError, SafetensorError) as error:
            raise TrainingError(
                f"{path} cannot be written: {getattr(error, 'strerror', None) or error}; "
                "earlier checkpoints are intact, use --resume to continue from the last one"
            ) from error
        self._delete_old({progress.best_update, progress.update})

    def set_aside_damaged(self) -> list[str]:
        """Rename damaged checkpoints after the last intact one; return a remark on each of them.

        Raise InputError if there are checkpoints and all of them are damaged.
        """
        damaged: list[int] = []
        for update in reversed(self.saved_updates()):
            if read_verified_manifest(self.path(update)) is not None:
                with writing(self.directory):
                    return [self._set_aside(number, update) for number in damaged]
            damaged.append(update)
        if damaged:
            raise InputError(
                f"all checkpoints in {self.directory} are damaged: delete them to start again"
            )
        return []

    def _set_aside(self, update: int, previous: int) -> str:
        path = self.path(update)
        renamed = path.with_name(f"{path.name}.damaged")
        shutil.rmtree(renamed, ignore_errors=True)
        path.rename(renamed)
        return (
            f"The checkpoint of update {update:,} is damaged: its files do not match their "
            f"checksums. It was renamed to {renamed.name}; training continues from update "
            f"{previous:,}."
        )

    def restore_last(self, state: TrainingState) -> None:
        """Restore the state from the last checkpoint, if there is one.

        The checksums are not compared again; `set_aside_damaged` has done so. Raise InputError if
        the checkpoint cannot be read.
        """
        updates = self.saved_updates()
        if not updates:
            return
        directory = self.path(updates[-1])
        with _reading_checkpoint(directory):
            values = json.loads((directory / STATE_FILE).read_text("utf-8"))
            tensors = {}
            for part, names in values["tensors"].items():
                tensors[part] = load_file(directory / f"{part}.safetensors")
                if missing := sorted(tensors[part].keys() ^ set(names)):
                    raise ValueError(f"{part}.safetensors must have other tensors: {missing[0]}")
            state.restore(tensors, values)

    def final_weights(self, state: TrainingState) -> dict[str, Tensor]:
        """Return the weights of the final model, as `final_weights` of the config selects them."""
        updates, best = self.saved_updates(), state.progress.best_update
        match self.config.final_weights:
            case "ema":
                assert state.ema
                return gather_on_cpu(state.ema.weights)
            case "best" if best in updates:
                chosen = [best]
            case "average":
                chosen = self._updates_to_average()
            case _:
                chosen = updates[-1:]
        return average_checkpoints([self.path(update) for update in chosen])

    def _updates_to_average(self) -> list[int]:
        """Return the updates of the checkpoints to average at the end of a run.

        They are at most `keep_last`: the last one, and the regular ones before it in the last
        quarter of the run. The result does not depend on interruptions.
        """
        updates = self.saved_updates()
        late = [update for update in updates[:-1] if update >= _AVERAGE_START * updates[-1]]
        return [*self._regular(late), *updates[-1:]][-self.config.keep_last :]

    def _regular(self, updates: Iterable[int]) -> list[int]:
        return [update for update in updates if update % self.config.interval == 0]

    def _delete_old(self, protected_updates: set[int]) -> None:
        """Delete the checkpoints that are not kept, and incomplete ones of killed runs."""
        kept = {*self._regular(self.saved_updates())[-self.config.keep_last :], *protected_updates}
        for update in set(self.saved_updates()) - kept:
            # Rename first: if the run is killed now, no incomplete checkpoint keeps a valid name.
            with suppress(OSError):
                path = self.path(update)
                path.rename(path.with_name(path.name + PARTIAL_SUFFIX))
        for path in self.directory.glob(f"*{PARTIAL_SUFFIX}"):
            shutil.rmtree(path, ignore_errors=True)


def gather_on_cpu(tensors: Mapping[str, Tensor], keep: bool = True) -> dict[str, Tensor]:
    """Copy tensors to the CPU.

    Sharded tensors are gathered by all workers, one at a time, so that no device holds more than
    its shards and one full tensor. Workers with `keep=False` take part in the gathering but discard
    the result.
    """
    gathered = {}
    for name, tensor in tensors.items():
        full = full_tensor(tensor)
        if keep:
            gathered[name] = full.cpu()
    return gathered


def average_checkpoints(directories: Sequence[Path]) -> dict[str, Tensor]:
    """Return the mean of the weights in these checkpoints, computed in float64."""
    total: dict[str, Tensor] = {}
    for directory in directories:
        with _reading_checkpoint(directory):
            if read_verified_manifest(directory) is None:
                raise ValueError("its files do not match their checksums")
            weights = load_file(directory / "model.safetensors")
        for name, tensor in weights.items():
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (t / len(directories)).to(weights[name].dtype) for name, t in total.items()}


@contextmanager
def _reading_checkpoint(directory: Path) -> Iterator[None]:
    """Convert errors of reading a checkpoint into an InputError that says what to do."""
    try:
        yield
    except (OSError, ValueError, LookupError, TypeError, AttributeError, SafetensorError) as error:
        raise InputError(
            f"{directory} is damaged: {error}; delete it to continue from the previous one"
        ) from None
