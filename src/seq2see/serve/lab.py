"""Lists the lab's experiments and runs them, each in a subprocess.

An experiment sets seeds and threads and may train for minutes. It therefore runs in a process of
its own, one at a time, which is killed at the deadline or when the client disconnects.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from seq2see.lab import texts
from seq2see.serve.errors import EngineError, NotFound, Overloaded
from seq2see.serve.work_queue import RequestContext

_POLL_SECONDS = 0.1
_RETRY_SECONDS = 10.0


def describe_lab() -> dict[str, Any]:
    """Return all experiments as JSON records, with topics, study notes and words of verdicts.

    The topic of an experiment is an index in `topics`.
    """
    return {
        "topics": [topic.to_json() for topic in texts.topics().values()],
        "experiments": [
            {**each.to_json(), "topic": texts.topic_index(number)}
            for number, each in texts.load_all_texts().items()
        ],
        "sources": {name: title.to_json() for name, title in texts.source_titles().items()},
        "verdicts": {name: text.to_json() for name, text in texts.verdict_words().items()},
    }


class LabExperimentRunner:
    """Runs experiments and caches their results: an experiment is deterministic."""

    def __init__(self) -> None:
        self._results: dict[int, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def run(self, context: RequestContext, number: int) -> dict[str, Any]:
        """Return the result of an experiment as a JSON record.

        Raises:
            NotFound: There is no such experiment.
            Overloaded: Another experiment is running.
            EngineError: The experiment failed.
            DeadlineExceeded: The deadline passed.
            ClientDisconnected: The client closed the connection.
        """
        if number not in texts.load_all_texts():
            raise NotFound(f"experiment {number} not found")
        if number not in self._results:
            if not self._lock.acquire(blocking=False):
                raise Overloaded("Slowdown: another experiment is running", _RETRY_SECONDS)
            try:
                result = _run_subprocess(context, number)
            finally:
                self._lock.release()
            if result["status"] == "failed":
                raise EngineError("the experiment failed")
            self._results[number] = result
        return self._results[number]


def _run_subprocess(context: RequestContext, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", __name__, str(number)]  # contains no text of the client
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(  # noqa: S603
            command, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            while process.poll() is None:
                if not context.is_active:
                    _kill_group(process)
                time.sleep(_POLL_SECONDS)
        context.raise_if_canceled()
        if process.returncode:
            raise EngineError("the experiment failed")
        output.seek(0)
        result: dict[str, Any] = json.load(output)
    return result


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and, except on Windows, the processes that it has started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def run_lab_experiment_printing_json() -> None:
    """Run the experiment whose number is the first argument and print its result as JSON."""
    from seq2see.lab.figures import render_figures  # noqa: PLC0415 these import torch
    from seq2see.lab.runner import Lab, load_experiment  # noqa: PLC0415

    result = Lab().run(int(sys.argv[1]))
    figures = render_figures(result, load_experiment(result.number).figures)
    sys.stdout.write(json.dumps({**result.to_json(), "figures": figures}, allow_nan=False))


if __name__ == "__main__":
    run_lab_experiment_printing_json()
