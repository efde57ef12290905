"""All-reduce in shared memory between the worker processes of one machine.

gloo sends all values through sockets, even between processes of one machine, which costs two
workers more time than the sum itself.
"""

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

# No `from __future__ import annotations`: DDP inspects the annotations of its hook.
# W workers, N values

SHM_DIRECTORY = Path("/dev/shm")  # noqa: S108 the file names are random
"""Directory of files in memory. It exists on Linux; elsewhere gloo is used."""


MAX_WORKERS = 4
"""Maximum number of workers: each reads the values of all others, which scales worse than gloo."""


class SupportsCollectives(Protocol):
    """Collective operations that are needed to create a shared file."""

    rank: int
    world_size: int

    def broadcast(self, value: Any) -> Any:
        """Return the value of the main process."""
        ...

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all workers."""
        ...


class ShmAllReduce:
    """Sums tensors over all workers; each writes its values into its row of shared memory."""

    def __init__(self, rows_WN: Tensor, rank: int) -> None:
        self._rows_WN = rows_WN
        self._rank = rank
        self._read: dist.Work | None = None
        """Barrier that ends when all workers have read the last sum: the rows can be reused."""
        self._buckets: list[tuple[Future[Tensor], Tensor]] = []

    @property
    def capacity(self) -> int:
        """Maximum number of values per all-reduce."""
        return self._rows_WN.size(1)

    def can_reduce(self, values: Tensor) -> bool:
        """Return whether the values have the data type of the memory and fit into it."""
        return values.dtype == self._rows_WN.dtype and values.numel() <= self.capacity

    def all_reduce(self, tensors: Sequence[Tensor], factor: float = 1.0) -> None:
        """Replace each tensor by the sum over the workers of its values times the factor.

        Values are summed in the order of the ranks, so that the result is bit-identical in all
        workers.
        """
        if self._read:
            self._read.wait()
        sizes = [tensor.numel() for tensor in tensors]
        rows_WN = self._rows_WN[:, : sum(sizes)]
        for tensor, own in zip(tensors, rows_WN[self._rank].split(sizes), strict=True):
            torch.mul(tensor.view(-1), factor, out=own)
        dist.barrier()  # all workers have written their rows
        for tensor, rows in zip(tensors, rows_WN.split(sizes, dim=1), strict=True):
            total = tensor.view(-1)
            total.copy_(rows[0])
            for row in rows[1:]:
                total.add_(row)
        self._read = dist.barrier(async_op=True)  # the next call waits for it

    def register_on(self, module: DistributedDataParallel) -> None:
        """Average the gradients of a DDP module in shared memory instead of with gloo."""
        module.register_comm_hook(None, self._reduce_bucket)

    def _reduce_bucket(self, _: object, bucket: dist.GradBucket) -> Future[Tensor]:  # type: ignore[name-defined]
        """Collect the buckets of gradients and reduce all of them with the last one.

        One synchronization is faster than one per bucket.
        """
        future: Future[Tensor] = Future()
        self._buckets.append((future, bucket.buffer()))
        if bucket.is_last():
            buffers = [buffer for _, buffer in self._buckets]
            self.all_reduce(buffers, 1 / len(self._rows_WN))
            for bucket_future, buffer in self._buckets:
                bucket_future.set_result(buffer)
            self._buckets.clear()
        return future


def create_shm_allreduce(
    workers: SupportsCollectives, parameters: Iterable[Tensor]
) -> ShmAllReduce | None:
    """Return an all-reduce with memory for the gradients of all parameters.

    Return None if the parameters are not float32 on the CPU, if there are too many workers, or if
    the workers share no memory.
    """
    parameters = list(parameters)
    if workers.world_size > MAX_WORKERS or any(
        p.dtype != torch.float32 or p.device.type != "cpu" for p in parameters
    ):
        return None
    shape = workers.world_size, sum(p.numel() for p in parameters)
    path = workers.broadcast(_reserve_memory(4 * math.prod(shape)) if workers.rank == 0 else None)
    if path is None:
        return None
    try:
        # The name is random, so that no file of another machine has the same name.
        if not all(workers.all_gather(Path(path).exists())):
            return None
        rows_WN = torch.from_file(path, shared=True, size=math.prod(shape)).view(shape)
        workers.all_gather(None)
    finally:
        if workers.rank == 0:
            Path(path).unlink()  # the memory is freed when no process uses it any more
    return ShmAllReduce(rows_WN, workers.rank)


def _reserve_memory(size: int) -> str | None:
    """Create a file of `size` bytes in memory; return its path, or None if there is no space.

    The space is reserved, since a process that writes into missing memory is killed by a signal.
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
