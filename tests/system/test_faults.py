"""Interrupted, diverging and failing runs: they resume bit-identically or report the reason."""

from __future__ import annotations

import os
import random
import shutil
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

from seq2see.bundle import Bundle
from seq2see.cli.training_run import TrainingProgressDisplay
from seq2see.errors import TrainingError
from seq2see.training import checkpoints as checkpoints_module, training_session
from seq2see.training.objective import Objective
from seq2see.training.trainer import ModelUpdater
from seq2see.training.training_log import read_training_log
from seq2see.training.training_session import FinalModelWriter
from seq2see.training.validation import ValidationResult

UPDATES = 24
KILL_AT_WRITE = """
import os, signal, sys
from seq2see import atomic_files
from seq2see.training import checkpoints
remaining = int(sys.argv.pop(1))
def killing(function):
    def call(*arguments):
        global remaining
        remaining -= "checkpoints" in str(arguments[-1])
        if not remaining:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call
checkpoints.save_file = killing(checkpoints.save_file)
atomic_files.fsync_path = killing(atomic_files.fsync_path)
from seq2see.cli import main
main()
"""
"""A run that kills itself at the n-th call of a function that writes checkpoints."""
SIGNAL_IN_UPDATE = """
import signal, sys
from seq2see.training.trainer import ModelUpdater
number, run_update = int(sys.argv.pop(1)), ModelUpdater.__call__
def update_with_signal(self, update, batches):
    if update == 7:
        signal.raise_signal(number)
    return run_update(self, update, batches)
ModelUpdater.__call__ = update_with_signal
from seq2see.cli import main
main()
"""
"""A run that receives a signal in its seventh update; the speed measurement has fewer updates."""
CALLS_PER_CHECKPOINT = 16
"""Three files of tensors with a flush each, three flushes of the manifest, and flushes of five
files and two directories."""


TWO_PROCESSES = ("train.processes=2", "train.max_updates=60", "validation.interval=30")


