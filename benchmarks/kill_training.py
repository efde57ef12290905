"""Kill the processes of training runs at random times, and compare the final weights.

    python -m benchmarks.kill_training [--kills 100] [--updates 1500] [--processes 2] [--seed 1]

Each kill chooses a worker, the supervisor or all processes, SIGKILL, SIGTERM or (for all processes)
SIGINT, and a random time after the start or the last kill. Checked after each of them: a run
without a worker continues by itself or ends with one line; all processes of an ended run are gone;
`--resume` trains again; each within `--limit` seconds. There is no traceback, and all finished runs
have the same weights as an uninterrupted run.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from seq2see.atomic_files import compute_sha256
from seq2see.data import digit_tasks

RECIPE = """
[data]
languages = ["xx", "yy"]
train = [{files = ["builtin:reverse"]}]
valid = {files = ["valid.tsv"]}
[tokenizer]
vocab_size = 275
[batches]
max_tokens = 512
max_length = 32
subword_dropout = 0.1
[train]
threads = 1
tensorboard = false
[schedule]
peak_lr = 0.003
warmup_updates = 10
[validation]
interval = 100
max_sentences = 20
[checkpoints]
interval = 20
keep_last = 2
ema_decay = 0.9
[model]
preset = "tiny"
d_model = 32
d_ff = 32
encoder_layers = 1
decoder_layers = 1
"""
MAX_DELAY = 12.0
"""Longest time between a start or a kill and the next kill, in seconds."""


@dataclass
class KillReport:
    """Results of all kills."""

    kinds: list[str] = field(default_factory=list)
    end_seconds: list[float] = field(default_factory=list)
    """Time from a kill until all processes were gone, or until the run had a new checkpoint."""
    resume_seconds: list[float] = field(default_factory=list)
    """Time from the start of `--resume` to its first new checkpoint."""
    continued: int = 0
    """Number of kills of a worker after which the run continued by itself."""
    identical: int = 0
    """Number of finished runs with the weights of the uninterrupted run."""
    failures: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return counts, medians and maxima."""
        counts = {kind: self.kinds.count(kind) for kind in sorted(set(self.kinds))}
        seconds = {
            name: {"median": round(median(values), 1), "max": round(max(values), 1)}
            for name in ("end_seconds", "resume_seconds")
            if (values := getattr(self, name))
        }
        numbers = {"kills": len(self.kinds), "continued": self.continued}
        return json.dumps(
            {**numbers, **counts, **seconds, "identical": self.identical, "failures": self.failures}
        )


