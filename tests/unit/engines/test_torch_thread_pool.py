"""The pool of threads that process batches."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from seq2see.engines.torch_engine import TorchThreadPool


def test_results_have_the_order_of_the_items() -> None:
    meet = threading.Barrier(2, timeout=20)  # so that two of them must be at work at once

    def work(number: int) -> tuple[int, str]:
        meet.wait()
        return number, threading.current_thread().name

    found = [*TorchThreadPool(2).map(work, range(8))]
    assert [number for number, _ in found] == list(range(8))
    assert len({name for _, name in found}) == 2


def test_pool_threads_use_one_torch_thread() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert [*TorchThreadPool(2).map(lambda _: torch.get_num_threads(), [0, 1, 2])] == [1, 1, 1]
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_other_threads_keep_their_number_of_torch_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert [*TorchThreadPool(2).map(str, [0, 1])] == ["0", "1"]
        with ThreadPoolExecutor(1) as other:
            assert other.submit(torch.get_num_threads).result() == 3
    finally:
        torch.set_num_threads(before)


def test_one_item_runs_in_the_calling_thread() -> None:
    assert [*TorchThreadPool(2).map(lambda _: threading.current_thread(), [0])] == [
        threading.current_thread()
    ]


def test_pool_of_one_runs_one_call_at_a_time() -> None:
    crew, busy = TorchThreadPool(1), threading.Lock()

    def work(_: int) -> str:
        assert busy.acquire(blocking=False), "two are at work at once"
        time.sleep(0.01)
        busy.release()
        return threading.current_thread().name

    with ThreadPoolExecutor(2, "caller") as callers:
        found = [
            callers.submit(lambda items=items: [*crew.map(work, items)])  # type: ignore[misc]
            for items in ([0, 1], [2, 3], [4])
        ]
        assert all(name.startswith("caller") for names in found for name in names.result())


def test_pool_of_one_is_reentrant() -> None:
    crew = TorchThreadPool(1)
    assert [*crew.map(lambda n: [*crew.map(str, [n])], [1, 2])] == [["1"], ["2"]]


def test_error_is_raised_and_cancels_waiting_items() -> None:
    begun = []

    def work(number: int) -> None:
        begun.append(number)
        time.sleep(0.001)  # as long as some others need to be told
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item 0"):
        list(TorchThreadPool(2).map(work, range(1000)))
    assert len(begun) < 1000
