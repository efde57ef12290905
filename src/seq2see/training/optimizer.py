"""Optimizers: Adam, AdamW and Muon, and gradient clipping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from seq2see.config import Config
from seq2see.model.modules import XavierLinear
from seq2see.training.workers import WorkerGroup, full_tensor

# N matrices, R rows, C columns, R ≤ C

NEWTON_SCHULZ_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""x ← a·x + b·x³ + c·x⁵ lifts small singular values fastest and leaves all of them in 0.7–1.2."""


NEWTON_SCHULZ_STEPS = 5


UPDATE_RMS = 0.2
"""The size of a step, that of Adam's usual one: a rate means the same for both (Liu et al., 2025,
Muon is Scalable for LLM Training)."""


AllReduce = Callable[[Tensor], Tensor]
"""Adds up what all workers have."""


class Muon(Optimizer):
    """Moves matrices by their orthogonal momentum, and all the rest by another optimiser.

    Each worker makes its share of the matrices orthogonal, and gets those of the others.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, int],
        other_optimizer: Optimizer,
        momentum: float = 0.95,
        own_matrices: slice = slice(None),
        all_reduce: AllReduce = lambda values: values,
    ) -> None:
        """Take weights, each with the number of matrices that are stacked in it."""
        super().__init__([{"params": [*matrices]}], {"lr": 0.0})
        self._blocks = dict(matrices)
        self._momentum = momentum
        self._share = own_matrices
        self._summed = all_reduce
        self._rest = other_optimizer
        # One state and one list of groups, whoever asks; `load_state_dict` would part them again.
        other_optimizer.state = self.state
        self.param_groups += other_optimizer.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move everything by a step."""
        assert closure is None, "nothing is computed anew"
        rate = self.param_groups[0]["lr"]
        for shape, pairs in group_by_shape(self._directions()).items():
            size = UPDATE_RMS * max(shape) ** 0.5
            matrices, directions = zip(*pairs, strict=True)
            orthogonal_NRC = self._orthogonal(
                torch.stack([transpose_if_tall(d) for d in directions])
            )
            for matrix, step_RC in zip(matrices, orthogonal_NRC, strict=True):
                matrix.sub_(step_RC.T if is_tall(matrix) else step_RC, alpha=rate * size)
        self._rest.step()

    def _directions(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each matrix, and where its momentum leads it: a look ahead, as Nesterov's."""
        for weight, blocks in self._blocks.items():
            if weight.grad is None:
                continue
            state = self.state[weight]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(weight)
            past = state["momentum"].lerp_(weight.grad, 1 - self._momentum)
            direction = weight.grad.lerp(past, self._momentum)
            yield from zip(weight.chunk(blocks), direction.chunk(blocks), strict=True)

    def _orthogonal(self, matrices_NRC: Tensor) -> Tensor:
        """Return all of them made orthogonal, each by one worker."""
        result_NRC = torch.zeros_like(matrices_NRC)
        if len(mine_NRC := matrices_NRC[self._share]):
            result_NRC[self._share] = orthogonalize(mine_NRC)
        return self._summed(result_NRC)  # exact: all but one add a zero


def orthogonalize(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors, whose singular values are near one."""
    a, b, c = NEWTON_SCHULZ_COEFFICIENTS
    norms_N11 = torch.linalg.matrix_norm(matrices_NRC, keepdim=True)
    x_NRC: Tensor = matrices_NRC / norms_N11.clamp_min(1e-12)  # no singular value is above one
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram_NRR = x_NRC @ x_NRC.mT
        factor_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, factor_NRR, x_NRC, beta=a)
    return x_NRC


def find_linear_weights(model: nn.Module) -> dict[Tensor, int]:
    """Return the weights of the linear layers, each with the matrices that are stacked in it.

    Embeddings are matrices too, but a row of theirs is a word and has nothing to do with the next.
    """
    return {m.weight: m.num_stacked for m in model.modules() if isinstance(m, XavierLinear)}


def group_by_shape(pairs: Iterable[tuple[Tensor, Tensor]]) -> dict[tuple[int, int], list[Any]]:
    """Return pairs of matrices by their shape, upright or not: one product can do all of a kind."""
    groups: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for matrix, direction in pairs:
        groups[min(matrix.shape), max(matrix.shape)].append((matrix, direction))
    return groups


def is_tall(matrix: Tensor) -> bool:
    """Whether it has more rows than columns."""
    return matrix.size(0) > matrix.size(1)


def transpose_if_tall(matrix: Tensor) -> Tensor:
    """Return it with no more rows than columns, which makes its products smaller."""
    return matrix.T if is_tall(matrix) else matrix


class OptimizerConfig(Config):
    """How gradients become steps."""

    kind: Literal["adam", "adamw", "muon"] = "adam"
    """`adamw` lets weights decay apart from the gradient. `muon` moves the matrices of the layers
    by orthogonal steps, and the rest as `adam` does: fewer updates for the same loss."""
    beta1: float = Field(default=0.9, ge=0, lt=1)
    """How long the mean of the gradients remembers."""
    beta2: float = Field(default=0.98, ge=0, lt=1)
    """How long the mean of their squares remembers."""
    eps: float = Field(default=1e-9, gt=0)
    """Added to the root of the squares."""
    weight_decay: float = Field(default=0.0, ge=0)
    """adamw: how fast weights shrink; norms and biases do not."""
    max_grad_norm: float = Field(default=0.0, ge=0)
    """The longest gradient, all weights together; a longer one is shortened. 0: as it comes."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a decay that nobody would see."""
        if self.kind != "adamw" and self.weight_decay:
            yield f"`weight_decay` must be 0 with {self.kind}: only adamw has it"


def build_optimizer(
    config: OptimizerConfig, model: nn.Module, workers: WorkerGroup | None = None
) -> Optimizer:
    """Make the optimiser; the rate comes with each update."""
    if config.kind != "muon":
        return _adam(config, [*model.named_parameters()])
    matrices = find_linear_weights(model)
    rest = [(name, p) for name, p in model.named_parameters() if p not in matrices]
    workers = workers or WorkerGroup()
    share = slice(workers.rank, None, workers.world_size)
    return Muon(matrices, _adam(config, rest), own_matrices=share, all_reduce=workers.all_reduce)


def _adam(config: OptimizerConfig, named: Sequence[tuple[str, nn.Parameter]]) -> Optimizer:
    kind = AdamW if config.kind == "adamw" else Adam
    groups = [
        {"params": [p for n, p in named if _decays(n, p)], "weight_decay": config.weight_decay},
        {"params": [p for n, p in named if not _decays(n, p)], "weight_decay": 0.0},
    ]
    return kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.eps, fused=True)


def _decays(name: str, parameter: nn.Parameter) -> bool:
    """Whether it is a weight. A norm has one axis; a bias may have two, where heads have theirs."""
    return parameter.dim() > 1 and not name.rpartition(".")[2].startswith("bias")


def scale_gradients(parameters: Iterable[nn.Parameter], factor: float, max_norm: float) -> float:
    """Multiply all gradients, and shorten them if they are longer then than this, all together
    (0: never). Return how long they were.

    Both in one pass, since at each update the gradients come from far.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    length = factor * float(full_tensor(nn.utils.get_total_norm(gradients)))
    if max_norm and length > max_norm:
        factor *= max_norm / length
    torch._foreach_mul_(gradients, factor)
    return length
