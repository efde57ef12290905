"""seq2see with its own training step, in one or several processes."""

from __future__ import annotations

import sys
from itertools import count

import torch
from safetensors.torch import load_file

from benchmarks.turns import take_turns
from seq2see.cpu import gc_frozen, tune_malloc
from seq2see.data.batch_loader import Batch
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID
from seq2see.training.launch import join_worker_group
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.trainer import ModelUpdater


def main() -> None:
    """Train on the batches once per turn."""
    path, preset, vocabulary = sys.argv[1:]
    tune_malloc()
    torch.manual_seed(1)
    config = ModelConfig.from_preset(preset, vocab_size=int(vocabulary))
    with gc_frozen(), join_worker_group() as workers:
        tensors = load_file(path)
        share = slice(workers.rank, None, workers.world_size)
        batches = [
            Batch(tensors[f"source.{i}"][share], tensors[f"target.{i}"][share])
            for i in range(len(tensors) // 2)
        ]
        objective = Objective(
            Transformer.from_config(config), LossConfig(label_smoothing=0.1), PAD_ID
        )
        wrapped = workers.wrap_module(objective)
        optimizer = build_optimizer(OptimizerConfig(), wrapped)
        schedule = LearningRateSchedule(ScheduleConfig(), config.d_model, 1000)
        updater = ModelUpdater(
            wrapped, optimizer, schedule, max_grad_norm=0.0, seed=1, workers=workers
        )
        numbers = count(1)
        take_turns(lambda: [updater(next(numbers), [batch]) for batch in batches])


if __name__ == "__main__":
    main()