@dataclass
class InterruptedRun:
    """A run whose processes are killed until it has finished."""

    command: list[str]
    directory: Path
    limit: float
    report: KillReport
    generator: random.Random

    def train_with_kills(self, max_kills: int) -> int:
        """Start the run again after each kill until it has finished; return the number of kills."""
        num_kills = 0
        while not (self.directory / "config.json").exists():
            num_kills += self._start_and_kill(max_kills - num_kills)
        return num_kills

    def _start_and_kill(self, max_kills: int) -> int:
        """Run until the process ends; return the number of kills."""
        errors = self.directory.with_suffix(".stderr")
        start, before, num_kills = time.monotonic(), self._last_checkpoint(), 0
        with errors.open("w+", encoding="utf-8") as stderr:
            run = subprocess.Popen(
                [*self.command, "-o", str(self.directory), "--resume"],
                stderr=stderr,
                start_new_session=True,
            )
        has_resumed = False
        # Half of the first kills come while the run starts, the others while it trains.
        is_early = self.generator.random() < 0.5
        kill_at = start + self.generator.uniform(0, MAX_DELAY) if is_early else math.inf
        while run.poll() is None:
            time.sleep(0.01)
            if not has_resumed and self._last_checkpoint() > before:
                has_resumed = True
                if before and not num_kills:
                    self.report.resume_seconds.append(time.monotonic() - start)
                kill_at = min(kill_at, time.monotonic() + self.generator.uniform(0, 3))
            if num_kills < max_kills and time.monotonic() > kill_at:
                num_kills += 1
                self._kill(run)
                kill_at = time.monotonic() + self.generator.uniform(0, MAX_DELAY)
        self._check_end(run, errors.read_text("utf-8"), was_killed=num_kills > 0)
        return num_kills

    def _kill(self, run: subprocess.Popen[bytes]) -> None:
        """Send a signal to some of the processes and wait for the result."""
        workers = [pid for pid in list_session(run.pid) if is_worker(pid)]
        kind = self.generator.choice(("worker", "supervisor", "group"))
        number = self.generator.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        if kind == "group" and number == signal.SIGTERM:  # or Ctrl-C
            number = self.generator.choice((signal.SIGTERM, signal.SIGINT))
        if kind == "worker" and not workers:
            kind = "group"  # the workers have not started yet
        self.report.kinds.append(f"{kind} {number.name}")
        before, start = self._last_checkpoint(), time.monotonic()
        try:
            if kind == "group":
                os.killpg(run.pid, number)
            else:
                os.kill(self.generator.choice(workers) if kind == "worker" else run.pid, number)
        except ProcessLookupError:  # it has just ended
            return
        may_continue = kind == "worker" and number == signal.SIGKILL

        def has_ended() -> bool:
            return run.poll() is not None and not list_session(run.pid)

        def has_continued() -> bool:
            restarted = [pid for pid in list_session(run.pid) if is_worker(pid)]
            is_new = bool(restarted) and not set(restarted) & set(workers)
            return may_continue and is_new and self._last_checkpoint() > before

        end = start + 3 * self.limit
        while not has_ended() and not has_continued() and time.monotonic() < end:
            time.sleep(0.02)
        seconds = time.monotonic() - start
        self.report.end_seconds.append(seconds)
        self.report.continued += may_continue and not has_ended()
        if seconds > self.limit:
            self.report.failures.append(f"{self.report.kinds[-1]}: {seconds:.1f} s")

    def _check_end(self, run: subprocess.Popen[bytes], stderr: str, was_killed: bool) -> None:
        lines = [line for line in stderr.splitlines() if line.startswith("seq2see: ")]
        lines = [line for line in lines if "has no run to resume" not in line]  # a remark
        if "Traceback" in stderr or "Exception ignored" in stderr or len(lines) > 1:
            self.report.failures.append(f"{self.report.kinds[-1:]}: {stderr[-3000:]}")
        if run.returncode and not was_killed:
            self.report.failures.append(f"status {run.returncode} without a kill: {stderr[-3000:]}")
        end = time.monotonic() + self.limit
        while (left := list_session(run.pid)) and time.monotonic() < end:
            time.sleep(0.02)  # the resource tracker of multiprocessing ends last
        if left:
            self.report.failures.append(f"{self.report.kinds[-1:]}: {len(left)} processes left")

    def _last_checkpoint(self) -> int:
        names = [path.name for path in self.directory.glob("checkpoints/*")]
        return max((int(name) for name in names if name.isdecimal()), default=0)


def list_session(session: int) -> list[int]:
    """Return the running processes of a session."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = path.read_text("utf-8").rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(number) == session and state != "Z":
            pids.append(int(path.parent.name))
    return pids


def is_worker(pid: int) -> bool:
    """Return whether a process trains: it was started by multiprocessing."""
    try:
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def main() -> None:
    """Kill runs and print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kills-per-run", type=int, default=10)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Otherwise the runs would ignore SIGINT if this program was started in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    report, generator = KillReport(), random.Random(options.seed)
    with TemporaryDirectory() as name:
        recipe = Path(name, "reverse.toml")
        recipe.write_text(RECIPE, "utf-8")
        pairs = digit_tasks.load_digit_pairs("reverse", "valid")[:20]
        lines = [f"{source}\t{target}\n" for source, target in pairs]
        recipe.with_name("valid.tsv").write_text("".join(lines), "utf-8")
        settings = [f"train.max_updates={options.updates}", f"train.processes={options.processes}"]
        command = [sys.executable, "-m", "seq2see", "train", str(recipe), *settings]
        subprocess.run([*command, "-o", f"{name}/uninterrupted"], check=True)
        expected = compute_sha256(Path(name, "uninterrupted/model.safetensors"))
        num_runs = 0
        while len(report.kinds) < options.kills:
            num_runs += 1
            directory = Path(name, f"run{num_runs}")
            run = InterruptedRun(command, directory, options.limit, report, generator)
            run.train_with_kills(min(options.kills_per_run, options.kills - len(report.kinds)))
            is_identical = compute_sha256(directory / "model.safetensors") == expected
            report.identical += is_identical
            if not is_identical:
                report.failures.append(f"run {num_runs} has other weights")
            print(f"{num_runs} runs: {report.to_json()}", flush=True)
    sys.exit(bool(report.failures))


if __name__ == "__main__":
    main()
