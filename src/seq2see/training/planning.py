"""Choose the number of processes, threads and updates of a run by measuring its speed."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from itertools import islice

import torch

from seq2see.cpu import cores
from seq2see.training.builder import RunBuilder
from seq2see.training.config import ValidationConfig
from seq2see.training.objective import Objective
from seq2see.training.run_directory import RunPlan
from seq2see.training.workers import Workers

ENOUGH = 1024
"""Tokens of a batch for each worker: with fewer they wait for each other more than they compute."""


def threads_of(wanted: int | None, processes: int, free: bool = True) -> int:
    """Return the threads of each of so many processes on this machine.

    What the recipe wants comes first, then what OMP_NUM_THREADS says, as everywhere. Unless it is
    `free`, torchrun has started them, and sets that to 1 of its own accord.
    """
    stated = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted is None and stated.isdecimal() and int(stated) and (free or stated != "1"):
        wanted = int(stated)
    return wanted or max(1, cores() // processes)


def workers_of(wanted: int | None, batch_tokens: int) -> int:
    """Return how many workers to start here: as wanted, or one a device, or one a core.

    On a CPU each has enough tokens of a batch to be busy.
    """
    if wanted:
        return wanted
    if torch.accelerator.is_available():
        return torch.accelerator.device_count()
    return max(1, min(cores(), batch_tokens // ENOUGH))


def started() -> int:
    """Return how many workers torchrun has started on all machines; 0 if it has not."""
    return int(os.environ.get("WORLD_SIZE", "0"))


SECONDS = 4.0
"""Measure updates about so long."""


_MOST = 50
"""Updates, at most."""


_SHARE = 0.1
"""Of the updates that are wanted, at most."""


_END = 0.5
"""Of the time that is given, what the last scores may take from training."""


LAST_LOOK = ValidationConfig(beam_size=5, sentences=10**9)
"""How the result is scored."""


def planned(builder: RunBuilder, free: bool = True, seconds: float = SECONDS) -> RunPlan:
    """Decide on processes, threads and updates, by measuring updates about so long.

    Unless it is `free`, the number of processes was decided by whoever started them.
    """
    start = time.perf_counter()
    training, workers = builder.ingredients.training, builder.workers
    torch.set_num_threads(threads_of(training.threads, workers.here, free))
    objective = builder.objective()
    paces = {workers.count: pace(builder, objective, seconds)}
    look, end = _looks(builder, objective)
    if free and training.processes is None and workers.count > 1 and not training.sharding:
        paces[1] = _alone(builder)
    processes = min(paces, key=lambda count: paces[count])
    here = workers.here if processes == workers.count else 1
    measured = float(workers.agreed(time.perf_counter() - start))
    updates = _updates(builder, paces[processes], look, end, measured)
    threads = threads_of(training.threads, here, free)
    shares = bool(workers.shares_memory)
    return RunPlan(updates, processes, threads, paces[processes], look, end, shares)


def _alone(builder: RunBuilder) -> float:
    """Return the pace of the leader with a thread a core, while the others wait."""
    workers = builder.workers
    seconds = 0.0
    if workers.leads:
        alone = RunBuilder(builder.ingredients, builder.folder, Workers())
        torch.set_num_threads(threads_of(alone.ingredients.training.threads, 1))
        seconds = pace(alone, alone.objective())
    return float(workers.agreed(seconds))


def pace(builder: RunBuilder, objective: Objective, seconds: float = SECONDS) -> float:
    """Return the seconds of an update, measured on a model that is thrown away."""
    stepper = builder.stepper(objective, updates=1)
    wanted = builder.ingredients.training.updates or 10**9
    most = max(3, min(_MOST, math.ceil(_SHARE * wanted)))
    times = []
    for number, update in enumerate(islice(builder.loader().updates(), most), 1):
        start = time.perf_counter()
        stepper(number, update.batches)
        times.append(time.perf_counter() - start)
        if builder.workers.agreed(number >= 2 and sum(times) >= seconds):
            break
    return float(builder.workers.agreed(sum(times[1:]) / len(times[1:])))  # the first one warms up


def _looks(builder: RunBuilder, objective: Objective) -> tuple[float, float]:
    """Return the seconds of a validation, and of the last scores."""
    agreed, validation = builder.workers.agreed, builder.examiner(builder.validation_corpus)
    look = validation.seconds(objective, builder.ingredients.validation)
    last = validation.seconds(objective, LAST_LOOK)
    times = 2.0  # by both stop rules
    if builder.test_corpus:
        times += builder.examiner(builder.test_corpus).tokens / validation.tokens
    return float(agreed(look)), float(agreed(times * last))


def _updates(
    builder: RunBuilder, seconds: float, look: float, end: float, measured: float = 0.0
) -> int:
    """Return how many there will be, where measuring has taken its part of the time."""
    return math.ceil(min(_limits(builder, seconds, look, end, measured)))


def _limits(
    builder: RunBuilder, seconds: float, look: float, end: float, measured: float
) -> Iterator[float]:
    training = builder.ingredients.training
    if training.updates:
        yield training.updates
    if training.epochs:
        yield training.epochs * builder.updates_per_epoch
    if training.minutes:
        given = 60 * training.minutes - measured
        of_an_update = seconds + look / builder.ingredients.validation.every
        yield max(1.0, (given - min(end, _END * given)) / of_an_update)
