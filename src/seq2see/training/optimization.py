"""Optimizers (Adam, AdamW and Muon), gradient clipping and learning rate schedules."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from seq2see.config import Config
from seq2see.errors import Problem
from seq2see.model.basic_modules import XavierLinear
from seq2see.training.distributed import WorkerCommunicator, full_tensor

# N matrices, R rows, C columns

NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Coefficients of x ← a·x + b·x³ + c·x⁵, which raises small singular values fastest and brings all
of them into 0.7–1.2."""
NEWTON_SCHULZ_STEPS = 5
MOMENTUM = 0.95
UPDATE_RMS = 0.2
"""Root mean square of a step, as of Adam, so that a learning rate has the same effect with both
(Liu et al., 2025, Muon is Scalable for LLM Training)."""


class Muon(Optimizer):
    """Muon (Jordan et al., 2024): orthogonalized momentum for matrices, Adam for the rest.

    The gradient of a matrix is dominated by a few directions. Muon sets all singular values of the
    momentum to about one, so that rare directions are learned as fast as frequent ones. Each worker
    orthogonalizes a part of the matrices and receives the others.

    `torch.optim.Muon` does not support several matrices stacked in one weight, computes in
    bfloat16, for which most CPUs have no matrix product, and lets every worker do all the work.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, int],
        other_optimizer: Optimizer,
        workers: WorkerCommunicator,
    ) -> None:
        """Create the optimizer for weights, each with the number of matrices stacked in it."""
        super().__init__([{"params": [*matrices]}], {"lr": 0.0})
        self._blocks = dict(matrices)
        self._workers = workers
        self._other_optimizer = other_optimizer
        # Both optimizers share one state and one list of groups (not after `load_state_dict`).
        other_optimizer.state = self.state
        self.param_groups += other_optimizer.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Update all weights."""
        assert closure is None, "closures are not supported"
        learning_rate = self.param_groups[0]["lr"]
        groups: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for matrix, direction in self._directions():
            groups[matrix.shape].append((matrix, direction))
        for shape, pairs in groups.items():
            size = UPDATE_RMS * max(shape) ** 0.5
            matrices, directions = zip(*pairs, strict=True)
            orthogonal_NRC = self._orthogonalize(torch.stack(directions))
            for matrix, step_RC in zip(matrices, orthogonal_NRC, strict=True):
                matrix.sub_(step_RC, alpha=learning_rate * size)
        self._other_optimizer.step()

    def _directions(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each matrix with the direction of its step: Nesterov momentum."""
        for weight, blocks in self._blocks.items():
            if weight.grad is None:
                continue
            state = self.state[weight]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(weight)
            momentum = state["momentum"].lerp_(weight.grad, 1 - MOMENTUM)
            direction = weight.grad.lerp(momentum, MOMENTUM)
            yield from zip(weight.chunk(blocks), direction.chunk(blocks), strict=True)

    def _orthogonalize(self, matrices_NRC: Tensor) -> Tensor:
        """Orthogonalize all matrices, each in one worker."""
        result_NRC = torch.zeros_like(matrices_NRC)
        own = slice(self._workers.rank, None, self._workers.world_size)
        if len(own_NRC := matrices_NRC[own]):
            result_NRC[own] = orthogonalize(own_NRC)
        return self._workers.all_reduce(result_NRC)  # exact: all workers except one add zero


def orthogonalize(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values close to one."""
    if matrices_NRC.size(1) > matrices_NRC.size(2):  # the products are smaller for wide matrices
        return orthogonalize(matrices_NRC.mT.contiguous()).mT
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    norms_N11 = torch.linalg.matrix_norm(matrices_NRC, keepdim=True)
    x_NRC: Tensor = matrices_NRC / norms_N11.clamp_min(1e-12)  # no singular value is above one
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram_NRR = x_NRC @ x_NRC.mT
        factor_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, factor_NRR, x_NRC, beta=a)
    return x_NRC


def find_linear_weights(model: nn.Module) -> dict[Tensor, int]:
    """Return the weights of the linear layers, each with the number of matrices stacked in it.

    Embeddings are excluded: their rows are independent vectors.
    """
    return {m.weight: m.num_stacked for m in model.modules() if isinstance(m, XavierLinear)}


OptimizerName = Literal["adam", "adamw", "muon"]


class OptimizerConfig(Config):
    """Optimizer."""

    kind: OptimizerName = "adam"
    """`adam`, `adamw` (decoupled weight decay) or `muon` (orthogonalized momentum for weight
    matrices, Adam for the rest; needs fewer updates for the same loss)."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """Decay rate of the first moment (mean of the gradients)."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """Decay rate of the second moment (mean of the squared gradients)."""
    eps: float = Field(default=1e-9, gt=0)
    """Added to the denominator for numerical stability."""
    weight_decay: float = Field(default=0.0, ge=0)
    """`adamw`: weight decay. Not applied to biases and normalization parameters."""
    max_grad_norm: float = Field(default=0.0, ge=0)
    """Maximum norm of the gradient of all weights; 0 disables clipping."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if weight decay is set for an optimizer without it."""
        if self.weight_decay and self.kind != "adamw":
            yield Problem(
                "weight_decay",
                f"must be 0 with {self.kind}, but is {self.weight_decay} instead: only adamw "
                "supports it",
            )


