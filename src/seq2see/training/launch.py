"""Start worker processes with torchrun's elastic agent and join them to a process group.

`train_run` is the entry point of the command: it prepares a run, starts its workers and returns how
the run ended.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.distributed.rendezvous import rendezvous

from seq2see.errors import Seq2SeeError, TrainingError
from seq2see.progress_callbacks import MessageCallback, StageCallback
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import TrainingProgress
from seq2see.training.config import RunConfig
from seq2see.training.corpus_and_tokenizer_preparation import RunReadyToStart, prepare_run
from seq2see.training.distributed import (
    DdpCommunicator,
    FsdpCommunicator,
    WorkerCommunicator,
)
from seq2see.training.run_directory import RunDirectory, RunPlan
from seq2see.training.trainer import signals_as_errors
from seq2see.training.training_log import LogDestination
from seq2see.training.training_session import RunEnding, train_as_worker

_SHUTDOWN_SECONDS = 600
"""Time that the agent gives the workers to validate and save before it kills them."""
_MAX_RESTARTS = 3
_POLL_SECONDS = 0.02
"""Time between two reads of the rendezvous store."""
_GROUP_TIMEOUT = timedelta(days=1)
"""Time to wait for the other workers: the main process may have a large corpus to encode."""
_GLOO_RELEASE_SECONDS = 0.3
"""Time for the threads of gloo to release the last tensors before the process may end.

They do so shortly after the waiting threads are woken, and need the interpreter for it. If the
interpreter is shutting down by then, the process aborts (torch 2.13, without an event to wait for).
"""


class ProgressDisplay(LogDestination, Protocol):
    """Shows the records of a run to the user."""

    def close(self) -> None:
        """Restore the terminal."""
        ...


@dataclass(frozen=True)
class WorkerArguments:
    """Arguments of a worker process. The function must be picklable: defined in a module."""

    run_config: RunConfig
    base_directory: Path
    """Directory that file names of the recipe are relative to."""
    run_directory: Path
    create_display: Callable[[RunConfig, RunPlan, TrainingProgress], ProgressDisplay]
    """Creates the progress display of the main process."""

    def builder(self, workers: WorkerCommunicator) -> RunBuilder:
        """Return a builder of the run for one of its workers."""
        directory = RunDirectory(self.run_directory)
        return RunBuilder(self.run_config, self.base_directory, directory, workers)


@contextmanager
def _show_nothing() -> Iterator[StageCallback]:
    yield lambda *_: None


def train_run(
    arguments: WorkerArguments,
    resume: bool,
    on_message: MessageCallback,
    show_stages: Callable[[], AbstractContextManager[StageCallback]] = _show_nothing,
) -> RunEnding:
    """Prepare a run, train it in as many processes as it needs, and return how it ended.

    In a process that torchrun has started, train as one worker of torchrun's group. torchrun
    restarts failed workers with the same arguments, so a run is continued there without `resume`.
    `show_stages` shows the stages of the preparation.
    """
    with ExitStack() as preparation:

        def prepare() -> RunReadyToStart:
            with show_stages() as on_stage:
                prepared = preparation.enter_context(
                    prepare_run(
                        arguments.run_config,
                        arguments.base_directory,
                        RunDirectory(arguments.run_directory),
                        resume or is_torchrun_worker(),
                        on_stage,
                    )
                )
            for note in prepared.notes:
                on_message(note)
            return prepared

        if is_torchrun_worker():
            return _train_as_torchrun_worker(arguments, prepare, resume, on_message)
        with signals_as_errors():
            prepared = prepare()
            if prepared.processes == 1:
                ending = _train(arguments, prepared.builder)
            else:
                results = run_in_worker_processes(
                    _run_launched_worker, prepared.processes, arguments
                )
                ending = next(result for result in results.values() if result)
    if isinstance(ending, Seq2SeeError):
        raise ending
    assert ending
    return ending


def _train_as_torchrun_worker(
    arguments: WorkerArguments,
    prepare: Callable[[], object],
    resume: bool,
    on_message: MessageCallback,
) -> RunEnding:
    """Train as one worker of torchrun, whose number of processes cannot change."""
    directory = RunDirectory(arguments.run_directory)
    with join_worker_group(arguments.run_config.train.fsdp) as workers:
        if directory.has_run and not resume and workers.is_main:
            on_message(f"continuing the run in {directory.path}, as torchrun may have restarted it")
        workers.run_on_main(prepare)
        ending = _train(arguments, arguments.builder(workers), may_choose_processes=False)
    assert ending
    return ending


def _run_launched_worker(arguments: WorkerArguments) -> RunEnding | Seq2SeeError | None:
    """Train as one of the workers of `run_in_worker_processes`; exit with 1 after a stop signal.

    Return None if the run continues without this worker. An error that the user can fix is
    returned, not raised. After a signal the agent, which has received it too, waits for the exit
    and ignores results.
    """
    try:
        with join_worker_group(arguments.run_config.train.fsdp) as workers:
            ending = _train(arguments, arguments.builder(workers))
    except Seq2SeeError as error:
        return error
    if ending and ending.signal_name:
        sys.exit(1)
    return ending


def _train(
    arguments: WorkerArguments, builder: RunBuilder, may_choose_processes: bool = True
) -> RunEnding | None:
    """Train with the progress display of the arguments, which is closed at the end."""
    with ExitStack() as displays:

        def create_display(plan: RunPlan, progress: TrainingProgress) -> ProgressDisplay:
            display = arguments.create_display(builder.run_config, plan, progress)
            displays.callback(display.close)
            return display

        return train_as_worker(builder, create_display, may_choose_processes)


def is_torchrun_worker() -> bool:
    """Return whether torchrun or `run_in_worker_processes` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "WORLD_SIZE" in os.environ


