"""A run that is killed, starved or fed nonsense: it goes on to the same bits, or says why not."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest
import torch
from safetensors.torch import load_file

from seq2see.cli.training_progress import TrainingProgressDisplay
from seq2see.errors import TrainingError
from seq2see.training import checkpoints as checkpoints_module, train as train_module
from seq2see.training.objective import Objective
from seq2see.training.train import ResultWriter
from seq2see.training.trainer import ModelUpdater
from seq2see.training.training_log import read_training_log
from seq2see.training.validation import ValidationResult

UPDATES = 24
SUICIDE = """
import os, signal, sys
from seq2see.training import checkpoints
left = int(sys.argv.pop(1))
def dying(function):
    def call(*arguments):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call
checkpoints.save_file = dying(checkpoints.save_file)
checkpoints.fsync_path = dying(checkpoints.fsync_path)
from seq2see.cli import main
main()
"""
"""A run that kills itself at the n-th call while it writes checkpoints."""
SIGNALLED = """
import signal, sys
from seq2see.training.trainer import ModelUpdater
number, step = int(sys.argv.pop(1)), ModelUpdater.__call__
def signalled(self, update, batches):
    if update == 7:
        signal.raise_signal(number)
    return step(self, update, batches)
ModelUpdater.__call__ = signalled
from seq2see.cli import main
main()
"""
"""A run that gets a signal in its seventh update, which is more than are made to measure."""
CALLS = 9
"""Of each checkpoint: three files of tensors, and the flushes of four files and two folders."""


def assert_same_bits(ours: Path, theirs: Path, update: int = UPDATES) -> None:
    """Check weights, moments and moving average of the last update, and the model."""
    last = [f"checkpoints/{update:09d}/{name}" for name in ("model", "optimizer", "ema")]
    for file in (f"{name}.safetensors" for name in (*last, "model")):
        left, right = load_file(ours / file), load_file(theirs / file)
        assert left.keys() == right.keys()
        assert all(left[key].equal(right[key]) for key in left)


def run_as(program: str, command: list[str], number: int) -> subprocess.CompletedProcess[str]:
    """Let a run do something to itself."""
    arguments = command[command.index("seq2see") + 1 :]
    run = [sys.executable, "-c", program, str(int(number)), *arguments]
    return subprocess.run(run, check=False, capture_output=True, text=True, timeout=600)


def die(command: list[str], calls: int) -> int:
    """Let a run kill itself while it writes; return how it ended."""
    return run_as(SUICIDE, command, calls).returncode


def kill_after(
    command: list[str],
    number: int,
    enough: Callable[[], bool],
    said: TextIO | int = subprocess.DEVNULL,
) -> int:
    """Start a run, and send a signal to all its processes once it is enough."""
    process = subprocess.Popen(command, stderr=said, start_new_session=True)
    while process.poll() is None and not enough():
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, number)
    try:
        return process.wait(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def has(folder: Path, update: int) -> Callable[[], bool]:
    return (folder / "checkpoints" / f"{update:09d}").exists


def test_killed_while_it_writes_it_is_the_same_to_the_bit(
    train_here, command, undisturbed: Path, tmp_path: Path
) -> None:
    """It dies in the middle of its third checkpoint, between two files."""
    folder = tmp_path / "run"
    assert die(command(folder), 2 * CALLS + 2) == -signal.SIGKILL
    assert {p.name for p in (folder / "checkpoints").iterdir()} == {
        "000000004",
        "000000008",
        "000000012.partial",
    }
    train_here(folder, resume=True)
    assert_same_bits(folder, undisturbed)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_saves_and_leaves(
    train_here, command, undisturbed: Path, tmp_path: Path, number: int
) -> None:
    folder = tmp_path / "run"
    done = run_as(SIGNALLED, command(folder), number)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"seq2see: stopped by {signal.Signals(number).name} after update 7, which was saved; "
        "--resume goes on from there"
    )
    assert last_of(folder) == 7
    train_here(folder, resume=True)
    assert_same_bits(folder, undisturbed)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_to_several_processes_saves(command, tmp_path: Path, number: int) -> None:
    """As a terminal sends it: to the agent, which passes it on, and to every worker."""
    folder, never = tmp_path / "run", 10**6
    settings = (
        f"train.max_updates={never}",
        f"checkpoints.interval={never}",
        f"validation.interval={never}",
    )
    run, said = command(folder, "train.processes=2", *settings), tmp_path / "said"
    with said.open("w", encoding="utf-8") as file:
        assert (
            kill_after(run, number, lambda: any(read_training_log(folder / "log.jsonl")), file) == 1
        )
    assert last_of(folder) >= 10
    beginning, *rest = said.read_text("utf-8").splitlines()
    assert beginning.startswith("Training to update")
    name = signal.Signals(number).name
    assert rest == [f"seq2see: stopped by {name}; --resume goes on from the last checkpoint"]


def test_a_signal_while_it_saves_does_no_harm(train_here, tmp_path: Path, monkeypatch) -> None:
    """A terminal sends the first to all, and torchrun's agent passes its own on a little later."""
    save = checkpoints_module.save_file

    def disturbed(tensors, path: Path) -> None:
        if "000000005" in str(path):
            signal.raise_signal(signal.SIGINT)
        save(tensors, path)

    def stop(self, number: int, batches: object):
        if number == 5:
            signal.raise_signal(signal.SIGINT)
        return step(self, number, batches)

    step = ModelUpdater.__call__
    monkeypatch.setattr(ModelUpdater, "__call__", stop)
    monkeypatch.setattr(checkpoints_module, "save_file", disturbed)
    with pytest.raises(TrainingError, match="stopped by SIGINT after update 5, which was saved"):
        train_here(tmp_path / "run")
    assert last_of(tmp_path / "run") == 5


