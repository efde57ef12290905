"""Start the worker processes of a run and join them to a process group.

`train_run` is the entry point of the command: it prepares a run, starts its workers and returns how
the run ended. torchrun may start the workers too, for example on several machines.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from types import FrameType
from typing import NoReturn, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from seq2see.errors import TrainingError
from seq2see.progress_callbacks import MessageCallback, StageCallback
from seq2see.training.builder import RunBuilder
from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.trainer import (
    STOP_SIGNALS,
    format_stop_message,
    handle_signals,
    signals_as_errors,
)
from seq2see.training.training_session import (
    ProgressDisplayFactory,
    RunEnding,
    train_as_worker,
)

_MAX_RESTARTS = 3
_STARTED = "started"
"""First message of a worker."""
_FAILURE_SECONDS = 1.0
"""Time to wait after the failure of a worker for the end of another one that may have caused it."""
_POLL_SECONDS = 0.02
"""Time between two reads of the rendezvous store."""
_GROUP_TIMEOUT = timedelta(days=1)
"""Time to wait for the other workers: the main process may have a large corpus to encode."""
_GLOO_RELEASE_SECONDS = 0.3
"""Time for the threads of gloo to release the last tensors before the process may end.

They do so shortly after the waiting threads are woken, and need the interpreter for it. If the
interpreter is shutting down by then, the process aborts (torch 2.13, without an event to wait for).
"""


def train_run(
    builder: RunBuilder,
    create_display: ProgressDisplayFactory,
    resume: bool,
    on_message: MessageCallback,
    show_stages: Callable[[], AbstractContextManager[StageCallback]],
) -> RunEnding:
    """Prepare a run, train it in as many processes as it needs, and return how it ended.

    In a process that torchrun has started, train as one worker of torchrun's group. torchrun
    restarts failed workers with the same arguments, so a run is continued there without `resume`.
    `create_display` must be picklable: defined in a module. `show_stages` shows the stages of the
    preparation.
    """
    is_torchrun, directory = is_torchrun_worker(), builder.directory
    with ExitStack() as preparation:

        def prepare() -> int:
            with show_stages() as on_stage:
                context = prepare_run(builder, resume or is_torchrun, on_stage)
                prepared = preparation.enter_context(context)
            for note in prepared.notes:
                on_message(note)
            return prepared.processes

        if is_torchrun:
            with join_worker_group() as workers:
                if directory.has_run and not resume and workers.is_main:
                    on_message(
                        f"continuing the run in {directory.path}, as torchrun may have restarted it"
                    )
                workers.run_on_main(prepare)
                worker_builder = replace(builder, workers=workers)
                ending = train_as_worker(worker_builder, create_display, may_choose_processes=False)
        else:
            with signals_as_errors():
                if (processes := prepare()) == 1:
                    ending = train_as_worker(builder, create_display)
                else:
                    ending = train_in_processes(processes, builder, create_display, on_message)
    assert ending
    return ending


def is_torchrun_worker() -> bool:
    """Return whether torchrun has started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ or "WORLD_SIZE" in os.environ


def train_in_processes(
    processes: int,
    builder: RunBuilder,
    create_display: ProgressDisplayFactory,
    on_message: MessageCallback,
) -> RunEnding | None:
    """Train a prepared run in several processes and return how it ended.

    If a process is killed, all of them are restarted, at most three times. SIGINT and SIGTERM are
    forwarded to the processes. Raise TrainingError if a signal stops them or a process is killed
    again, and the error of a process that fails.
    """
    for restarts_left in reversed(range(_MAX_RESTARTS + 1)):
        workers = LaunchedWorkers(processes, builder, create_display)
        try:
            return workers.join()
        except WorkerKilledError as error:
            if not restarts_left:
                raise
            on_message(f"{error}; all of them restart from the last checkpoint")
        finally:
            workers.end()
    raise AssertionError("the last attempt returns or raises")


class WorkerKilledError(TrainingError):
    """Raised if a worker process was ended by a signal that was not sent to the whole run."""


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Delay signals, so that one during the start of a worker waits until it can handle it.

    Windows has no signal masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would unblock the signals
    previous = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous)