def run_in_worker_processes(
    function: Callable[..., Any], processes: int, *arguments: Any
) -> dict[int, Any]:
    """Run a picklable function in several processes and return the results by rank.

    If a process dies, all of them are restarted, at most three times. Raise TrainingError if a
    signal stops them or a process dies again.
    """
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", str(_SHUTDOWN_SECONDS))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=_MAX_RESTARTS,
        monitor_interval=0.2,
    )
    try:
        with _logging_disabled():
            return dict(elastic_launch(config, function)(*arguments))
    except SignalException as error:
        name = signal.Signals(error.sigval).name
        raise TrainingError(
            f"stopped by {name}; use --resume to continue from the last checkpoint"
        ) from None
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        raise TrainingError(f"a worker process died: {failure.message}") from None


@contextmanager
def _logging_disabled() -> Iterator[None]:
    """Disable all logging, since failures of workers are reported in one line.

    Each of torch's loggers sets its own level, so they cannot be disabled by a common parent.
    """
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@contextmanager
def join_worker_group(fsdp: bool = False) -> Iterator[WorkerCommunicator]:
    """Join the process group of torchrun's workers, or yield a group of this process only."""
    if "WORLD_SIZE" not in os.environ:
        yield WorkerCommunicator()
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    store, rank, world_size = next(rendezvous("env://", timeout=_GROUP_TIMEOUT))
    store = create_unused_prefix_store(store, rank, world_size)
    dist.init_process_group(
        backend, store=store, rank=rank, world_size=world_size, timeout=_GROUP_TIMEOUT
    )
    try:
        yield FsdpCommunicator() if fsdp else DdpCommunicator()
    finally:
        dist.destroy_process_group()
        time.sleep(_GLOO_RELEASE_SECONDS)


def create_unused_prefix_store(store: Store, rank: int, world_size: int) -> Store:
    """Return a part of the store that is unused and the same for all workers of this start.

    torchrun's agent keeps one store for all starts of its workers (torch 2.13), which still holds
    the addresses of dead workers. A worker that reads such an address before the new worker has
    written its own cannot connect, and the restart fails. Therefore each worker first writes a
    random name. The main process replies with the list of names that it has read, and a worker
    accepts the reply only if its own name is in it: any other reply is from an earlier start.
    """
    name = secrets.token_hex(8)
    if rank == 0:
        _wait_for_workers(store, name, world_size)
    else:
        name = _register_worker(store, rank, name)
    return PrefixStore(name, store)


def _wait_for_workers(store: Store, name: str, world_size: int) -> None:
    """Publish the names of all workers until each of them has accepted the list."""
    other_ranks = range(1, world_size)
    while not all(store.check([f"{name}/{rank}"]) for rank in other_ranks):
        worker_names = {rank: store.get(f"name/{rank}").decode() for rank in other_ranks}
        store.set("list", json.dumps({"main": name, "workers": worker_names}))
        time.sleep(_POLL_SECONDS)


def _register_worker(store: Store, rank: int, own_name: str) -> str:
    """Publish the name of this worker; return the name of the main process that has read it."""
    store.set(f"name/{rank}", own_name)
    while (reply := json.loads(store.get("list")))["workers"].get(str(rank)) != own_name:
        time.sleep(_POLL_SECONDS)
    name = str(reply["main"])
    store.set(f"{name}/{rank}", "accepted")
    return name
