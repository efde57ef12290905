"""Worker processes of a run: a single process, DDP or FSDP, with their devices and collectives."""

from __future__ import annotations

import hashlib
import math
import os
import platform
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from seq2see.data.batch_loader import Batch, WorkerShard
from seq2see.errors import Seq2SeeError, TrainingError
from seq2see.text import PackedIds
from seq2see.training.objective import Objective
from seq2see.training.shm_allreduce import SHM_DIRECTORY, ShmAllReduce, create_shm_allreduce


def worker_device() -> torch.device:
    """Return where this worker computes."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0"))
    torch.accelerator.set_device_index(index)
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return torch.device(kind.type, index)


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the type of matrix products."""
    if precision == "auto":
        has_it = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if has_it else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def apply_fsdp(objective: Objective, device: str) -> Objective:
    """Share the weights out, layer by layer: each is whole only while it computes."""
    # Keys and values come as views, which nobody writes into.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = objective.model
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    for layer in model.decoder.layers:
        register_fsdp_forward_method(layer, "remember")  # it computes outside of `forward`
    fully_shard(objective, mesh=mesh)
    return objective


def full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor with the shares of all workers; all of them must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(values: Tensor, like: Tensor) -> Tensor:
    """Return values shared out in the way of another tensor of their shape, if that is."""
    if isinstance(like, DTensor) and values.dim():  # but for counters, which each worker has
        return distribute_tensor(values.to(like.device), like.device_mesh, like.placements)
    return values.to(like.device)


def copy_into(values: Tensor, target: Tensor) -> None:
    """Copy values into a tensor; of one that is shared out, each worker takes its share."""
    target.detach().copy_(shard_like(values, target))


def copy_full_weights(model: nn.Module, target: nn.Module) -> None:
    """Fill a plain model with the weights of one that is shared out."""
    for values, place in zip(
        model.state_dict().values(), target.state_dict().values(), strict=True
    ):
        copy_into(full_tensor(values), place)


