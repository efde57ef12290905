"""Muon: comparison with torch, stacked matrices, several workers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from seq2see.model import ModelConfig, Transformer
from seq2see.model.basic_modules import XavierLinear
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.optimization import (
    Muon,
    OptimizerConfig,
    build_optimizer,
    find_linear_weights,
    orthogonalize,
)

SMALL = ModelConfig(vocab_size=12, d_model=16, d_ff=24, heads=2, encoder_layers=1, decoder_layers=1)


class NotSummed(WorkerCommunicator):
    """One of several workers, whose values are not added to those of the others."""

    def __init__(self, rank: int, world_size: int) -> None:
        super().__init__()
        self.rank, self.world_size = rank, world_size

    def all_reduce(self, values: torch.Tensor) -> torch.Tensor:
        return values


def other_optimizer() -> torch.optim.Optimizer:
    return torch.optim.Adam([nn.Parameter(torch.zeros(1))])


def with_gradients(*shapes: tuple[int, int], seed: int = 1) -> list[nn.Parameter]:
    torch.manual_seed(seed)
    weights = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return weights


def take_steps(optimizer: torch.optim.Optimizer, rate: float = 0.1, steps: int = 2) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    for _ in range(steps):
        optimizer.step()


@pytest.mark.parametrize("shape", [(16, 16), (16, 40)])
def test_orthogonalize_brings_singular_values_close_to_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(2)
    left, _, right = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    matrices = left * torch.logspace(-2, 0, shape[0]) @ right
    inner = left.mT @ orthogonalize(matrices) @ right.mT
    lengths = inner.diagonal(dim1=1, dim2=2)
    assert lengths.min() > 0.6
    assert lengths.max() < 1.3
    torch.testing.assert_close(inner, torch.diag_embed(lengths), rtol=0, atol=1e-4)


def test_zero_or_missing_gradient_makes_no_step() -> None:
    assert not orthogonalize(torch.zeros(2, 3, 4)).any()
    (weight,) = with_gradients((3, 4))
    weight.grad = None
    before = weight.detach().clone()
    take_steps(Muon({weight: 1}, other_optimizer(), WorkerCommunicator()))
    assert weight.equal(before)


@pytest.mark.parametrize("shape", [(16, 16), (16, 40), (40, 16)])
def test_muon_step_equals_torch_muon(shape: tuple[int, int]) -> None:
    (ours,), (theirs,) = with_gradients(shape), with_gradients(shape)
    take_steps(Muon({ours: 1}, other_optimizer(), WorkerCommunicator()))
    take_steps(torch.optim.Muon([theirs], weight_decay=0.0, adjust_lr_fn="match_rms_adamw"))
    torch.testing.assert_close(ours, theirs, rtol=0, atol=5e-3)  # torch computes in bfloat16


def test_stacked_matrices_step_like_separate_matrices() -> None:
    parts = with_gradients((8, 8), (8, 8), (8, 8))
    stacked = nn.Parameter(torch.cat([part.detach() for part in parts]))
    stacked.grad = torch.cat([part.grad for part in parts if part.grad is not None])
    take_steps(Muon({stacked: 3}, other_optimizer(), WorkerCommunicator()))
    take_steps(Muon(dict.fromkeys(parts, 1), other_optimizer(), WorkerCommunicator()))
    torch.testing.assert_close(stacked, torch.cat(parts), rtol=0, atol=1e-6)


@pytest.mark.parametrize("workers", [2, 3, 9])
def test_sum_over_workers_equals_single_worker(workers: int) -> None:
    """Each worker updates a part of the matrices; the sum of all steps is that of one worker."""
    shapes = (8, 8), (12, 8), (8, 12), (8, 8), (8, 8)
    single = with_gradients(*shapes)
    take_steps(Muon(dict.fromkeys(single, 1), other_optimizer(), WorkerCommunicator()), steps=1)
    moved = []
    for rank in range(workers):
        mine = with_gradients(*shapes)
        optimizer = Muon(dict.fromkeys(mine, 1), other_optimizer(), NotSummed(rank, workers))
        take_steps(optimizer, steps=1)
        moved.append(
            [a.detach() - b.detach() for a, b in zip(mine, with_gradients(*shapes), strict=True)]
        )
    for weight, start, moves in zip(
        single, with_gradients(*shapes), zip(*moved, strict=True), strict=True
    ):
        torch.testing.assert_close(weight.detach(), start.detach() + sum(moves), rtol=0, atol=1e-6)
        assert sum(bool(move.any()) for move in moves) == 1


def test_muon_updates_linear_weights_and_adam_the_rest() -> None:
    model = Transformer.from_config(SMALL)
    matrices = find_linear_weights(model)
    names = {name: matrices[p] for name, p in model.named_parameters() if p in matrices}
    assert names["decoder.layers.0.attention.qkv.weight"] == 3
    assert names["decoder.layers.0.cross_attention.key_value.weight"] == 2
    assert not any("embeddings" in name or "norm" in name or "bias" in name for name in names)
    optimizer = build_optimizer(OptimizerConfig(kind="muon"), model)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    take_steps(optimizer)
    assert not any(p.equal(before[name]) for name, p in model.named_parameters())
    state_keys = {name: set(optimizer.state[p]) for name, p in model.named_parameters()}
    adams = {"step", "exp_avg", "exp_avg_sq"}
    assert all(
        state_keys[name] == ({"momentum"} if name in names else adams) for name in state_keys
    )
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(before)
    assert all(isinstance(m, XavierLinear) for m in model.modules() if isinstance(m, nn.Linear))
