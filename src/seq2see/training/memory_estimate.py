"""A lower bound of the memory that a run needs, compared with the memory of the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

import torch

from seq2see.bundle import count_weights
from seq2see.cpu import find_memory_size
from seq2see.errors import ConfigError, Problem
from seq2see.model import ModelConfig
from seq2see.training.config import RunConfig

GB = 1e9
_PROCESS_BYTES = 150_000_000
"""Memory of a worker process without its tensors."""
_FLOAT_BYTES = 4
_ACTIVATIONS_PER_TOKEN = 6
"""Stored vectors of size d_model per token and layer: input of the projections, queries, keys,
values, output of attention, input of the feed-forward network."""
_REFERENCE = ModelConfig(vocab_size=37_000)
_SIZES = ("d_model", "d_ff", "encoder_layers", "decoder_layers", "vocab_size")


@dataclass(frozen=True, slots=True)
class TrainingMemoryEstimate:
    """Bytes that the worker processes of one machine need together, at least."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """Values of one batch that are kept for the gradients."""
    processes: float

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return sum(float(getattr(self, part.name)) for part in fields(self))

    def __str__(self) -> str:
        """Return the parts in GB."""
        return ", ".join(f"{p.name} {getattr(self, p.name) / GB:,.1f}" for p in fields(self))


def estimate_training_memory(
    config: RunConfig, model: ModelConfig, local_processes: int, world_size: int
) -> TrainingMemoryEstimate:
    """Return a lower bound for `local_processes` of the `world_size` processes of a run."""
    num_weights = count_weights(model)
    # Each process has a copy, or with FSDP a shard.
    num_copies = local_processes / (world_size if config.train.fsdp else 1)
    bytes_per_value = _FLOAT_BYTES * num_weights * num_copies
    num_moments = 1 if config.optimizer.kind == "muon" else 2
    # About half of the tokens are on each side; feed-forward: the values before the activation.
    vectors = _ACTIVATIONS_PER_TOKEN * model.d_model + model.d_ff
    num_layers = (model.encoder_layers + model.decoder_layers) / 2
    float_bytes = 2 if config.train.precision == "bfloat16" else _FLOAT_BYTES
    tokens = config.batches.max_tokens * local_processes / world_size
    return TrainingMemoryEstimate(
        weights=bytes_per_value * (2 if config.checkpoints.ema_decay else 1),
        gradients=bytes_per_value,
        optimizer=bytes_per_value * num_moments,
        activations=tokens * num_layers * vectors * float_bytes,
        processes=_PROCESS_BYTES * local_processes,
    )


def check_memory(config: RunConfig, model: ModelConfig, processes: int) -> None:
    """Raise ConfigError if training cannot fit into the memory of this machine or its GPUs.

    The error names the setting that should be reduced. `model` may be that of a tokenizer that is
    not trained yet.
    """
    world_size = int(os.environ.get("WORLD_SIZE", processes))
    local = int(os.environ.get("LOCAL_WORLD_SIZE", processes))
    available, device = _find_available_bytes()
    on_gpu = device != "machine"
    estimate = estimate_training_memory(config, model, 1 if on_gpu else local, world_size)
    if estimate.total <= available:
        return
    field, value = _find_largest_setting(config, model, estimate, available)
    raise ConfigError(
        Problem(
            field,
            f"must be lower, but is {value}: training needs at least {estimate.total / GB:,.0f} "
            f"GB of memory ({estimate}), but this {device} has {available / GB:,.0f} GB",
        )
    )


def _find_available_bytes() -> tuple[float, str]:
    """Return the memory of a GPU or, without one, of this machine, and which of them it is."""
    if torch.cuda.is_available():
        return float(torch.cuda.get_device_properties(0).total_memory), "GPU"
    return find_memory_size(), "machine"


def _find_largest_setting(
    config: RunConfig, model: ModelConfig, estimate: TrainingMemoryEstimate, available: float
) -> tuple[str, int | str]:
    """Return the name and value of the setting that exceeds the memory."""
    if estimate.activations > estimate.total / 2:
        return "batches.max_tokens", config.batches.max_tokens
    single = estimate_training_memory(config, model, 1, 1)
    if config.train.processes and single.total <= available:
        return "train.processes", config.train.processes
    if config.train.init_from:
        return "train.init_from", config.train.init_from
    name = max(_SIZES, key=lambda size: getattr(model, size) / getattr(_REFERENCE, size))
    section = "tokenizer" if name == "vocab_size" else "model"
    return f"{section}.{name}", getattr(model, name)
