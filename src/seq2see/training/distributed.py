"""Worker processes of a run: a single process, DDP or FSDP, with their devices and collectives."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from seq2see.data.batch_loader import Batch
from seq2see.errors import Seq2SeeError, TrainingError
from seq2see.text import PackedIds
from seq2see.training.objective import Objective


def worker_device() -> torch.device:
    """Return the device of this worker: the accelerator of its local rank, or the CPU."""
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0"))
    torch.accelerator.set_device_index(index)
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    return torch.device(kind.type, index)


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the data type of matrix products for a setting of `train.precision`."""
    if precision == "auto":
        supports_bfloat16 = device.type == "cuda" and torch.cuda.is_bf16_supported()
        return torch.bfloat16 if supports_bfloat16 else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def apply_fsdp(objective: Objective, device: str) -> Objective:
    """Shard the weights layer by layer (FSDP2): a layer is gathered only while it is computed."""
    # Keys and values are returned as views, but they are never modified in place.
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    model = objective.model
    for layer in (*model.encoder.layers, *model.decoder.layers):
        fully_shard(layer, mesh=mesh)
    for layer in model.decoder.layers:
        register_fsdp_forward_method(layer, "init_cache")  # it uses weights outside of `forward`
    fully_shard(objective, mesh=mesh)
    return objective


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a sharded tensor from all workers, which must all call it; return others unchanged."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(values: Tensor, like: Tensor) -> Tensor:
    """Shard values as another tensor of the same shape is sharded, and move them to its device."""
    if isinstance(like, DTensor) and values.dim():  # scalars, such as counters, are replicated
        return distribute_tensor(values.to(like.device), like.device_mesh, like.placements)
    return values.to(like.device)


def copy_into(values: Tensor, target: Tensor) -> None:
    """Copy values into a tensor; if it is sharded, each worker copies its own shard."""
    target.detach().copy_(shard_like(values, target))


def unsharded_copy(objective: Objective, build_unsharded: Callable[[], Objective]) -> Objective:
    """Return the objective in a form that this worker can compute without the others.

    With FSDP it is a copy, because workers decode at different speeds.
    """
    if not isinstance(objective, FSDPModule):
        return objective
    copy = build_unsharded()
    for values, tensor in zip(
        objective.model.state_dict().values(), copy.model.state_dict().values(), strict=True
    ):
        copy_into(full_tensor(values), tensor)
    return copy


class WorkerCommunicator:
    """The worker processes of a run and their collectives: one process, DDP or FSDP."""

    def __init__(self, is_single: bool = True) -> None:
        """Create the communicator of one process, or of the process group that it has joined."""
        self._is_single = is_single
        self.rank, self.world_size, self.local_world_size = 0, 1, 1
        if not is_single:
            self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
            self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", self.world_size))
        self.device = worker_device()

    @property
    def is_main(self) -> bool:
        """Whether this is the main process, which writes files and messages."""
        return self.rank == 0

    def wrap_module(self, objective: Objective, fsdp: bool = False) -> nn.Module:
        """Return the module to train; its gradients are the mean over the workers."""
        if self._is_single:
            return objective
        if fsdp:
            return apply_fsdp(objective, self.device.type)
        module = DistributedDataParallel(objective, gradient_as_bucket_view=True)
        _build_ddp_buckets(module)
        return module

    def all_reduce(self, values: Tensor) -> Tensor:
        """Sum values over all workers in place, and return them."""
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all workers, ordered by rank."""
        values = [value] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return the value of the main process."""
        values = [value]
        if self.world_size > 1:
            dist.broadcast_object_list(values, src=0)
        return values[0]

    def run_on_main(self, function: Callable[[], object]) -> None:
        """Call a function in the main process; the others wait. All workers raise its error."""
        problem: Seq2SeeError | None = None
        if self.is_main:
            try:
                function()
            except Seq2SeeError as error:
                problem = error
            except OSError as error:  # for example a full disk
                where = f"{error.filename}: " if error.filename else ""
                problem = TrainingError(f"{where}{error.strerror or error}")
        if problem := self.broadcast(problem):
            raise problem


def gradient_sync(module: nn.Module, is_last: bool) -> AbstractContextManager[None]:
    """Synchronize the gradients of a wrapped module only in the last batch of an update."""
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(is_last)
    elif isinstance(module, DistributedDataParallel) and not is_last:
        return module.no_sync()
    return nullcontext()


def _build_ddp_buckets(module: DistributedDataParallel) -> None:
    """Make DDP assign gradients to buckets before the first update instead of after it.

    The order of summation of three or more workers depends on the buckets. Otherwise the first
    update of a resumed run would differ from that of an uninterrupted run.
    """
    module.eval()  # running statistics do not change
    empty = PackedIds.from_lists([])
    module(Batch.from_packed_ids(empty, empty)).total.backward()
    module.zero_grad()
