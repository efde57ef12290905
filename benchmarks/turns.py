"""Systems that take turns, each in a process of its own: another Python, threads of its own.

A system reads a line for each turn, does its work once and answers with the seconds it took and the
peak of its memory in MB. Needs nothing but Python, so that any environment can run it.
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
    """What a system did once."""

    seconds: float
    megabytes: float
    """The peak of its memory so far, all its processes together."""


def take_turns(work: Callable[[], object]) -> None:
    """Do the work whenever the benchmark asks for it."""
    for _ in sys.stdin:
        start = time.perf_counter()
        work()
        taken = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(f"turn {taken} {peak}", flush=True)


class System:
    """A system at work in one process, or in several that share each turn."""

    def __init__(
        self,
        command: Sequence[str],
        threads: int,
        processes: int = 1,
        environment: dict[str, str] | None = None,
    ) -> None:
        common = {**os.environ, "OMP_NUM_THREADS": str(threads), **(environment or {})}
        ranks = [_rank(number, processes) if processes > 1 else {} for number in range(processes)]
        self._workers = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**common, **rank},
            )
            for rank in ranks
        ]

    def turn(self) -> Turn:
        """Let it work once; several processes are as fast as the slowest."""
        for worker in self._workers:
            assert worker.stdin
            worker.stdin.write("go\n")
            worker.stdin.flush()
        turns = [_answer(worker) for worker in self._workers]
        return Turn(max(t.seconds for t in turns), sum(t.megabytes for t in turns))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            assert worker.stdin
            worker.stdin.close()
        for worker in self._workers:
            worker.wait()


def _rank(number: int, processes: int) -> dict[str, str]:
    """Return what torch.distributed reads, for a process on this machine."""
    return {
        "RANK": str(number),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29507",
    }


def _answer(worker: subprocess.Popen[str]) -> Turn:
    assert worker.stdout
    for line in worker.stdout:
        if line.startswith("turn "):
            _, taken, megabytes = line.split()
            return Turn(float(taken), float(megabytes))
    raise SystemExit(f"{' '.join(map(str, worker.args))} ended")  # type: ignore[arg-type]
