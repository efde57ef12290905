"""Muon: momentum whose every direction counts the same (Jordan et al., 2024).

The gradient of a matrix is mostly a few large directions. Muon takes its momentum and sets all
singular values to about one, so that the rare directions are learnt as fast as the frequent ones.
Torch has a `Muon` too, but it knows no matrices stacked in one weight, works in bfloat16, which
most CPUs have no products for, and lets every worker do all of the work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seq2see.model.linear import Linear

# N matrices, R rows, C columns, R ≤ C

QUINTIC = (3.4445, -4.7750, 2.0315)
"""x ← a·x + b·x³ + c·x⁵ lifts small singular values fastest and leaves all of them in 0.7–1.2."""
STEPS = 5
RMS = 0.2
"""The size of a step, that of Adam's usual one: a rate means the same for both (Liu et al., 2025,
Muon is Scalable for LLM Training)."""

Summed = Callable[[Tensor], Tensor]
"""Adds up what all workers have."""


class Muon(Optimizer):
    """Moves matrices by their orthogonal momentum, and all the rest by another optimiser.

    Each worker makes its share of the matrices orthogonal, and gets those of the others.
    """

    def __init__(
        self,
        matrices: Mapping[Tensor, int],
        rest: Optimizer,
        momentum: float = 0.95,
        share: slice = slice(None),
        summed: Summed = lambda values: values,
    ) -> None:
        """Take weights, each with the number of matrices that are stacked in it."""
        super().__init__([{"params": [*matrices]}], {"lr": 0.0})
        self._blocks = dict(matrices)
        self._momentum = momentum
        self._share = share
        self._summed = summed
        self._rest = rest
        # One state and one list of groups, whoever asks; `load_state_dict` would part them again.
        rest.state = self.state
        self.param_groups += rest.param_groups

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move everything by a step."""
        assert closure is None, "nothing is computed anew"
        rate = self.param_groups[0]["lr"]
        for shape, pairs in by_shape(self._directions()).items():
            size = RMS * max(shape) ** 0.5
            matrices, directions = zip(*pairs, strict=True)
            orthogonal_NRC = self._orthogonal(torch.stack([upright(d) for d in directions]))
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
            result_NRC[self._share] = orthogonal(mine_NRC)
        return self._summed(result_NRC)  # exact: all but one add a zero


def orthogonal(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors, whose singular values are near one."""
    a, b, c = QUINTIC
    norms_N11 = torch.linalg.matrix_norm(matrices_NRC, keepdim=True)
    x_NRC: Tensor = matrices_NRC / norms_N11.clamp_min(1e-12)  # no singular value is above one
    for _ in range(STEPS):
        gram_NRR = x_NRC @ x_NRC.mT
        factor_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=b, alpha=c)
        x_NRC = torch.baddbmm(x_NRC, factor_NRR, x_NRC, beta=a)
    return x_NRC


def matrices_of(model: nn.Module) -> dict[Tensor, int]:
    """Return the weights of the linear layers, each with the matrices that are stacked in it.

    Embeddings are matrices too, but a row of theirs is a word and has nothing to do with the next.
    """
    return {m.weight: m.blocks for m in model.modules() if isinstance(m, Linear)}


def by_shape(pairs: Iterable[tuple[Tensor, Tensor]]) -> dict[tuple[int, int], list[Any]]:
    """Return pairs of matrices by their shape, upright or not: one product can do all of a kind."""
    groups: dict[tuple[int, int], list[Any]] = defaultdict(list)
    for matrix, direction in pairs:
        groups[min(matrix.shape), max(matrix.shape)].append((matrix, direction))
    return groups


def is_tall(matrix: Tensor) -> bool:
    """Whether it has more rows than columns."""
    return matrix.size(0) > matrix.size(1)


def upright(matrix: Tensor) -> Tensor:
    """Return it with no more rows than columns, which makes its products smaller."""
    return matrix.T if is_tall(matrix) else matrix
