"""The processes that train together: one, or as many as torchrun started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seq2see.data.loader import Shard


class Workers:
    """This process alone."""

    rank = 0
    count = 1

    @property
    def shard(self) -> Shard:
        """Which share of the data is ours."""
        return Shard(self.rank, self.count)

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def wrapped(self, objective: nn.Module) -> nn.Module:
        """Return the module to be trained, so that its gradients are the mean over the workers."""
        return objective

    def synchronised(self, objective: nn.Module, is_last: bool) -> Any:
        """Let gradients travel only behind the last batch of an update."""
        del objective, is_last
        return nullcontext()

    def summed(self, values: Tensor) -> Tensor:
        """Return the sum over the workers."""
        return values

    def gathered(self, value: Any) -> list[Any]:
        """Return what each worker has, in their order."""
        return [value]

    def agreed(self, value: Any) -> Any:
        """Return what the leader has."""
        return value

    def wait(self) -> None:
        """Wait until all are here."""


class Group(Workers):
    """Several processes, each with its share of every update."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()

    def wrapped(self, objective: nn.Module) -> nn.Module:
        """Return the module in DDP."""
        return DistributedDataParallel(objective, gradient_as_bucket_view=True)

    def synchronised(self, objective: nn.Module, is_last: bool) -> Any:
        """Let gradients travel only behind the last batch of an update."""
        assert isinstance(objective, DistributedDataParallel)
        return nullcontext() if is_last else objective.no_sync()

    def summed(self, values: Tensor) -> Tensor:
        """Return the sum over the workers."""
        dist.all_reduce(values)
        return values

    def gathered(self, value: Any) -> list[Any]:
        """Return what each worker has, in their order."""
        values = [None] * self.count
        dist.all_gather_object(values, value)
        return values

    def agreed(self, value: Any) -> Any:
        """Return what the leader has."""
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def wait(self) -> None:
        """Wait until all are here."""
        dist.barrier()


@contextmanager
def joined() -> Iterator[Workers]:
    """Give the workers that torchrun started, or this process alone."""
    if "WORLD_SIZE" not in os.environ:
        yield Workers()
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield Group()
    finally:
        dist.destroy_process_group()