def build_optimizer(
    config: OptimizerConfig, model: nn.Module, workers: WorkerCommunicator | None = None
) -> Optimizer:
    """Build the optimizer; its learning rate is set before each update."""
    matrices = find_linear_weights(model) if config.kind == "muon" else {}
    rest = [(name, p) for name, p in model.named_parameters() if p not in matrices]
    groups = [
        {
            "params": [p for n, p in rest if _has_weight_decay(n, p)],
            "weight_decay": config.weight_decay,
        },
        {"params": [p for n, p in rest if not _has_weight_decay(n, p)], "weight_decay": 0.0},
    ]
    kind = AdamW if config.kind == "adamw" else Adam
    betas = config.beta1, config.beta2
    adam = kind(groups, lr=0.0, betas=betas, eps=config.eps, fused=True)
    return Muon(matrices, adam, workers or WorkerCommunicator()) if matrices else adam


def _has_weight_decay(name: str, parameter: nn.Parameter) -> bool:
    """Return whether a parameter is neither a normalization parameter nor a bias.

    Normalization parameters have one axis; a bias has two if each head has its own.
    """
    return parameter.dim() > 1 and not name.rpartition(".")[2].startswith("bias")


def scale_and_clip_gradients(
    parameters: Iterable[nn.Parameter], factor: float, max_norm: float
) -> float:
    """Multiply all gradients by a factor and clip their total norm to `max_norm` (0: no clipping).

    Return the norm before clipping. Both are done in one pass, since the gradients are not in the
    CPU cache.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = factor * float(full_tensor(nn.utils.get_total_norm(gradients)))
    if max_norm and norm > max_norm:
        factor *= max_norm / norm
    torch._foreach_mul_(gradients, factor)
    return norm


ScheduleKind = Literal["noam", "inverse_sqrt", "linear", "cosine", "constant", "plateau"]


class ScheduleConfig(Config):
    """Learning rate schedule."""

    kind: ScheduleKind = "inverse_sqrt"
    """Schedule after the warm-up. `noam`: d_model^-0.5 · update^-0.5. `inverse_sqrt`: the same
    shape from `peak_lr`. `linear`, `cosine`: from `peak_lr` to `final_lr` at the last update.
    `constant`: `peak_lr`. `plateau`: `peak_lr`, multiplied by `factor` when validation does not
    improve."""
    peak_lr: float = Field(default=0.001, gt=0, le=10)
    """Learning rate at the end of the warm-up; ignored by `noam`."""
    warmup_updates: int = Field(default=2000, ge=0)
    """Number of updates over which the learning rate increases linearly from 0."""
    final_lr: float = Field(default=0.0, ge=0)
    """Final learning rate of `linear` and `cosine`."""
    factor: float = Field(default=0.5, gt=0, lt=1)
    """`plateau`: factor of each reduction."""
    patience: int = Field(default=3, ge=1)
    """`plateau`: number of validations without improvement before a reduction."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem for a missing warm-up or a final learning rate above the peak."""
        if self.kind == "noam" and self.warmup_updates == 0:
            yield Problem(
                "warmup_updates", 'must be at least 1 with kind = "noam", but is 0 instead'
            )
        if self.final_lr > self.peak_lr:
            yield Problem(
                "final_lr",
                f"must be at most peak_lr = {self.peak_lr}, but is {self.final_lr} instead",
            )


class LearningRateSchedule:
    """Learning rate as a function of the number of the update, counted from 1.

    Only `plateau` has a state: it depends on the validations so far.
    """

    def __init__(self, config: ScheduleConfig, d_model: int, num_updates: int) -> None:
        self.config = config
        self.num_updates = num_updates
        """Planned number of updates, at which `linear` and `cosine` reach `final_lr`."""
        self.num_reductions = 0
        """`plateau`: number of reductions so far."""
        self.validations_since_best = 0
        """`plateau`: number of validations after the warm-up since the best one or the last
        reduction."""
        noam_peak = max(1, d_model * config.warmup_updates) ** -0.5
        self._peak_lr = noam_peak if config.kind == "noam" else config.peak_lr

    def learning_rate(self, update: int) -> float:
        """Return the learning rate of this update."""
        warmup = self.config.warmup_updates
        if update < warmup:
            return self._peak_lr * update / warmup
        progress = min(1.0, (update - warmup) / max(self.num_updates - warmup, 1))
        match self.config.kind:
            case "noam" | "inverse_sqrt":
                return self._peak_lr * math.sqrt(max(warmup, 1) / max(update, 1))
            case "linear":
                return self._interpolate(1 - progress)
            case "cosine":
                return self._interpolate((1 + math.cos(math.pi * progress)) / 2)
            case _:
                return self._peak_lr * self.config.factor**self.num_reductions

    def _interpolate(self, fraction: float) -> float:
        """Return a learning rate between `final_lr` (0) and the peak (1)."""
        return self.config.final_lr + (self._peak_lr - self.config.final_lr) * fraction

    def after_validation(self, update: int, improved: bool) -> None:
        """Report a validation after this update; `plateau` may reduce the learning rate.

        During the warm-up the learning rate is not reduced, since it has not reached its peak.
        """
        if self.config.kind != "plateau" or update < self.config.warmup_updates:
            return
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        if self.validations_since_best >= self.config.patience:
            self.num_reductions, self.validations_since_best = self.num_reductions + 1, 0

    def state(self) -> dict[str, int]:
        """Return the state to store in a checkpoint."""
        return {
            "num_reductions": self.num_reductions,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, int]) -> None:
        """Set the state."""
        self.num_reductions = state["num_reductions"]
        self.validations_since_best = state["validations_since_best"]
