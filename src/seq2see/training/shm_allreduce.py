"""All-reduce through shared memory between the worker processes of one machine."""

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

# No `from __future__ import annotations`: DDP reads the types of its hook.
# W workers, N numbers

SHM_DIRECTORY = Path("/dev/shm")  # noqa: S108 files with names that nobody can guess
"""Where files are memory. Linux has it; elsewhere gloo does the sums."""


MAX_WORKERS = 4
"""Workers, at most: each reads what all have written, and gloo's share of it gets no larger."""


class Collectives(Protocol):
    """What it takes to agree on a file."""

    rank: int
    world_size: int

    def broadcast(self, value: Any) -> Any:
        """Return what the leader has."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return what each worker has."""
        ...


class ShmAllReduce:
    """Adds up tensors of all workers, each of which has a row to write its own into."""

    def __init__(self, rows_WN: Tensor, rank: int) -> None:
        self._rows_WN = rows_WN
        self._rank = rank
        self._read: dist.Work | None = None
        """Is over once all have read the last sum, so that the rows are free again."""
        self._travelling: list[tuple[Future[Tensor], Tensor]] = []

    @property
    def capacity(self) -> int:
        """How many can be added up at once."""
        return self._rows_WN.size(1)

    def can_reduce(self, values: Tensor) -> bool:
        """Whether they can be added up here."""
        return values.dtype == self._rows_WN.dtype and values.numel() <= self.capacity

    def all_reduce(self, tensors: Sequence[Tensor], factor: float = 1.0) -> None:
        """Put into each tensor the sum over the workers of its values times the factor.

        The order of a sum is that of the workers: all of them get the same to the bit.
        """
        if self._read:
            self._read.wait()
        sizes = [tensor.numel() for tensor in tensors]
        rows_WN = self._rows_WN[:, : sum(sizes)]
        for tensor, own in zip(tensors, rows_WN[self._rank].split(sizes), strict=True):
            torch.mul(tensor.view(-1), factor, out=own)
        dist.barrier()  # all is written
        for tensor, rows in zip(tensors, rows_WN.split(sizes, dim=1), strict=True):
            total = tensor.view(-1)
            total.copy_(rows[0])
            for row in rows[1:]:
                total.add_(row)
        self._read = dist.barrier(async_op=True)  # nobody waits for it before the next sum

    def register_on(self, module: DistributedDataParallel) -> None:
        """Make the means of the gradients of a module, instead of gloo."""
        module.register_comm_hook(None, self._gather)

    def _gather(self, _: object, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
        """Keep a bucket of gradients until the last is there: one meeting does for all of them."""
        future: Future[Tensor] = Future()
        self._travelling.append((future, bucket.buffer()))
        if bucket.is_last():
            buffers = [buffer for _, buffer in self._travelling]
            self.all_reduce(buffers, 1 / len(self._rows_WN))
            for kept, buffer in self._travelling:
                kept.set_result(buffer)
            self._travelling.clear()
        return future


def create_shm_allreduce(workers: Collectives, parameters: Iterable[Tensor]) -> ShmAllReduce | None:
    """Return sums large enough for all parameters; nothing where they are no plain numbers in
    memory, where the workers have no memory in common, or where there are too many of them.
    """
    parameters = list(parameters)
    if workers.world_size > MAX_WORKERS or any(
        p.dtype != torch.float32 or p.device.type != "cpu" for p in parameters
    ):
        return None
    shape = workers.world_size, sum(p.numel() for p in parameters)
    path = workers.broadcast(_reserved(4 * math.prod(shape)) if workers.rank == 0 else None)
    if path is None:
        return None
    try:
        # Its name is random, so that nobody on another machine has one like it.
        if not all(workers.all_gather(Path(path).exists())):
            return None
        rows_WN = torch.from_file(path, shared=True, size=math.prod(shape)).view(shape)
        workers.all_gather(None)
    finally:
        if workers.rank == 0:
            Path(path).unlink()  # the memory lives as long as anybody uses it, and no longer
    return ShmAllReduce(rows_WN, workers.rank)


def _reserved(size: int) -> str | None:
    """Return a file of so many bytes of memory, if there are as many.

    Whoever writes into memory that is not there is killed without a word, so it is reserved here.
    """
    try:
        file, path = mkstemp(prefix="seq2see-", dir=SHM_DIRECTORY)
    except OSError:
        return None
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:
        Path(path).unlink()
        return None
    finally:
        os.close(file)
    return path
