"""Workers find each other, whatever those before them left in the store."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore
from torch.distributed.distributed_c10d import Store

from seq2see.training.launch import new_rendezvous_store


def meet(store: Store, delays: list[float]) -> list[str]:
    """Start a worker after each delay; return what each finds where the others have written."""
    count = len(delays)

    def work(rank: int) -> str:
        time.sleep(delays[rank])
        own = new_rendezvous_store(store, rank, count)
        own.set(f"address {rank}", f"{rank} of {delays}")
        return " | ".join(own.get(f"address {other}").decode() for other in range(count))

    with ThreadPoolExecutor(count) as pool:
        return [*pool.map(work, range(count))]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_address_of_an_earlier_start_is_read(count: int) -> None:
    store, chance = HashStore(), random.Random(count)  # noqa: S311 a test must be the same each time
    for _ in range(12):
        delays = [chance.choice([0.0, 0.03, 0.08]) + chance.random() / 1000 for _ in range(count)]
        expected = " | ".join(f"{rank} of {delays}" for rank in range(count))
        assert meet(store, delays) == [expected] * count


def test_who_died_at_the_meeting_is_forgotten() -> None:
    store = HashStore()
    store.set("hello/1", "of a worker that was killed")
    store.set("list", '{"name": "old", "heard": {"1": "of a worker that was killed"}}')
    first, second = meet(store, [0.0, 0.1])
    assert first == second
