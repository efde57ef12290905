"""Settings of a run: the training sections of a recipe, and `RunConfig` with all sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from seq2see.config import Config
from seq2see.cpu import MAX_THREADS
from seq2see.data.batch_loader import BatchConfig
from seq2see.data.corpus_config_and_reading import DataConfig
from seq2see.errors import ConfigError, Problem
from seq2see.loss import LossConfig
from seq2see.model import ATTENTION_KINDS, ModelConfig
from seq2see.registries import ValidationMetric
from seq2see.text import PAD_ID, TokenizerConfig
from seq2see.training.optimization import OptimizerConfig, ScheduleConfig

MAX_PROCESSES = 1024
"""Maximum number of worker processes on a machine."""


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
    processes: int | None = Field(default=None, ge=1, le=MAX_PROCESSES)
    """Number of worker processes on this machine. Default: one per GPU; on a CPU, one per core
    (with at least 1,024 tokens per batch each) or a single one with all threads, whichever is
    faster."""
    threads: int | None = Field(default=None, ge=1, le=MAX_THREADS)
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

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if training has no limit, or FSDP a single process."""
        if self.max_updates is None and self.max_epochs is None and self.max_minutes is None:
            yield Problem("max_updates", "must be set, or `max_epochs`, or `max_minutes`")
        if self.fsdp and self.processes == 1:
            yield Problem("processes", "must be at least 2 with `fsdp`, but is 1 instead")


class ValidationConfig(Config):
    """Validation during training."""

    interval: int = Field(default=500, ge=1)
    """Number of updates between validations."""
    metric: ValidationMetric = "bleu"
    """Metric that selects the best checkpoint. With `loss`, only the examples are translated."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after this number of validations without improvement. Default: never."""
    beam_size: int = Field(default=1, ge=1, le=100)
    """Beam size for translating the validation set."""
    max_sentences: int = Field(default=1000, ge=1)
    """Maximum number of sentences to translate, from the start of the validation set. The loss uses
    all pairs within `batches.max_length`."""
    num_examples: int = Field(default=3, ge=0)
    """Number of example translations to print per validation."""

    @property
    def max_translations(self) -> int:
        """Maximum number of sentences that a validation translates."""
        return self.num_examples if self.metric == "loss" else self.max_sentences


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

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if the final weights are an average that is not computed."""
        if self.final_weights == "ema" and not self.ema_decay:
            yield Problem(
                "ema_decay", 'must be above 0 with final_weights = "ema", but is 0 instead'
            )


_FROM_TOKENIZER = ("vocab_size", "target_vocab_size", "pad_id")


class RunConfig(Config):
    """All settings of a training run."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    batches: BatchConfig = BatchConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    train: TrainingLimitsAndHardwareConfig
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    model: dict[str, Any] = Field(default_factory=lambda: {"preset": "base"})
    """Model architecture: a preset (tiny, small, base, big), and settings that differ from it."""

    @field_validator("model")
    @classmethod
    def _check_model(cls, model: dict[str, Any]) -> dict[str, Any]:
        """Report the problems of the model that do not depend on the vocabulary."""
        _build_model_config(model, TokenizerConfig().vocab_size)
        return model

    def conflicts(self) -> Iterator[Problem]:
        """Yield the problems of sections that do not fit together."""
        model = self.build_model_config(self.tokenizer.vocab_size)
        yield from find_length_problems(model, self.batches.max_length, "model")
        if bool(self.loss.teacher) != (self.loss.distillation_weight > 0):
            yield Problem(
                "loss.teacher", "must be given if and only if `loss.distillation_weight` is above 0"
            )
        if self.train.fsdp and self.optimizer.kind == "muon":
            yield Problem(
                "optimizer.kind",
                "must be adam or adamw with `train.fsdp`: muon needs unsharded matrices",
            )
        for corpus in self.data.train:
            if corpus.tag and corpus.tag not in self.tokenizer.user_defined_symbols:
                yield Problem(
                    "tokenizer.user_defined_symbols",
                    f"must have {corpus.tag!r}, the tag of {corpus.files[0]}",
                )

    def build_model_config(
        self, vocab_size: int, target_vocab_size: int | None = None
    ) -> ModelConfig:
        """Return the config of the model; the target size is None for a common vocabulary."""
        return _build_model_config(self.model, vocab_size, target_vocab_size)


def build_demo_config(max_epochs: float, seed: int) -> RunConfig:
    """Return the settings of the demo: a small model of the short form of the built-in corpus."""
    name = "builtin:fables-short"
    return RunConfig.model_validate(
        {
            "data": {
                "languages": ["en", "fr"],
                "train": [{"files": [name]}],
                "valid": {"files": [f"{name}/valid"]},
            },
            "tokenizer": {"vocab_size": 1200},
            "batches": {"max_tokens": 2048, "max_length": 64},
            "train": {"max_epochs": max_epochs, "seed": seed},
            "schedule": {"kind": "cosine", "peak_lr": 0.004, "warmup_updates": 200},
            "validation": {"interval": 400, "max_sentences": 200},
            "checkpoints": {"interval": 400, "keep_last": 1, "final_weights": "last"},
            "model": {
                "preset": "tiny",
                "encoder_layers": 2,
                "decoder_layers": 2,
                "norm": {"placement": "pre"},
            },
        }
    )


def find_length_problems(config: ModelConfig, max_length: int, key: str) -> Iterator[Problem]:
    """Yield a problem for each part of a model that supports only shorter sentences.

    `key` is the recipe key of the model.
    """
    attention = config.resolve_attention("encoder_attention")
    limits = {"positions": config.max_positions}
    if "max_length" in ATTENTION_KINDS[attention.kind].settings:
        limits["encoder_attention"] = attention.max_length
    for name, limit in limits.items():
        if limit is not None and limit <= max_length:
            yield Problem(
                "batches.max_length",
                f"must be at most {limit - 1}, since {name}.max_length of `{key}` is {limit}, "
                f"including the end token, but is {max_length} instead",
            )


def list_model_setting_names() -> list[str]:
    """Return the keys of the section `model`, without those that the tokenizer determines."""
    return ["preset", *(name for name in ModelConfig.model_fields if name not in _FROM_TOKENIZER)]


def _build_model_config(
    model: Mapping[str, Any], vocab_size: int, target_vocab_size: int | None = None
) -> ModelConfig:
    settings = {"preset": "base", **model}
    preset = settings.pop("preset")
    if not isinstance(preset, str):
        raise ConfigError(Problem("preset", f"must be a string, but is {preset!r} instead"))
    if given := [name for name in _FROM_TOKENIZER if name in settings]:
        raise ConfigError(
            *(Problem(name, "must be left out: the tokenizer determines it") for name in given)
        )
    sizes = {"vocab_size": vocab_size, "target_vocab_size": target_vocab_size}
    return ModelConfig.from_preset(preset, {**settings, **sizes, "pad_id": PAD_ID})
