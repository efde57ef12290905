"""What a run takes of a machine."""

from __future__ import annotations

import pytest

from seq2see.training import planning
from seq2see.training.planning import choose_processes, choose_threads


def test_threads_are_as_wanted_or_as_stated_or_shared(monkeypatch) -> None:
    monkeypatch.setattr(planning, "count_available_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [choose_threads(None, processes) for processes in (1, 3, 20)] == [8, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert choose_threads(None, 1) == 5
    assert choose_threads(3, 1) == 3


def test_the_one_thread_of_torchrun_is_nobodys_wish(monkeypatch) -> None:
    monkeypatch.setattr(planning, "count_available_cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert [choose_threads(None, 2, free) for free in (True, False)] == [1, 4]
    assert choose_threads(1, 2, may_choose_processes=False) == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert choose_threads(None, 2, may_choose_processes=False) == 3


@pytest.mark.parametrize(
    ("wanted", "tokens", "count"),
    [(None, 4096, 4), (None, 65_536, 16), (None, 512, 1), (5, 512, 5)],
)
def test_each_worker_has_enough_to_do(
    monkeypatch, wanted: int | None, tokens: int, count: int
) -> None:
    monkeypatch.setattr(planning, "count_available_cores", lambda: 16)
    monkeypatch.setattr(planning.torch.accelerator, "is_available", lambda: False)
    assert choose_processes(wanted, tokens) == count