@pytest.fixture(scope="module")
def two_processes(train_in_subprocess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of an uninterrupted run in two processes."""
    directory = tmp_path_factory.mktemp("two_processes") / "run"
    assert train_in_subprocess(directory, *TWO_PROCESSES).returncode == 0
    return directory


def assert_bit_identical(ours: Path, theirs: Path, update: int = UPDATES) -> None:
    """Compare weights, moments and moving average of the last update, and the final model."""
    last = [f"checkpoints/{update:09d}/{name}" for name in ("model", "optimizer", "ema")]
    for file in (f"{name}.safetensors" for name in (*last, "model")):
        left, right = load_file(ours / file), load_file(theirs / file)
        assert left.keys() == right.keys()
        assert all(left[key].equal(right[key]) for key in left)
    statistics = [Bundle.load(directory).training_text for directory in (ours, theirs)]
    assert statistics[0] == statistics[1] is not None


def run_program(program: str, command: list[str], number: int) -> subprocess.CompletedProcess[str]:
    """Run a command with a program that changes seq2see."""
    arguments = command[command.index("seq2see") + 1 :]
    run = [sys.executable, "-c", program, str(int(number)), *arguments]
    return subprocess.run(run, check=False, capture_output=True, text=True, timeout=600)


def kill_at_write(command: list[str], calls: int) -> int:
    """Kill a run at a write call; return its exit status."""
    return run_program(KILL_AT_WRITE, command, calls).returncode


def kill_after(
    command: list[str],
    number: int,
    condition: Callable[[], bool],
    stderr: TextIO | int = subprocess.DEVNULL,
) -> int:
    """Start a run, and send a signal to all its processes when the condition holds."""
    process = subprocess.Popen(command, stderr=stderr, start_new_session=True)
    while process.poll() is None and not condition():
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, number)
    try:
        return process.wait(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def has_checkpoint(directory: Path, update: int) -> Callable[[], bool]:
    return (directory / "checkpoints" / f"{update:09d}").exists


def test_resume_after_kill_during_checkpoint_is_bit_identical(
    train_here, command, uninterrupted: Path, tmp_path: Path
) -> None:
    """It is killed in its third checkpoint, between two files."""
    directory = tmp_path / "run"
    assert kill_at_write(command(directory), 2 * CALLS_PER_CHECKPOINT + 2) == -signal.SIGKILL
    assert len(list((directory / "checkpoints").glob("000000012.*.partial"))) == 1
    assert {p.name for p in (directory / "checkpoints").glob("*[0-9]")} == {
        "000000004",
        "000000008",
    }
    train_here(directory, resume=True)
    assert_bit_identical(directory, uninterrupted)


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signal_saves_checkpoint_and_ends(
    train_here, command, uninterrupted: Path, tmp_path: Path, number: int
) -> None:
    directory = tmp_path / "run"
    done = run_program(SIGNAL_IN_UPDATE, command(directory), number)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"seq2see: stopped by {signal.Signals(number).name} after update 7, which was saved; "
        "use --resume to continue from there"
    )
    assert last_checkpoint(directory) == 7
    train_here(directory, resume=True)
    assert_bit_identical(directory, uninterrupted)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_signal_to_several_processes_saves_checkpoint(command, tmp_path: Path, number: int) -> None:
    """A terminal sends the signal to every worker and to the agent, which forwards it."""
    directory, never = tmp_path / "run", 10**6
    settings = (
        f"train.max_updates={never}",
        f"checkpoints.interval={never}",
        f"validation.interval={never}",
    )
    run, stderr = command(directory, "train.processes=2", *settings), tmp_path / "stderr"
    with stderr.open("w", encoding="utf-8") as file:
        assert (
            kill_after(run, number, lambda: any(read_training_log(directory / "log.jsonl")), file)
            == 1
        )
    assert last_checkpoint(directory) >= 10
    first_line, *rest = stderr.read_text("utf-8").splitlines()
    assert first_line.startswith("Training to update")
    name = signal.Signals(number).name
    update = last_checkpoint(directory)
    assert rest == [
        f"seq2see: stopped by {name} after update {update}, which was saved; "
        "use --resume to continue from there"
    ]


def test_interrupt_during_start_of_workers_is_one_line(command, tmp_path: Path) -> None:
    """The workers import torch at this time."""
    process = subprocess.Popen(
        command(tmp_path / "run", "train.processes=2"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while process.poll() is None and len(workers_of(process.pid)) < 2:
        time.sleep(0.01)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert stderr == (
        "seq2see: stopped by SIGINT; use --resume to continue from the last checkpoint\n"
    )
    assert process.returncode == 1


def test_workers_that_are_starting_are_killed_on_interrupt(command, tmp_path: Path) -> None:
    """They do not delay the end of the run, even if they are stopped."""
    process = subprocess.Popen(
        command(tmp_path / "run", "train.processes=2"), stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and len(workers := workers_of(process.pid)) < 2:
        time.sleep(0.01)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert stderr == (
        "seq2see: stopped by SIGINT; use --resume to continue from the last checkpoint\n"
    )
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_run_survives_signal_to_one_worker(
    train_in_subprocess, two_processes: Path, command, tmp_path: Path, number: int
) -> None:
    """After a kill, all workers restart by themselves; after SIGTERM, all of them save and end."""
    directory = tmp_path / "run"
    process = start_and_wait_for_checkpoint(command(directory, *TWO_PROCESSES), directory)
    os.kill(max(workers_of(process.pid)), number)
    start = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    lines = [line for line in stderr.splitlines() if line.startswith("seq2see: ")]
    if number == signal.SIGKILL:
        assert process.returncode == 0, stderr
        assert "a worker process was ended by SIGKILL; all of them restart from the las" in stderr
    else:
        assert time.monotonic() - start < 20
        assert lines[0].startswith("seq2see: stopped by SIGTERM after update ")
        assert train_in_subprocess(directory, *TWO_PROCESSES, "--resume").returncode == 0
    assert "Traceback" not in stderr
    assert_bit_identical(directory, two_processes, 60)


def test_workers_end_when_their_agent_is_killed(
    train_in_subprocess, two_processes: Path, command, tmp_path: Path
) -> None:
    directory = tmp_path / "run"
    process = start_and_wait_for_checkpoint(command(directory, *TWO_PROCESSES), directory)
    process.kill()
    start = time.monotonic()
    _, stderr = process.communicate(timeout=20)  # the workers have inherited standard error
    assert time.monotonic() - start < 5
    assert stderr.splitlines()[-1] == (
        "seq2see: the main process was killed; use --resume to continue from the last checkpoint"
    )
    assert "Traceback" not in stderr
    assert train_in_subprocess(directory, *TWO_PROCESSES, "--resume").returncode == 0
    assert_bit_identical(directory, two_processes, 60)


def start_and_wait_for_checkpoint(command: list[str], directory: Path) -> subprocess.Popen[str]:
    """Start a run and wait until its second checkpoint."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not has_checkpoint(directory, 8)():
        time.sleep(0.01)
    return process


def workers_of(pid: int) -> list[int]:
    """Return the child processes that train, which have a rank."""
    return [child for child in children(pid) if b"spawn_main" in command_line(child)]


def command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_damaged_checkpoint_is_replaced_by_the_previous_one(
    train_here, uninterrupted: Path, tmp_path: Path, capfd
) -> None:
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    for name in ("config.json", "model.safetensors"):
        (directory / name).unlink()
    flip_bit(directory / f"checkpoints/{UPDATES:09d}/optimizer.safetensors")
    train_here(directory, resume=True)
    assert (
        f"The checkpoint of update {UPDATES} is damaged: its files do not match their checksums. "
        f"It was renamed to {UPDATES:09d}.damaged; training continues from update {UPDATES - 4}.\n"
    ) in capfd.readouterr().err
    assert_bit_identical(directory, uninterrupted)


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def test_signal_during_save_does_not_damage_checkpoint(
    train_here, tmp_path: Path, monkeypatch
) -> None:
    """A terminal sends the signal to all, and torchrun's agent forwards its own a little later."""
    save = checkpoints_module.save_file

    def save_with_signal(tensors, path: Path) -> None:
        if "000000005" in str(path):
            signal.raise_signal(signal.SIGINT)
        save(tensors, path)

    def update_with_signal(self, update: int, batches: object):
        if update == 5:
            signal.raise_signal(signal.SIGINT)
        return run_update(self, update, batches)

    run_update = ModelUpdater.__call__
    monkeypatch.setattr(ModelUpdater, "__call__", update_with_signal)
    monkeypatch.setattr(checkpoints_module, "save_file", save_with_signal)
    with pytest.raises(TrainingError, match="stopped by SIGINT after update 5, which was saved"):
        train_here(tmp_path / "run")
    assert last_checkpoint(tmp_path / "run") == 5


def test_signal_before_first_update_is_one_line(train_here, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(
        training_session,
        "plan_processes_and_updates",
        lambda *_: signal.raise_signal(signal.SIGTERM),
    )
    with pytest.raises(TrainingError, match="^stopped by SIGTERM; use --resume to continue from"):
        train_here(tmp_path / "run")


def test_divergence_leaves_last_good_checkpoint(
    train_here, uninterrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    forward, calls = Objective.forward, []

    def diverge(self, batch):
        loss = forward(self, batch)
        calls.append(self.training)
        return loss._replace(total=loss.total * torch.nan) if calls.count(True) > 13 else loss

    closed = []
    monkeypatch.setattr(Objective, "forward", diverge)
    monkeypatch.setattr(TrainingProgressDisplay, "close", lambda _: closed.append(True))
    with pytest.raises(TrainingError, match="loss nan, .* the update was not applied. Try a lower"):
        train_here(tmp_path / "run")
    monkeypatch.undo()
    assert closed == [True]
    last = load_file(tmp_path / "run/checkpoints/000000008/model.safetensors")
    assert all(tensor.isfinite().all() for tensor in last.values())
    train_here(tmp_path / "run", resume=True)
    assert_bit_identical(tmp_path / "run", uninterrupted)


def test_full_disk_leaves_last_good_checkpoint(
    train_here, uninterrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    save = checkpoints_module.save_file

    def raise_no_space(tensors, path: Path) -> None:
        if "000000012" in str(path):
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        save(tensors, path)

    monkeypatch.setattr(checkpoints_module, "save_file", raise_no_space)
    with pytest.raises(TrainingError, match="000000012 cannot be written: No space left on dev"):
        train_here(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run/checkpoints").iterdir()}
    assert names == {"000000004", "000000008"}
    monkeypatch.undo()
    train_here(tmp_path / "run", resume=True)
    assert_bit_identical(tmp_path / "run", uninterrupted)


def test_finished_run_killed_before_result_does_not_train_again(
    train_here, tmp_path: Path, monkeypatch
) -> None:
    def killed(*_: object) -> None:
        raise TrainingError("killed")

    overrides = ("validation.interval=2", "validation.patience=1")
    monkeypatch.setattr(ValidationResult, "metric_value", lambda *_: 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(FinalModelWriter, "write", killed)
        with pytest.raises(TrainingError, match="killed"):
            train_here(tmp_path / "run", *overrides)
    train_here(tmp_path / "run", *overrides, resume=True)
    assert last_checkpoint(tmp_path / "run") == 4
    assert (tmp_path / "run/config.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_resume_after_random_kills_is_bit_identical(
    train_in_subprocess, command, tmp_path: Path, processes: int
) -> None:
    """The kills come at random times: while the run starts, trains, validates or writes."""
    overrides = (f"train.processes={processes}", "train.max_updates=400", "validation.interval=50")
    uninterrupted_run, interrupted = tmp_path / "uninterrupted_run", tmp_path / "interrupted"
    assert train_in_subprocess(uninterrupted_run, *overrides).returncode == 0
    generator = random.Random(processes)  # noqa: S311 deterministic
    for turn in range(12):
        before = last_checkpoint(interrupted)
        until = [0.0]

        def is_due(before: int = before, until: list[float] = until, turn: int = turn) -> bool:
            """Wait for the next checkpoint and a random time; sometimes only for the time."""
            if not until[0] and (turn % 4 == 0 or last_checkpoint(interrupted) > before):
                until[0] = time.monotonic() + generator.uniform(0, 3 if turn % 4 == 0 else 0.3)
            return 0 < until[0] < time.monotonic()

        resumed = command(interrupted, *overrides, "--resume")
        assert kill_after(resumed, signal.SIGKILL, is_due) == -signal.SIGKILL
    done = train_in_subprocess(interrupted, *overrides, "--resume")
    assert done.returncode == 0, done.stderr
    assert_bit_identical(interrupted, uninterrupted_run, 400)


@pytest.mark.slow
def test_resume_with_fsdp_is_bit_identical(train_in_subprocess, command, tmp_path: Path) -> None:
    overrides = ("train.processes=2", "train.fsdp=true", "train.max_updates=100")
    uninterrupted_run, interrupted = tmp_path / "uninterrupted_run", tmp_path / "interrupted"
    assert train_in_subprocess(uninterrupted_run, *overrides).returncode == 0
    killed = kill_after(
        command(interrupted, *overrides), signal.SIGKILL, has_checkpoint(interrupted, 8)
    )
    assert killed == -signal.SIGKILL
    done = train_in_subprocess(interrupted, *overrides, "--resume")
    assert done.returncode == 0, done.stderr
    assert_bit_identical(interrupted, uninterrupted_run, 100)


def last_checkpoint(directory: Path) -> int:
    """Return the update of the last complete checkpoint, or 0."""
    names = [path.name for path in directory.glob("checkpoints/*")]
    return max((int(name) for name in names if name.isdecimal()), default=0)


@pytest.mark.slow
@pytest.mark.parametrize("calls", range(1, 3 * CALLS_PER_CHECKPOINT + 1, 2))
def test_kill_at_any_write_keeps_run_resumable(
    train_here, command, uninterrupted: Path, tmp_path: Path, calls: int
) -> None:
    assert kill_at_write(command(tmp_path / "run"), calls) == -signal.SIGKILL
    train_here(tmp_path / "run", resume=True)
    assert_bit_identical(tmp_path / "run", uninterrupted)


@pytest.mark.slow
def test_torchrun_restarts_killed_worker(train_in_subprocess, command, tmp_path: Path) -> None:
    """torchrun's agent restarts all workers, which continue from the last checkpoint."""
    assert train_in_subprocess(tmp_path / "uninterrupted_run", "train.processes=2").returncode == 0
    directory = tmp_path / "run"
    arguments = command(directory, "train.processes=2")[1:]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=2"]
    process = subprocess.Popen(
        [*torchrun, "--nproc-per-node=2", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    while not has_checkpoint(directory, 8)() and process.poll() is None:
        time.sleep(0.01)
    os.kill(max(children(process.pid)), signal.SIGKILL)  # the worker that was started last
    _, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    assert "Training from update" in stderr
    assert_bit_identical(directory, tmp_path / "uninterrupted_run")


@pytest.mark.slow
def test_two_agents_restart_killed_worker(train_in_subprocess, command, tmp_path: Path) -> None:
    """As on two machines: the agent that lost no worker restarts its own worker too."""
    assert train_in_subprocess(tmp_path / "uninterrupted_run", "train.processes=2").returncode == 0
    directory = tmp_path / "run"
    with socket.create_server(("127.0.0.1", 0)) as server:
        endpoint = f"127.0.0.1:{server.getsockname()[1]}"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    options = ["--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--max-restarts=1"]
    arguments = [*torchrun, *options, *command(directory, "train.processes=2")[1:]]
    process_options = {"stderr": subprocess.DEVNULL, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    agents = [subprocess.Popen(arguments, **process_options) for _ in range(2)]
    while not has_checkpoint(directory, 8)() and all(agent.poll() is None for agent in agents):
        time.sleep(0.01)
    workers = [worker for agent in agents for worker in children(agent.pid)]
    os.kill(next(worker for worker in workers if rank_of(worker) == 1), signal.SIGKILL)
    assert [agent.wait(timeout=600) for agent in agents] == [0, 0]
    assert_bit_identical(directory, tmp_path / "uninterrupted_run")


def rank_of(pid: int) -> int:
    """Return the rank of a worker process."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return int(next(v for v in variables if v.startswith(b"RANK=")).removeprefix(b"RANK="))


def children(pid: int) -> list[int]:
    """Return the child processes of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(child) for child in text.split()]