class WorkerGroup:
    """This process alone."""

    rank = 0
    world_size = 1
    local_world_size = 1
    """How many of them are on this machine."""
    uses_shared_memory: bool | None = None
    """Whether they sum gradients through memory that they share; None: wherever they can.

    The order of a sum over three or more differs, so that a run must go on as it began.
    """

    def __init__(self) -> None:
        self.device = worker_device()

    @property
    def data_shard(self) -> WorkerShard:
        """Which share of the data is ours."""
        return WorkerShard(self.rank, self.world_size)

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def wrap_module(self, objective: Objective) -> nn.Module:
        """Return the module to be trained, so that its gradients are the mean over the workers."""
        return objective

    def unsharded_copy(
        self, objective: Objective, build_unsharded: Callable[[], Objective]
    ) -> Objective:
        """Return the objective in a form that this worker can use without the others."""
        del build_unsharded
        return objective

    def gradient_sync(self, objective: nn.Module, is_last: bool) -> Any:
        """Let gradients travel only behind the last batch of an update."""
        del objective, is_last
        return nullcontext()

    def all_reduce_async(self, values: Tensor) -> Callable[[], Tensor]:
        """Begin to sum over the workers, in the memory of the values; return what waits for it."""
        return lambda: values

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum over the workers."""
        return self.all_reduce_async(values)()

    def all_gather(self, value: Any) -> list[Any]:
        """Return what each worker has, in their order."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """Return what the leader has."""
        return value

    def run_on_main(self, function: Callable[[], object]) -> None:
        """Let the leader do something, while the others wait; all of them raise his error."""
        problem: Seq2SeeError | None = None
        if self.is_main:
            try:
                function()
            except Seq2SeeError as error:
                problem = error
            except OSError as error:  # a full disk
                where = f"{error.filename}: " if error.filename else ""
                problem = TrainingError(f"{where}{error.strerror or error}")
        if problem := self.broadcast(problem):
            raise problem

    def barrier(self) -> None:
        """Wait until all are here."""

    def free_shared_memory(self) -> None:
        """Let go of what was kept for working together."""

    def torchrun_agents(self) -> list[str]:
        """Return who started them, if anybody did."""
        return []


class DdpWorkerGroup(WorkerGroup):
    """Several processes, each with its share of every update."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = dist.get_rank()
        self.world_size = dist.get_world_size()
        self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", self.world_size))
        self._sums: ShmAllReduce | None = None

    def wrap_module(self, objective: Objective) -> nn.Module:
        """Return the module in DDP."""
        module = DistributedDataParallel(objective, gradient_as_bucket_view=True)
        self._share_memory(module)
        _settle(module)
        return module

    def _share_memory(self, module: DistributedDataParallel) -> None:
        wanted, parameters = self.uses_shared_memory, [*module.parameters()]
        numbers = sum(p.numel() for p in parameters)
        if wanted is False:
            self._sums = None
        elif not self._sums or self._sums.capacity != numbers:  # or else that of the measuring
            self._sums = create_shm_allreduce(self, parameters)
        self.uses_shared_memory = bool(self._sums)
        if self._sums:
            self._sums.register_on(module)
        elif wanted and self.world_size > 2:  # two numbers have one sum
            size = math.ceil(4 * self.world_size * numbers / 2**20)
            raise TrainingError(
                "the workers shared memory when the run began, and must go on so to be exact: on "
                f"the CPU of one machine, with {size:,} MB free in {SHM_DIRECTORY}"
            )

    def free_shared_memory(self) -> None:
        """Let go of memory that was kept for sums."""
        self._sums = None

    def gradient_sync(self, objective: nn.Module, is_last: bool) -> Any:
        """Let gradients travel only behind the last batch of an update."""
        assert isinstance(objective, DistributedDataParallel)
        return nullcontext() if is_last else objective.no_sync()

    def all_reduce_async(self, values: Tensor) -> Callable[[], Tensor]:
        """Begin to sum over the workers, in the memory of the values; return what waits for it."""
        travelling = dist.all_reduce(values, async_op=True)

        def arrived() -> Tensor:
            travelling.wait()
            return values

        return arrived

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum over the workers."""
        if self._sums and self._sums.can_reduce(values):
            self._sums.all_reduce([values])
            return values
        return super().all_reduce(values)

    def all_gather(self, value: Any) -> list[Any]:
        """Return what each worker has, in their order."""
        values = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return what the leader has."""
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def barrier(self) -> None:
        """Wait until all are here."""
        dist.barrier()

    def torchrun_agents(self) -> list[str]:
        """Return torchrun's agents that started them, one on each machine."""
        return sorted(set(self.all_gather(torchrun_agent_id())))


def _settle(module: DistributedDataParallel) -> None:
    """Let DDP choose where gradients lie before the first update, not behind it.

    A sum over three workers depends on that, so that a run that goes on would make its first update
    otherwise than one that was not stopped.
    """
    module.eval()  # no running means change
    nothing = PackedIds.from_lists([])
    module(Batch.from_packed_ids(nothing, nothing)).total.backward()
    module.zero_grad()


class FsdpWorkerGroup(DdpWorkerGroup):
    """Several processes, each with its share of the weights as well."""

    def wrap_module(self, objective: Objective) -> nn.Module:
        """Return the module, its weights shared out."""
        return apply_fsdp(objective, self.device.type)

    def unsharded_copy(
        self, objective: Objective, build_unsharded: Callable[[], Objective]
    ) -> Objective:
        """Return a plain one with the same weights: workers search at their own pace."""
        copy = build_unsharded()
        copy_full_weights(objective.model, copy.model)
        return copy

    def gradient_sync(self, objective: nn.Module, is_last: bool) -> Any:
        """Let gradients travel only behind the last batch of an update."""
        assert isinstance(objective, FSDPModule)
        objective.set_requires_gradient_sync(is_last)
        return nullcontext()


def torchrun_agent_id() -> str:
    """Return what tells torchrun's agent that started this worker from all others.

    The name of a launch does not: unless it is given, it is always the same. Nor does a count of
    restarts: an agent that lost no worker itself starts its own again without counting.
    """
    parent = os.getppid()
    started = _started(Path(f"/proc/{parent}/stat"))
    name = f"{platform.node()} {parent} {started} {os.environ.get('TORCHELASTIC_RUN_ID')}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _started(status: Path) -> str:
    """Return when a process was started, where that can be told: in a container, numbers of
    processes are the same each time."""
    try:
        return status.read_text("utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""
