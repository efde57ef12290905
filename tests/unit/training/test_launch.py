"""The rendezvous store is separate for each start of the workers."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore
from torch.distributed.distributed_c10d import Store

from seq2see.training.launch import create_unused_prefix_store


def read_addresses(store: Store, delays: list[float]) -> list[str]:
    """Start a worker after each delay; return the addresses that each of them reads."""
    world_size = len(delays)

    def work(rank: int) -> str:
        time.sleep(delays[rank])
        own = create_unused_prefix_store(store, rank, world_size)
        own.set(f"address {rank}", f"{rank} of {delays}")
        return " | ".join(own.get(f"address {other}").decode() for other in range(world_size))

    with ThreadPoolExecutor(world_size) as pool:
        return [*pool.map(work, range(world_size))]


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_addresses_of_earlier_starts_are_ignored(world_size: int) -> None:
    store, generator = HashStore(), random.Random(world_size)  # noqa: S311 deterministic
    for _ in range(12):
        delays = [
            generator.choice([0.0, 0.03, 0.08]) + generator.random() / 1000
            for _ in range(world_size)
        ]
        expected = " | ".join(f"{rank} of {delays}" for rank in range(world_size))
        assert read_addresses(store, delays) == [expected] * world_size


def test_worker_killed_during_rendezvous_is_ignored() -> None:
    store = HashStore()
    store.set("name/1", "killed worker")
    store.set("list", '{"main": "old", "workers": {"1": "killed worker"}}')
    first, second = read_addresses(store, [0.0, 0.1])
    assert first == second
