"""Where workers find each other, again after a restart.

Torchrun's agent keeps one store for all starts of its workers (torch 2.13), with the addresses of
those that are gone in it. Whoever reads one before the new worker has written its own calls nobody,
and the restart fails. So workers first agree on a part of the store that none has used before.
"""

from __future__ import annotations

import json
import secrets
import time

from torch.distributed.distributed_c10d import PrefixStore, Store

_MOMENT = 0.02
"""Seconds between two looks at the store."""


def fresh(store: Store, rank: int, count: int) -> Store:
    """Return a part of the store that is new, and the same for all workers of this start.

    Each says hello with a name that it has just drawn. The leader answers with a list of the names
    that it read. Only who finds the own name there believes it: all else is of an earlier start.
    """
    name = secrets.token_hex(8)
    if rank == 0:
        _lead(store, name, count)
    else:
        name = _follow(store, rank, name)
    return PrefixStore(name, store)


def _lead(store: Store, name: str, count: int) -> None:
    others = range(1, count)
    while not all(store.check([f"{name}/{rank}"]) for rank in others):
        heard = {rank: store.get(f"hello/{rank}").decode() for rank in others}
        store.set("list", json.dumps({"name": name, "heard": heard}))
        time.sleep(_MOMENT)


def _follow(store: Store, rank: int, own: str) -> str:
    """Return the name of the leader that has heard of this worker."""
    store.set(f"hello/{rank}", own)
    while (said := json.loads(store.get("list")))["heard"].get(str(rank)) != own:
        time.sleep(_MOMENT)
    name = str(said["name"])
    store.set(f"{name}/{rank}", "here")
    return name
