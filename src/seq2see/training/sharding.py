"""A model whose weights are shared out among the workers (FSDP2), and its tensors put together."""

from __future__ import annotations

import warnings

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from seq2see.training.objective import Objective


def shard(objective: Objective, device: str) -> Objective:
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


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with the shares of all workers; all of them must ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def parted(values: Tensor, like: Tensor) -> Tensor:
    """Return values shared out in the way of another tensor of their shape, if that is."""
    if isinstance(like, DTensor) and values.dim():  # but for counters, which each worker has
        return distribute_tensor(values.to(like.device), like.device_mesh, like.placements)
    return values.to(like.device)


def put(values: Tensor, place: Tensor) -> None:
    """Copy values into a tensor; of one that is shared out, each worker takes its share."""
    place.detach().copy_(parted(values, place))


def put_together(model: nn.Module, plain: nn.Module) -> None:
    """Fill a plain model with the weights of one that is shared out."""
    for values, place in zip(model.state_dict().values(), plain.state_dict().values(), strict=True):
        put(whole(values), place)
