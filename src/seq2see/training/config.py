"""How long to train, and how often to look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from seq2see.config import Config


class TrainingConfig(Config):
    """How long to train. Whichever of the three limits comes first ends it."""

    seed: int = Field(default=1, ge=0, lt=2**63)
    """Decides the first weights, the order of the data, and dropout: same seed, same run, if
    `processes` and `threads` are set, for dropout and sums differ with their number."""
    updates: int | None = Field(default=None, ge=1)
    """Steps of the optimiser."""
    epochs: float | None = Field(default=None, gt=0)
    """Times through the data."""
    minutes: float | None = Field(default=None, gt=0)
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
    sharding: bool = False
    """Share weights, gradients and moments out among the workers (FSDP2) instead of giving each of
    them a copy: for models that do not fit into the memory of one."""
    start: str | None = None
    """Fine-tuning: a model directory to begin with, seen from the recipe. Its tokenizer and its
    architecture are kept; only `model.dropout` may be another."""
    tensorboard: bool = True
    """Write events for TensorBoard too, if it is installed."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a training without an end, and shares for nobody."""
        if self.updates is None and self.epochs is None and self.minutes is None:
            yield "`updates`, `epochs` or `minutes` must be given: when does training end?"
        if self.sharding and self.processes == 1:
            yield "`processes` must be at least 2 with `sharding`, but is 1 instead"


class ValidationConfig(Config):
    """How the model is watched while it learns."""

    every: int = Field(default=500, ge=1)
    """Updates between two looks at the validation set."""
    metric: Literal["loss", "bleu", "chrf"] = "bleu"
    """What the best checkpoint is the best by."""
    patience: int | None = Field(default=None, ge=1)
    """Stop after so many looks without a better score. Unset: never."""
    beam_size: int = Field(default=1, ge=1, le=100)
    """How wide to search when translating the validation set."""
    sentences: int = Field(default=1000, ge=1)
    """Translate at most so many sentences of it; the loss is over all that fit max_length."""
    samples: int = Field(default=3, ge=0)
    """Translations to show each time."""


class CheckpointsConfig(Config):
    """What is kept, and what becomes the model in the end."""

    every: int = Field(default=500, ge=1)
    """Updates between two checkpoints."""
    keep: int = Field(default=5, ge=1)
    """How many of the last are kept; the best is kept too."""
    result: Literal["best", "last", "mean", "ema"] = "mean"
    """The model: the best checkpoint, the last, the mean of the last that were kept, or the
    exponential moving average."""
    ema: float = Field(default=0.0, ge=0, lt=1)
    """How much of the moving average each update keeps, e.g. 0.999. 0: there is none."""
    probes: int = Field(default=32, ge=0)
    """Sources of the validation set that are kept beside the model, as text: int8 is used only
    where they come out as in float32. 0: none, and no int8."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a result that is never made."""
        if self.result == "ema" and not self.ema:
            yield "`ema` must be above 0 if it is the result, but is 0 instead"
