"""Systems that run alternately, each in its own process, with its own Python and threads.

A system reads one line per turn, does its work once and replies with the seconds and its peak
memory in MB. This module imports only the standard library, so that it runs in any environment.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self


class Turn(NamedTuple):
    """Result of one turn of a system."""

    seconds: float
    megabytes: float
    """Peak memory so far, summed over the processes of the system."""


def take_turns(work: Callable[[], object]) -> None:
    """Do the work once for each line on standard input, and reply with time and memory."""
    for _ in sys.stdin:
        start = time.perf_counter()
        work()
        taken = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(f"turn {taken} {peak}", flush=True)


class System:
    """A running system: one process, or several that share each turn."""

    def __init__(
        self,
        command: Sequence[str],
        threads: int,
        processes: int = 1,
        environment: dict[str, str] | None = None,
    ) -> None:
        common = {**os.environ, "OMP_NUM_THREADS": str(threads), **(environment or {})}
        variables = [
            _rank_variables(number, processes) if processes > 1 else {}
            for number in range(processes)
        ]
        self._workers = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**common, **own},
            )
            for own in variables
        ]

    def turn(self) -> Turn:
        """Let the system do its work once; the slowest process determines the time."""
        for worker in self._workers:
            assert worker.stdin
            worker.stdin.write("go\n")
            worker.stdin.flush()
        turns = [_read_reply(worker) for worker in self._workers]
        return Turn(max(t.seconds for t in turns), sum(t.megabytes for t in turns))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            assert worker.stdin
            worker.stdin.close()
        for worker in self._workers:
            worker.wait()


def _rank_variables(number: int, processes: int) -> dict[str, str]:
    """Return the environment variables of torch.distributed for a process on this machine."""
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29507",
    }


def _read_reply(worker: subprocess.Popen[str]) -> Turn:
    assert worker.stdout
    for line in worker.stdout:
        if line.startswith("turn "):
            _, taken, megabytes = line.split()
            return Turn(float(taken), float(megabytes))
    raise SystemExit(f"{' '.join(map(str, worker.args))} ended")  # type: ignore[arg-type]
