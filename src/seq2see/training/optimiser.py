"""The optimiser: Adam as in the paper, AdamW or Muon, with clipping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from seq2see.config import Config
from seq2see.training.muon import Muon, matrices_of
from seq2see.training.sharding import whole
from seq2see.training.workers import Workers


class OptimiserConfig(Config):
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
    clip: float = Field(default=0.0, ge=0)
    """The longest gradient, all weights together; a longer one is shortened. 0: as it comes."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a decay that nobody would see."""
        if self.kind != "adamw" and self.weight_decay:
            yield f"`weight_decay` must be 0 with {self.kind}: only adamw has it"


def build_optimiser(
    config: OptimiserConfig, model: nn.Module, workers: Workers | None = None
) -> Optimizer:
    """Make the optimiser; the rate comes with each update."""
    if config.kind != "muon":
        return _adam(config, [*model.named_parameters()])
    matrices = matrices_of(model)
    rest = [(name, p) for name, p in model.named_parameters() if p not in matrices]
    workers = workers or Workers()
    share = slice(workers.rank, None, workers.count)
    return Muon(matrices, _adam(config, rest), share=share, summed=workers.summed)


def _adam(config: OptimiserConfig, named: Sequence[tuple[str, nn.Parameter]]) -> Optimizer:
    kind = AdamW if config.kind == "adamw" else Adam
    groups = [
        {"params": [p for n, p in named if _decays(n, p)], "weight_decay": config.weight_decay},
        {"params": [p for n, p in named if not _decays(n, p)], "weight_decay": 0.0},
    ]
    return kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.eps, fused=True)


def _decays(name: str, parameter: nn.Parameter) -> bool:
    """Whether it is a weight. A norm has one axis; a bias may have two, where heads have theirs."""
    return parameter.dim() > 1 and not name.rpartition(".")[2].startswith("bias")


def scale_gradients(parameters: Iterable[nn.Parameter], factor: float, longest: float) -> float:
    """Multiply all gradients, and shorten them if they are longer then than this, all together
    (0: never). Return how long they were.

    Both in one pass, since at each update the gradients come from far.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    length = factor * float(whole(nn.utils.get_total_norm(gradients)))
    if longest and length > longest:
        factor *= longest / length
    torch._foreach_mul_(gradients, factor)
    return length
