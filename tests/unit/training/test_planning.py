"""What a run takes of a machine."""

from __future__ import annotations

import pytest

from seq2see import cpu
from seq2see.training.planning import threads_of, workers_of


def test_threads_are_as_wanted_or_as_stated_or_shared(monkeypatch) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [threads_of(None, processes) for processes in (1, 3, 20)] == [8, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert threads_of(None, 1) == 5
    assert threads_of(3, 1) == 3


def test_the_one_thread_of_torchrun_is_nobodys_wish(monkeypatch) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [threads_of(None, 2, free) for free in (True, False)] == [1, 4]
    assert threads_of(1, 2, free=False) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_of(None, 2, free=False) == 3


@pytest.mark.parametrize(
    ("wanted", "tokens", "count"),
    [(None, 4096, 4), (None, 65_536, 16), (None, 512, 1), (5, 512, 5)],
)
def test_each_worker_has_enough_to_do(
    monkeypatch, wanted: int | None, tokens: int, count: int
) -> None:
    monkeypatch.setattr(cpu, "cores", lambda: 16)
    monkeypatch.setattr(cpu.torch.accelerator, "is_available", lambda: False)
    assert workers_of(wanted, tokens) == count
