"""Choose the number of processes, threads and updates of a run by measuring its speed."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from itertools import islice

import torch

from seq2see.cpu import count_available_cores
from seq2see.data.batch_sampler import START_POSITION
from seq2see.training.builder import RunBuilder
from seq2see.training.config import ValidationConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.run_directory import RunPlan

MIN_TOKENS_PER_WORKER = 1024
"""Minimum number of tokens per batch and worker: with fewer, synchronization dominates."""


def choose_threads(requested: int | None, processes: int, may_choose_processes: bool = True) -> int:
    """Return the number of threads of each process on this machine.

    The setting of the recipe comes first, then OMP_NUM_THREADS, then the number of cores per
    process. Without `may_choose_processes`, torchrun has started the processes; it sets
    OMP_NUM_THREADS to 1 by default, which is ignored.
    """
    variable = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    is_valid = variable.isdecimal() and int(variable) > 0
    if requested is None and is_valid and (may_choose_processes or variable != "1"):
        requested = int(variable)
    return requested or max(1, count_available_cores() // processes)


def choose_processes(requested: int | None, batch_tokens: int) -> int:
    """Return the number of worker processes to start on this machine.

    By default one per accelerator; on a CPU one per core, with at least MIN_TOKENS_PER_WORKER
    tokens per batch each.
    """
    if requested:
        return requested
    if torch.accelerator.is_available():
        return torch.accelerator.device_count()
    return max(1, min(count_available_cores(), batch_tokens // MIN_TOKENS_PER_WORKER))


MEASUREMENT_SECONDS = 4.0
"""Approximate time to measure updates."""
_MAX_MEASURED_UPDATES = 50
_MAX_MEASURED_FRACTION = 0.1
"""Maximum fraction of the updates of the run that are measured."""
_MAX_EVALUATION_FRACTION = 0.5
"""Maximum fraction of `train.max_minutes` that is reserved for the final scores."""

FINAL_EVALUATION = ValidationConfig(beam_size=5, max_sentences=10**9)
"""Settings of the final scores: beam search on the complete validation and test sets."""


def plan_processes_and_updates(
    builder: RunBuilder, may_choose_processes: bool = True, seconds: float = MEASUREMENT_SECONDS
) -> RunPlan:
    """Choose processes, threads and updates by measuring updates for about `seconds`.

    Without `may_choose_processes`, the number of processes was set by torchrun.
    """
    start = time.perf_counter()
    training, workers = builder.run_config.train, builder.workers
    torch.set_num_threads(
        choose_threads(training.threads, workers.local_world_size, may_choose_processes)
    )
    objective = builder.build_objective()
    update_seconds = {workers.world_size: measure_update_seconds(builder, objective, seconds)}
    validation, final = _estimate_evaluations(builder, objective)
    is_chosen = may_choose_processes and training.processes is None and not training.fsdp
    if is_chosen and workers.world_size > 1:
        single_seconds = 0.0
        if workers.is_main:  # with all threads, while the others wait
            single = replace(builder, workers=WorkerCommunicator())
            torch.set_num_threads(choose_threads(training.threads, 1))
            single_seconds = measure_update_seconds(single, single.build_objective())
        update_seconds[1] = float(workers.broadcast(single_seconds))
    processes = min(update_seconds, key=lambda count: update_seconds[count])
    local_processes = workers.local_world_size if processes == workers.world_size else 1
    elapsed = float(workers.broadcast(time.perf_counter() - start))
    return RunPlan(
        _plan_updates(builder, update_seconds[processes], validation, final, elapsed),
        processes,
        choose_threads(training.threads, local_processes, may_choose_processes),
        update_seconds[processes],
        validation,
        final,
    )


def measure_update_seconds(
    builder: RunBuilder, objective: Objective, seconds: float = MEASUREMENT_SECONDS
) -> float:
    """Return the seconds per update, measured on a model that is discarded."""
    updater = builder.build_updater(objective, num_updates=1)
    max_updates = builder.run_config.train.max_updates or 10**9
    max_measured = min(_MAX_MEASURED_UPDATES, math.ceil(_MAX_MEASURED_FRACTION * max_updates))
    times = []
    updates = islice(builder.build_loader().updates(), max(3, max_measured))
    for number, update in enumerate(updates, 1):
        start = time.perf_counter()
        updater(number, update.batches)
        times.append(time.perf_counter() - start)
        if builder.workers.broadcast(number >= 2 and sum(times) >= seconds):
            break
    mean_seconds = sum(times[1:]) / len(times[1:])  # the first update is a warm-up
    return float(builder.workers.broadcast(mean_seconds))


def _estimate_evaluations(builder: RunBuilder, objective: Objective) -> tuple[float, float]:
    """Return the seconds of one validation and of the final scores."""
    broadcast = builder.workers.broadcast
    evaluator = builder.build_evaluator("data.valid")
    validation_seconds = evaluator.estimate_seconds(objective, builder.run_config.validation)
    final_seconds = evaluator.estimate_seconds(objective, FINAL_EVALUATION)
    repetitions = 2.0  # one for each stop rule
    if "data.test" in builder.corpora:
        test_evaluator = builder.build_evaluator("data.test")
        repetitions += test_evaluator.source_tokens / evaluator.source_tokens
    return float(broadcast(validation_seconds)), float(broadcast(repetitions * final_seconds))


def _plan_updates(
    builder: RunBuilder,
    update_seconds: float,
    validation_seconds: float,
    final_seconds: float,
    elapsed: float = 0.0,
) -> int:
    """Return the number of updates that all limits of the recipe allow.

    `elapsed` is the time that the measurement has taken.
    """
    training, limits = builder.run_config.train, []
    if training.max_updates:
        limits.append(float(training.max_updates))
    if training.max_epochs:
        first_epoch = builder.batch_sampler.remaining_updates(START_POSITION)
        limits.append(training.max_epochs * sum(1 for _ in first_epoch))  # others differ little
    if training.max_minutes:
        available = 60 * training.max_minutes - elapsed
        reserved = min(final_seconds, _MAX_EVALUATION_FRACTION * available)
        per_update = update_seconds + validation_seconds / builder.run_config.validation.interval
        limits.append(max(1.0, (available - reserved) / per_update))
    return math.ceil(min(limits))
