"""The lab's experiments in the service."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seq2see.serve import lab
from seq2see.serve.errors import ClientDisconnected, DeadlineExceeded, NotFound, Overloaded
from seq2see.serve.lab import LabExperimentRunner, describe_lab
from seq2see.serve.work_queue import RequestContext

EXPERIMENTS = describe_lab()["experiments"]


def test_every_experiment_has_number_claim_and_topic() -> None:
    lab_record = describe_lab()
    experiments = lab_record["experiments"]
    assert len({each["number"] for each in experiments}) == len(experiments) > 10
    assert all(
        part["claim"]["en"] and part["claim"]["zh"]
        for each in experiments
        for part in each["parts"]
    )
    assert {each["topic"] for each in experiments} <= set(range(len(lab_record["topics"])))
    assert all(topic["en"] and topic["zh"] for topic in lab_record["topics"])


def test_experiments_run_once_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, started = LabExperimentRunner(), []
    number, other = (each["number"] for each in EXPERIMENTS[:2])

    def run_subprocess(_: RequestContext, started_number: int) -> dict[str, Any]:
        started.append(started_number)
        with pytest.raises(Overloaded):
            runner.run(RequestContext.with_timeout(9), other)
        return {"number": started_number, "status": "ok"}

    monkeypatch.setattr(lab, "_run_subprocess", run_subprocess)
    first = runner.run(RequestContext.with_timeout(9), number)
    second = runner.run(RequestContext.with_timeout(9), number)
    assert first == second == {"number": number, "status": "ok"}
    assert started == [number]
    with pytest.raises(NotFound):
        runner.run(RequestContext.with_timeout(9), -1)


@pytest.mark.parametrize("is_late", [False, True], ids=["canceled", "late"])
def test_experiment_ends_on_disconnect_and_at_deadline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_late: bool
) -> None:
    script = tmp_path / "forever.sh"
    script.write_text("#!/bin/sh\nsleep 100 & sleep 100\n", "utf-8")
    script.chmod(0o700)
    monkeypatch.setattr(lab, "sys", SimpleNamespace(executable=str(script)))
    context = RequestContext.with_timeout(0.3 if is_late else 60)
    if not is_late:
        threading.Timer(0.2, context.cancel).start()
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded if is_late else ClientDisconnected):
        LabExperimentRunner().run(context, EXPERIMENTS[0]["number"])
    assert time.monotonic() - start < 10
