"""How fast this machine trains, and so how it is best used and how far it gets in a given time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import islice

import torch

from seq2see.training.builder import RunBuilder
from seq2see.training.run import RunPlan
from seq2see.training.workers import Workers

SECONDS = 4.0
"""Measure about so long."""
_MOST = 50
"""Updates, at most."""


def planned(builder: RunBuilder, cores: int) -> RunPlan:
    """Decide on processes, threads and updates, by measuring where the recipe leaves it open."""
    training, workers = builder.ingredients.training, builder.workers
    paces: dict[int, float] = {}
    if training.minutes or (training.processes is None and workers.count > 1):
        paces[workers.count] = pace(builder, max(1, cores // workers.count))
    if training.processes is None and workers.count > 1:
        paces[1] = _alone(builder, cores)
    processes = min(paces, key=lambda count: paces[count], default=workers.count)
    seconds = paces.get(processes)
    threads = max(1, cores // processes)
    return RunPlan(_updates(builder, seconds), processes, threads, seconds)


def _alone(builder: RunBuilder, cores: int) -> float:
    """Return the pace of the leader with a thread a core, while the others wait."""
    workers = builder.workers
    seconds = 0.0
    if workers.leads:
        seconds = pace(RunBuilder(builder.ingredients, builder.folder, Workers()), cores)
    return float(workers.agreed(seconds))


def pace(builder: RunBuilder, threads: int) -> float:
    """Return the seconds of an update, measured on a model that is thrown away."""
    torch.set_num_threads(threads)
    stepper = builder.stepper(builder.objective(builder.model()), updates=1)
    updates = builder.loader().updates()
    times = []
    for number, update in enumerate(islice(updates, _MOST), 1):
        start = time.perf_counter()
        stepper(number, update.batches)
        times.append(time.perf_counter() - start)
        if builder.workers.agreed(number >= 3 and sum(times) >= SECONDS):
            break
    return float(builder.workers.agreed(sum(times[1:]) / len(times[1:])))  # the first one warms up


def _updates(builder: RunBuilder, seconds: float | None) -> int:
    return math.ceil(min(_limits(builder, seconds)))


def _limits(builder: RunBuilder, seconds: float | None) -> Iterator[float]:
    training = builder.ingredients.training
    if training.updates:
        yield training.updates
    if training.epochs:
        yield training.epochs * builder.updates_per_epoch
    if training.minutes and seconds:
        yield max(1.0, training.minutes * 60 / seconds)
