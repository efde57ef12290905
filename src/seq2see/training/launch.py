"""Start worker processes with torchrun's elastic agent and join them to a process group."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from seq2see.errors import TrainingError
from seq2see.training.workers import DdpWorkerGroup, FsdpWorkerGroup, WorkerGroup

_TO_SAVE = 600
"""Seconds that the agent gives workers to finish a validation and to save, before it kills them."""


def is_torchrun_worker() -> bool:
    """Whether torchrun, or `launch`, has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "WORLD_SIZE" in os.environ


def launch_workers(function: Callable[..., Any], processes: int, *arguments: Any) -> dict[int, Any]:
    """Run a function of a module in so many processes; return what each of them returned.

    A process that dies is started again with the others, up to three times.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_TO_SAVE))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=3,
        monitor_interval=0.2,
    )
    try:
        with _silent():
            return dict(elastic_launch(config, function)(*arguments))
    except SignalException as error:
        name = signal.Signals(error.sigval).name
        raise TrainingError(
            f"stopped by {name}; --resume goes on from the last checkpoint"
        ) from None
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        raise TrainingError(f"a worker died: {failure.message}") from None


@contextmanager
def _silent() -> Iterator[None]:
    """Let the agent say nothing: what happens to workers becomes one line of ours.

    Each of torch's loggers has a level of its own, so that there is no one to ask but all.
    """
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


_MOMENT = 0.02
"""Seconds between two looks at the store."""


def new_rendezvous_store(store: Store, rank: int, world_size: int) -> Store:
    """Return a part of the store that is new, and the same for all workers of this start.

    Each says hello with a name that it has just drawn. The leader answers with a list of the names
    that it read. Only who finds the own name there believes it: all else is of an earlier start.
    """
    name = secrets.token_hex(8)
    if rank == 0:
        _lead(store, name, world_size)
    else:
        name = _follow(store, rank, name)
    return PrefixStore(name, store)


def _lead(store: Store, name: str, count: int) -> None:
    others = range(1, count)
    while not all(store.check([f"{name}/{rank}"]) for rank in others):
        heard = {rank: store.get(f"hello/{rank}").decode() for rank in others}
        store.set("list", json.dumps({"name": name, "heard": heard}))
        time.sleep(_MOMENT)


def _follow(store: Store, rank: int, own: str) -> str:
    """Return the name of the leader that has heard of this worker."""
    store.set(f"hello/{rank}", own)
    while (said := json.loads(store.get("list")))["heard"].get(str(rank)) != own:
        time.sleep(_MOMENT)
    name = str(said["name"])
    store.set(f"{name}/{rank}", "here")
    return name


_PATIENCE = timedelta(days=1)
"""How long to wait for the others: the leader may have a large corpus to encode."""


_TO_LET_GO = 0.3
"""Seconds that gloo's threads get to let go of the last tensors before the process may end.

They do so a moment after those who wait were woken, and need the interpreter for it. One that is
about to end throws them out, and that aborts the process (torch 2.13; nothing says they are done).
"""


@contextmanager
def join_worker_group(fsdp: bool = False) -> Iterator[WorkerGroup]:
    """Give the workers that torchrun started, or this process alone."""
    if "WORLD_SIZE" not in os.environ:
        yield WorkerGroup()
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, count = next(rendezvous("env://", timeout=_PATIENCE))
    store = new_rendezvous_store(store, rank, count)
    dist.init_process_group(backend, store=store, rank=rank, world_size=count, timeout=_PATIENCE)
    try:
        yield FsdpWorkerGroup() if fsdp else DdpWorkerGroup()
    finally:
        dist.destroy_process_group()
        time.sleep(_TO_LET_GO)
