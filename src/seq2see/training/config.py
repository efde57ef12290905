"""Settings of a run: the training sections of a recipe, and `RunConfig` with all sections."""

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
from seq2see.data.corpus_config_and_reading import DataConfig
from seq2see.errors import ConfigError, InputError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig
from seq2see.text import TokenizerConfig
from seq2see.training.optimizers_and_gradient_clipping import OptimizerConfig
from seq2see.training.run_directory import RecipeCompleter
from seq2see.training.schedule import ScheduleConfig


class TrainingLimitsAndHardwareConfig(Config):
    """Length of training and use of the machine. Training ends at the first limit reached."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    """Random seed for initialization, data order and dropout. Results are identical only with the
    same `processes` and `threads`."""
    max_updates: int | None = Field(default=None, ge=1)
    """Maximum number of optimizer updates."""
    max_epochs: float | None = Field(default=None, gt=0)
    """Maximum number of epochs (passes over the training data)."""
    max_minutes: float | None = Field(default=None, gt=0)
    """Maximum time in minutes, including validation and final scoring. The number of updates is
    computed from the speed measured at the start."""
    batches_per_update: int = Field(default=1, ge=1)
    """Number of batches per update over all processes (gradient accumulation)."""
    processes: int | None = Field(default=None, ge=1)
    """Number of worker processes on this machine. Default: one per GPU; on a CPU, one per core
    (with at least 1,024 tokens per batch each) or a single one with all threads, whichever is
    faster."""
    threads: int | None = Field(default=None, ge=1)
    """Number of CPU threads per process. Default: OMP_NUM_THREADS (a 1 set by torchrun is ignored),
    otherwise the number of cores divided by the number of processes."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Data type of matrix products; weights and optimizer state are float32. `auto`: bfloat16 on
    GPUs that support it, otherwise float32."""
    fsdp: bool = False
    """Shard weights, gradients and optimizer state across processes (FSDP2), for models that do not
    fit into the memory of one device."""
    init_from: str | None = None
    """Fine-tuning: model directory to start from, relative to the recipe. Tokenizer and
    architecture are taken from it; only `model.dropout` may differ."""
    tensorboard: bool = True
    """Write TensorBoard event files if tensorboard is installed."""

    def conflicts(self) -> Iterator[str]:
        """Yield a problem if training has no limit, or FSDP a single process."""
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            yield "one of `max_updates`, `max_epochs` and `max_minutes` must be set"
        if self.fsdp and self.processes == 1:
            yield "`processes` must be at least 2 with `fsdp`, but is 1 instead"


class ValidationConfig(Config):
    """Validation during training."""

    interval: int = Field(default=500, ge=1)
    """Number of updates between validations."""
    metric: Literal["loss", "bleu", "chrf"] = "bleu"
    """Metric that selects the best checkpoint."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this number of validations without improvement. Default: never."""
    beam_size: int = Field(default=1, ge=1, le=100)
    """Beam size for translating the validation set."""
    max_sentences: int = Field(default=1000, ge=1)
    """Maximum number of sentences to translate, from the start of the validation set. The loss uses
    all pairs within `batches.max_length`."""
    num_examples: int = Field(default=3, ge=0)
    """Number of example translations to print per validation."""


class CheckpointConfig(Config):
    """Checkpoints and the weights of the final model."""

    interval: int = Field(default=500, ge=1)
    """Number of updates between checkpoints."""
    keep_last: int = Field(default=5, ge=1)
    """Number of recent checkpoints to keep, in addition to the best one."""
    final_weights: Literal["best", "last", "average", "ema"] = "average"
    """Weights of the final model: `best` checkpoint, `last` checkpoint, `average` (of the kept
    checkpoints from the last quarter of the run) or `ema` (exponential moving average)."""
    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Decay of the exponential moving average of the weights, for example 0.999. 0 disables it."""
    int8_probes: int = Field(default=32, ge=0)
    """Number of validation sentences that are stored with the model as plain text. int8 is used
    only if it translates them nearly as float32 does. 0 disables int8."""

    def conflicts(self) -> Iterator[str]:
        """Yield a problem if the final weights are an average that is not computed."""
        if self.final_weights == "ema" and not self.ema_decay:
            yield '`ema_decay` must be above 0 with final_weights = "ema", but is 0 instead'


def compute_pretrained_model_checksums(
    init_from: str | None, teacher: str | None, base_directory: Path
) -> dict[str, str]:
    """Return the SHA-256 of the weights of each model that is set, by recipe key.

    The checksums show whether a path contains other weights than when the run was started.
    """
    paths = {"train.init_from": init_from, "loss.teacher": teacher}
    return {
        key: _checksum(expand_variables_in_model_path(path, base_directory, key))
        for key, path in paths.items()
        if path
    }


def expand_variables_in_model_path(path: str, base_directory: Path, key: str) -> Path:
    """Return the path of a model directory, with environment variables expanded.

    Raise ConfigError for recipe key `key` if a variable is not defined.
    """
    expanded = os.path.expandvars(path)
    if "$" in expanded:
        raise ConfigError([f"`{key}` contains an undefined environment variable: {expanded}"])
    return base_directory / expanded


def _checksum(directory: Path) -> str:
    """Return the SHA-256 of the weights of a model directory."""
    try:
        with (directory / "model.safetensors").open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}") from None


ModelConfigFactory = Callable[[int, int | None], ModelConfig]
"""Builds the model config for a source vocabulary size and a target vocabulary size, which is None
if both sides share a vocabulary."""


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run: the sections of a recipe and what follows from its location."""

    data: DataConfig
    tokenizer: TokenizerConfig
    batches: BatchConfig
    build_model_config: ModelConfigFactory
    loss: LossConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    training: TrainingLimitsAndHardwareConfig
    validation: ValidationConfig
    checkpoints: CheckpointConfig
    base_directory: Path
    """Directory of the recipe; file names are relative to it."""
    recipe: Mapping[str, Any]
    """The recipe as JSON, stored with the run and the model."""
    complete_recipe: RecipeCompleter = dict
    """Adds the defaults of missing keys to a recipe of an earlier version, as JSON."""
    model_overrides: Mapping[str, Any] = field(default_factory=dict)
    """Keys of `[model]` except the preset. Fine-tuning may only change dropout."""

    @property
    def model_checksums(self) -> dict[str, str]:
        """SHA-256 of the weights that the run starts from and of the teacher, by recipe key."""
        return compute_pretrained_model_checksums(
            self.training.init_from, self.loss.teacher, self.base_directory
        )
