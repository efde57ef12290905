"""Choose the number of processes, threads and updates of a run by measuring its speed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from itertools import islice

import torch

from seq2see.cpu import count_available_cores
from seq2see.training.builder import RunBuilder
from seq2see.training.config import ValidationConfig
from seq2see.training.objective import Objective
from seq2see.training.run_directory import RunPlan
from seq2see.training.workers import WorkerGroup

MIN_TOKENS_PER_WORKER = 1024
"""Tokens of a batch for each worker: with fewer they wait for each other more than they compute."""


def choose_threads(requested: int | None, processes: int, may_choose_processes: bool = True) -> int:
    """Return the threads of each of so many processes on this machine.

    What the recipe wants comes first, then what OMP_NUM_THREADS says, as everywhere. Unless it is
    `free`, torchrun has started them, and sets that to 1 of its own accord.
    """
    stated = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if (
        requested is None
        and stated.isdecimal()
        and int(stated)
        and (may_choose_processes or stated != "1")
    ):
        requested = int(stated)
    return requested or max(1, count_available_cores() // processes)


def choose_processes(requested: int | None, batch_tokens: int) -> int:
    """Return how many workers to start here: as wanted, or one a device, or one a core.

    On a CPU each has enough tokens of a batch to be busy.
    """
    if requested:
        return requested
    if torch.accelerator.is_available():
        return torch.accelerator.device_count()
    return max(1, min(count_available_cores(), batch_tokens // MIN_TOKENS_PER_WORKER))


def torchrun_world_size() -> int:
    """Return how many workers torchrun has started on all machines; 0 if it has not."""
    return int(os.environ.get("WORLD_SIZE", "0"))


MEASUREMENT_SECONDS = 4.0
"""Measure updates about so long."""


_MOST = 50
"""Updates, at most."""


_SHARE = 0.1
"""Of the updates that are wanted, at most."""


_END = 0.5
"""Of the time that is given, what the last scores may take from training."""


FINAL_EVALUATION = ValidationConfig(beam_size=5, max_sentences=10**9)
"""How the result is scored."""


def plan_run(
    builder: RunBuilder, may_choose_processes: bool = True, seconds: float = MEASUREMENT_SECONDS
) -> RunPlan:
    """Decide on processes, threads and updates, by measuring updates about so long.

    Unless it is `free`, the number of processes was decided by whoever started them.
    """
    start = time.perf_counter()
    training, workers = builder.run_config.training, builder.workers
    torch.set_num_threads(
        choose_threads(training.threads, workers.local_world_size, may_choose_processes)
    )
    objective = builder.build_objective()
    paces = {workers.world_size: measure_update_seconds(builder, objective, seconds)}
    look, end = _looks(builder, objective)
    if (
        may_choose_processes
        and training.processes is None
        and workers.world_size > 1
        and not training.fsdp
    ):
        paces[1] = _alone(builder)
    processes = min(paces, key=lambda count: paces[count])
    here = workers.local_world_size if processes == workers.world_size else 1
    measured = float(workers.broadcast(time.perf_counter() - start))
    updates = _updates(builder, paces[processes], look, end, measured)
    threads = choose_threads(training.threads, here, may_choose_processes)
    shares = bool(workers.uses_shared_memory)
    return RunPlan(updates, processes, threads, paces[processes], look, end, shares)


def _alone(builder: RunBuilder) -> float:
    """Return the pace of the leader with a thread a core, while the others wait."""
    workers = builder.workers
    seconds = 0.0
    if workers.is_main:
        alone = RunBuilder(builder.run_config, builder.directory, WorkerGroup())
        torch.set_num_threads(choose_threads(alone.run_config.training.threads, 1))
        seconds = measure_update_seconds(alone, alone.build_objective())
    return float(workers.broadcast(seconds))


def measure_update_seconds(
    builder: RunBuilder, objective: Objective, seconds: float = MEASUREMENT_SECONDS
) -> float:
    """Return the seconds of an update, measured on a model that is thrown away."""
    stepper = builder.build_updater(objective, num_updates=1)
    wanted = builder.run_config.training.max_updates or 10**9
    most = max(3, min(_MOST, math.ceil(_SHARE * wanted)))
    times = []
    for number, update in enumerate(islice(builder.build_loader().updates(), most), 1):
        start = time.perf_counter()
        stepper(number, update.batches)
        times.append(time.perf_counter() - start)
        if builder.workers.broadcast(number >= 2 and sum(times) >= seconds):
            break
    return float(
        builder.workers.broadcast(sum(times[1:]) / len(times[1:]))
    )  # the first one warms up


def _looks(builder: RunBuilder, objective: Objective) -> tuple[float, float]:
    """Return the seconds of a validation, and of the last scores."""
    agreed, validation = (
        builder.workers.broadcast,
        builder.build_evaluator(builder.validation_corpus),
    )
    look = validation.estimate_seconds(objective, builder.run_config.validation)
    last = validation.estimate_seconds(objective, FINAL_EVALUATION)
    times = 2.0  # by both stop rules
    if builder.test_corpus:
        times += (
            builder.build_evaluator(builder.test_corpus).source_tokens / validation.source_tokens
        )
    return float(agreed(look)), float(agreed(times * last))


def _updates(
    builder: RunBuilder, seconds: float, look: float, end: float, measured: float = 0.0
) -> int:
    """Return how many there will be, where measuring has taken its part of the time."""
    return math.ceil(min(_limits(builder, seconds, look, end, measured)))


def _limits(
    builder: RunBuilder, seconds: float, look: float, end: float, measured: float
) -> Iterator[float]:
    training = builder.run_config.training
    if training.max_updates:
        yield training.max_updates
    if training.max_epochs:
        yield training.max_epochs * builder.updates_per_epoch
    if training.max_minutes:
        given = 60 * training.max_minutes - measured
        of_an_update = seconds + look / builder.run_config.validation.interval
        yield max(1.0, (given - min(end, _END * given)) / of_an_update)
