"""Settings of a training run: the recipe's sections on training, and `RunConfig` with all of
them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.data.batch_loader import BatchConfig
from seq2see.data.corpus import DataConfig
from seq2see.errors import ConfigError, InputError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig
from seq2see.text import TokenizerConfig
from seq2see.training.optimizer import OptimizerConfig
from seq2see.training.run_directory import RecipeCompleter
from seq2see.training.schedule import ScheduleConfig


class TrainingConfig(Config):
    """How long to train. Whichever of the three limits comes first ends it."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    """Decides the first weights, the order of the data, and dropout: same seed, same run, if
    `processes` and `threads` are set, for dropout and sums differ with their number."""
    max_updates: int | None = Field(default=None, ge=1)
    """Steps of the optimiser."""
    max_epochs: float | None = Field(default=None, gt=0)
    """Times through the data."""
    max_minutes: float | None = Field(default=None, gt=0)
    """Time, on this machine: the speed is measured at the start, and the schedule planned so that
    training, validations and the last scores end in time."""
    batches_per_update: int = Field(default=1, ge=1)
    """Batches whose gradients are summed for each update, over all processes."""
    processes: int | None = Field(default=None, ge=1)
    """Workers on this machine; each gets its share of every update. Unset: on a CPU one a core (but
    no more than have 1,024 tokens of a batch each), or one with a thread a core, whichever is
    faster here; on other devices one a device."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of each worker. Unset: OMP_NUM_THREADS if that is set (under torchrun, if it is not
    1, which torchrun sets), else all cores, shared."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of matrix products; weights, sums and the optimiser stay in float32. `auto`: bfloat16 on
    devices that have it, float32 on a CPU."""
    fsdp: bool = False
    """Share weights, gradients and moments out among the workers (FSDP2) instead of giving each of
    them a copy: for models that do not fit into the memory of one."""
    init_from: str | None = None
    """Fine-tuning: a model directory to begin with, seen from the recipe. Its tokenizer and its
    architecture are kept; only `model.dropout` may be another."""
    tensorboard: bool = True
    """Write events for TensorBoard too, if it is installed."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a training without an end, and shares for nobody."""
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            yield "one of `max_updates`, `max_epochs` and `max_minutes` must be set"
        if self.fsdp and self.processes == 1:
            yield "`processes` must be at least 2 with `fsdp`, but is 1 instead"


class ValidationConfig(Config):
    """How the model is watched while it learns."""

    interval: int = Field(default=500, ge=1)
    """Updates between two looks at the validation set."""
    metric: Literal["loss", "bleu", "chrf"] = "bleu"
    """What the best checkpoint is the best by."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many looks without a better score. Unset: never."""
    beam_size: int = Field(default=1, ge=1, le=100)
    """How wide to search when translating the validation set."""
    max_sentences: int = Field(default=1000, ge=1)
    """Translate at most so many sentences of it; the loss is over all that fit max_length."""
    num_examples: int = Field(default=3, ge=0)
    """Translations to show each time."""


class CheckpointConfig(Config):
    """What is kept, and what becomes the model in the end."""

    interval: int = Field(default=500, ge=1)
    """Updates between two checkpoints."""
    keep_last: int = Field(default=5, ge=1)
    """How many of the last are kept; the best is kept too."""
    final_weights: Literal["best", "last", "average", "ema"] = "average"
    """The model: the best checkpoint, the last, the mean of the last that were kept, or the
    exponential moving average."""
    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """How much of the moving average each update keeps, e.g. 0.999. 0: there is none."""
    int8_probes: int = Field(default=32, ge=0)
    """Sources of the validation set that are kept beside the model, as text: int8 is used only
    where they come out as in float32. 0: none, and no int8."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a result that is never made."""
        if self.final_weights == "ema" and not self.ema_decay:
            yield '`ema_decay` must be above 0 with final_weights = "ema", but is 0 instead'


def compute_model_checksums(
    init_from: str | None, teacher: str | None, base_directory: Path
) -> dict[str, str]:
    """Return what tells other weights in the same place: the SHA-256 of their files."""
    named = {"train.init_from": init_from, "loss.teacher": teacher}
    return {
        key: _checksum(resolve_model_path(path, base_directory, key))
        for key, path in named.items()
        if path
    }


def resolve_model_path(path: str, origin: Path, key: str) -> Path:
    expanded = os.path.expandvars(path)
    if "$" in expanded:
        raise ConfigError([f"`{key}` must name variables that are set, but is {expanded} instead"])
    return origin / expanded


def _checksum(directory: Path) -> str:
    try:
        with (directory / "model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}") from None


ModelConfigFactory = Callable[[int, int | None], ModelConfig]
"""The model's config, for a number of source pieces and, if it is another, of target pieces."""


@dataclass(frozen=True)
class RunConfig:
    """What a recipe has, part by part."""

    data: DataConfig
    tokenizer: TokenizerConfig
    batches: BatchConfig
    build_model_config: ModelConfigFactory
    loss: LossConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    training: TrainingConfig
    validation: ValidationConfig
    checkpoints: CheckpointConfig
    base_directory: Path
    """The folder of the recipe, from which names of files are seen."""
    recipe: Mapping[str, Any]
    """All of it as plain JSON, to be kept with the run."""
    complete_recipe: RecipeCompleter = dict
    """Gives such a recipe of an earlier version the keys that have come since."""
    model_overrides: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe says of the model beyond its preset. Fine-tuning may change dropout alone."""

    @property
    def model_checksums(self) -> dict[str, str]:
        """The checksums of the models that the run builds on."""
        return compute_model_checksums(
            self.training.init_from, self.loss.teacher, self.base_directory
        )