def test_a_signal_before_the_first_update_is_one_line(
    train_here, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(train_module, "plan_run", lambda *_: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(TrainingError, match="^stopped by SIGTERM; --resume goes on from"):
        train_here(tmp_path / "run")


def test_nonsense_leaves_the_last_good_state(
    train_here, undisturbed: Path, tmp_path: Path, monkeypatch
) -> None:
    forward, calls = Objective.forward, []

    def sick(self, batch):
        loss = forward(self, batch)
        calls.append(self.training)
        return loss._replace(total=loss.total * torch.nan) if calls.count(True) > 13 else loss

    closed = []
    monkeypatch.setattr(Objective, "forward", sick)
    monkeypatch.setattr(TrainingProgressDisplay, "close", lambda _: closed.append(True))
    with pytest.raises(TrainingError, match="the loss is nan .* it was not made. Try a lower"):
        train_here(tmp_path / "run")
    monkeypatch.undo()
    assert closed == [True]
    last = load_file(tmp_path / "run/checkpoints/000000008/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in last.values())
    train_here(tmp_path / "run", resume=True)
    assert_same_bits(tmp_path / "run", undisturbed)


def test_a_full_disk_leaves_the_last_good_state(
    train_here, undisturbed: Path, tmp_path: Path, monkeypatch
) -> None:
    save = checkpoints_module.save_file

    def full(tensors, path: Path) -> None:
        if "000000012" in str(path):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(tensors, path)

    monkeypatch.setattr(checkpoints_module, "save_file", full)
    with pytest.raises(TrainingError, match="000000012 cannot be written: No space left on dev"):
        train_here(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run/checkpoints").iterdir()}
    assert names == {"000000004", "000000008"}
    monkeypatch.undo()
    train_here(tmp_path / "run", resume=True)
    assert_same_bits(tmp_path / "run", undisturbed)


def test_stopped_early_and_killed_before_the_result_it_does_not_train_on(
    train_here, tmp_path: Path, monkeypatch
) -> None:
    def killed(*_: object) -> None:
        raise TrainingError("killed")

    early = ("validation.interval=2", "validation.patience=1")
    monkeypatch.setattr(ValidationResult, "metric_value", lambda *_: 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(ResultWriter, "write", killed)
        with pytest.raises(TrainingError, match="killed"):
            train_here(tmp_path / "run", *early)
    train_here(tmp_path / "run", *early, resume=True)
    assert last_of(tmp_path / "run") == 4
    assert (tmp_path / "run/config.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_a_dozen_times_it_is_the_same_to_the_bit(
    train_apart, command, tmp_path: Path, processes: int
) -> None:
    """At random moments: while it starts, trains, validates or writes."""
    long = (f"train.processes={processes}", "train.max_updates=400", "validation.interval=50")
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    assert train_apart(calm, *long).returncode == 0
    moments = random.Random(processes)  # noqa: S311 a test must be the same each time
    for turn in range(12):
        before = last_of(disturbed)
        until = [0.0]

        def enough(before: int = before, until: list[float] = until, turn: int = turn) -> bool:
            """Wait for a checkpoint more, and then a moment; now and then not even for that."""
            if not until[0] and (turn % 4 == 0 or last_of(disturbed) > before):
                until[0] = time.monotonic() + moments.uniform(0, 3 if turn % 4 == 0 else 0.3)
            return 0 < until[0] < time.monotonic()

        resumed = command(disturbed, *long, "--resume")
        assert kill_after(resumed, signal.SIGKILL, enough) == -signal.SIGKILL
    done = train_apart(disturbed, *long, "--resume")
    assert done.returncode == 0, done.stderr
    assert_same_bits(disturbed, calm, 400)


@pytest.mark.slow
def test_killed_with_shared_out_weights_it_is_the_same_to_the_bit(
    train_apart, command, tmp_path: Path
) -> None:
    changes = ("train.processes=2", "train.fsdp=true", "train.max_updates=100")
    calm, disturbed = tmp_path / "calm", tmp_path / "disturbed"
    assert train_apart(calm, *changes).returncode == 0
    killed = kill_after(command(disturbed, *changes), signal.SIGKILL, has(disturbed, 8))
    assert killed == -signal.SIGKILL
    done = train_apart(disturbed, *changes, "--resume")
    assert done.returncode == 0, done.stderr
    assert_same_bits(disturbed, calm, 100)


def last_of(folder: Path) -> int:
    """Return the update of the last whole checkpoint, or 0."""
    names = [path.name for path in folder.glob("checkpoints/*")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(1, 3 * CALLS + 1, 2))
def test_killed_at_any_point_of_writing(
    train_here, command, undisturbed: Path, tmp_path: Path, calls: int
) -> None:
    assert die(command(tmp_path / "run"), calls) == -signal.SIGKILL
    train_here(tmp_path / "run", resume=True)
    assert_same_bits(tmp_path / "run", undisturbed)


@pytest.mark.slow
def test_a_lost_worker_is_started_again(train_apart, command, tmp_path: Path) -> None:
    """torchrun's agent starts all workers anew, and they go on from the last checkpoint."""
    assert train_apart(tmp_path / "calm", "train.processes=2").returncode == 0
    folder = tmp_path / "run"
    arguments = command(folder, "train.processes=2")[1:]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=2"]
    process = subprocess.Popen(
        [*torchrun, "--nproc-per-node=2", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while not has(folder, 8)() and process.poll() is None:
        time.sleep(0.01)
    os.kill(max(children(process.pid)), signal.SIGKILL)  # the last that was started
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert "Training from update" in said
    assert_same_bits(folder, tmp_path / "calm")


@pytest.mark.slow
def test_a_worker_lost_by_one_of_two_agents(train_apart, command, tmp_path: Path) -> None:
    """As on two machines: the agent that lost none starts its own again too, with the leader."""
    assert train_apart(tmp_path / "calm", "train.processes=2").returncode == 0
    folder = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = f"127.0.0.1:{free.getsockname()[1]}"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    where = ["--rdzv-backend=c10d", f"--rdzv-endpoint={meeting}", "--max-restarts=1"]
    arguments = [*torchrun, *where, *command(folder, "train.processes=2")[1:]]
    silent = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    agents = [subprocess.Popen(arguments, **silent) for _ in range(2)]
    while not has(folder, 8)() and all(agent.poll() is None for agent in agents):
        time.sleep(0.01)
    workers = [worker for agent in agents for worker in children(agent.pid)]
    os.kill(next(worker for worker in workers if rank_of(worker) == 1), signal.SIGKILL)
    assert [agent.wait(timeout=600) for agent in agents] == [0, 0]
    assert_same_bits(folder, tmp_path / "calm")


def rank_of(pid: int) -> int:
    """Return the number of a worker."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return int(next(v for v in variables if v.startswith(b"RANK=")).removeprefix(b"RANK="))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in text.split()]
