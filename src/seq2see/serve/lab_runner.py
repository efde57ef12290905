"""Runs the lab's experiments, each in a subprocess."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

from seq2see.serve.errors import Busy, Failed, NotFound
from seq2see.serve.work_queue import Call

if TYPE_CHECKING:
    from seq2see.lab.experiment import Experiment, Figure, Language

_LOOK_UP = 0.1


_RETRY = 10.0


def cards() -> list[dict[str, Any]]:
    """Return what every experiment claims."""
    return [each.record() for each in _experiments()]


def notes() -> dict[str, dict[Language, str]]:
    """Return what each of the notes is about whose claims are tested."""
    from seq2see.lab.words import NOTES  # noqa: PLC0415 as slow as the experiments

    return {name: about.record() for name, about in NOTES.items()}


class Laboratory:
    """Runs experiments, each once: what came out is the same the next time."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Any]] = {}
        self._bench = threading.Lock()

    def run(self, call: Call, number: int) -> dict[str, Any]:
        """Return what came out of an experiment."""
        if number not in {each.number for each in _experiments()}:
            raise NotFound(f"{number} is not an experiment")
        if number not in self._known:
            if not self._bench.acquire(blocking=False):
                raise Busy("Slowdown: another experiment is running", _RETRY)
            try:
                self._known[number] = _outcome(call, number)
            finally:
                self._bench.release()
        return self._known[number]


def _experiments() -> tuple[Experiment, ...]:
    from seq2see.lab.registry import experiments  # noqa: PLC0415 a third of the service's start

    return experiments()


def _outcome(call: Call, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__, str(number)]  # nothing in it is a client's word
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        ends = threading.Thread(target=_end_with, args=(child, call), daemon=True)
        ends.start()
        assert child.stdout is not None
        written = child.stdout.read()
    call.still_wanted()
    if child.returncode:
        raise Failed("the experiment broke")
    found: dict[str, Any] = json.loads(written)
    return found


def _end_with(child: subprocess.Popen[bytes], call: Call) -> None:
    """End an experiment that nobody waits for, or that is over its time."""
    while child.poll() is None:
        if call.is_cancelled or call.left <= 0:
            os.killpg(child.pid, signal.SIGKILL)  # and whatever it has started
            return
        try:
            child.wait(_LOOK_UP)
        except subprocess.TimeoutExpired:
            continue


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "caption": figure.caption.record(),
        "svg": {"en": figure.drawn("en"), "zh": figure.drawn("zh")},
    }


def main() -> None:
    """Run the experiment of the given number, as a process of its own."""
    from seq2see.lab.bench import Bench  # noqa: PLC0415
    from seq2see.lab.registry import chosen  # noqa: PLC0415
    from seq2see.lab.runner import run_one  # noqa: PLC0415

    (each,) = chosen(sys.argv[1:])
    outcome = run_one(each, Bench())
    figures = outcome.finding.figures if outcome.finding else ()
    record = {**outcome.record(), "figures": [_figure(figure) for figure in figures]}
    sys.stdout.write(json.dumps(record))


if __name__ == "__main__":
    main()