class LaunchedWorkers:
    """Worker processes that train a run, each connected to this process by a pipe."""

    def __init__(
        self, processes: int, builder: RunBuilder, create_display: ProgressDisplayFactory
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop_signal: signal.Signals | None = None
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._processes: dict[Connection, BaseProcess] = {}
        self._started: set[Connection] = set()
        """Pipes of the workers that have imported all modules."""
        # Without what the builder has loaded in this process.
        arguments = replace(builder), create_display
        with _signals_blocked():
            for rank in range(processes):
                receiver, sender = context.Pipe(duplex=False)
                environment = self._build_environment(rank, processes)
                process = context.Process(
                    target=_run_worker, args=(*arguments, environment, sender), daemon=True
                )
                process.start()
                sender.close()
                self._processes[receiver] = process

    def _build_environment(self, rank: int, processes: int) -> dict[str, str]:
        """Return the variables by which torchrun describes a process group on one machine."""
        return {
            **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
            **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes)),
            "MASTER_ADDR": self._store.host,
            "MASTER_PORT": str(self._store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }

    def join(self) -> RunEnding | None:
        """Wait for the workers; return the result of the main one, or raise the error of any."""
        running = set(self._processes)
        endings: list[RunEnding | None] = []
        with handle_signals(self._forward_signal):
            while running:
                for pipe in wait([*running]):
                    connection = cast("Connection", pipe)  # on Windows a PipeConnection
                    result = self._receive(connection)
                    if isinstance(result, str):
                        self._started.add(connection)
                    else:
                        running.remove(connection)
                        endings.append(result)
        return next(filter(None, endings), None)

    def _receive(self, pipe: Connection) -> RunEnding | str | None:
        """Return a message of a worker: that it has started, or its result."""
        try:
            result: RunEnding | Exception | str | None = pipe.recv()
        except EOFError:
            self._raise_killed(self._processes[pipe])
        if isinstance(result, Exception):
            # A worker fails if another one was killed, since they are connected.
            wait([process.sentinel for process in self._processes.values()], _FAILURE_SECONDS)
            for process in self._processes.values():
                if (process.exitcode or 0) < 0:
                    self._raise_killed(process)
            raise result
        return result

    def _raise_killed(self, process: BaseProcess) -> NoReturn:
        """Raise TrainingError for a process that has ended without a result."""
        if self._stop_signal:
            raise TrainingError(format_stop_message(self._stop_signal.name))
        process.join()
        status = process.exitcode or 0
        cause = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        raise WorkerKilledError(f"a worker process was ended {cause}")

    def _forward_signal(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal to the workers; those that are still starting have nothing to save."""
        del frame
        self._stop_signal = signal.Signals(number)
        for pipe, process in self._processes.items():
            if pipe not in self._started:
                process.kill()
            elif process.is_alive() and process.pid:
                os.kill(process.pid, number)

    def end(self) -> None:
        """Kill the workers that are still running. Their checkpoints are complete or absent."""
        for process in self._processes.values():
            process.kill()
            process.join()


def _run_worker(
    builder: RunBuilder,
    create_display: ProgressDisplayFactory,
    environment: dict[str, str],
    results: Connection,
) -> None:
    """Train as one of the workers; send the result, or the error, to the process that waits.

    The result is None if the run continues without this worker.
    """
    os.environ.update(environment)
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)  # ends the process without a traceback
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    Thread(target=_exit_with_parent, daemon=True).start()
    results.send(_STARTED)
    result: RunEnding | Exception | None
    try:
        with join_worker_group() as workers:
            result = train_as_worker(replace(builder, workers=workers), create_display)
    except Exception as error:
        error.add_note(traceback.format_exc())
        result = error
    results.send(result)


def _exit_with_parent() -> None:
    """End this process as soon as the process that has started it is killed."""
    parent = multiprocessing.parent_process()
    assert parent
    parent.join()
    if os.environ["RANK"] == "0":
        message = "the main process was killed; use --resume to continue from the last checkpoint"
        print(f"seq2see: {message}", file=sys.stderr)  # noqa: T201
    os._exit(1)


@contextmanager
def join_worker_group() -> Iterator[WorkerCommunicator]:
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
        yield WorkerCommunicator(is_single=False)
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
