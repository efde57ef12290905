"""The loss of a chunk of rows, made where its logits are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

# N tokens in a row; C tokens of a chunk; V vocabulary

_BITS = math.log2(math.e)
"""Bits of a natural unit."""


class Rows(NamedTuple):
    """Tokens `start` to `stop` of each pass."""

    start: int
    stop: int
    passes: int

    @property
    def size(self) -> int:
        """The rows of all passes."""
        return self.passes * (self.stop - self.start)

    def of(self, x_N: Tensor) -> Tensor:
        """Take them: a view if there is one pass, else a copy, pass after pass."""
        return self._parts(x_N).flatten(0, 1)

    def put(self, x_N: Tensor, part_C: Tensor) -> None:
        """Put them to their places in `x_N`."""
        self._parts(x_N).copy_(part_C.view(self.passes, -1, *part_C.shape[1:]))

    def _parts(self, x_N: Tensor) -> Tensor:
        return x_N.view(self.passes, -1, *x_N.shape[1:])[:, self.start : self.stop]


class Term(Protocol):
    """A further term: from the logits of a chunk to its sum and its gradient of the logits."""

    def __call__(self, logits_CV: Tensor, rows: Rows, /) -> tuple[Tensor, Tensor]:
        """Return both; the logits must stay as they are."""
        ...


class Slope(NamedTuple):
    """The gradient of the logits of a chunk: scale · x − shift.

    It stays in parts, since what follows is linear. Behind a product with x, scale and shift cost
    little; in front of it, each is a pass over the largest tensor there is.
    """

    x_CV: Tensor
    scale_C1: Tensor
    shift: float

    def whole_(self) -> Slope:
        """Return the same with nothing to scale or shift, in the memory of x."""
        whole_CV = self.x_CV.mul_(self.scale_C1).sub_(self.shift)
        return Slope(whole_CV, torch.ones_like(self.scale_C1), 0.0)


class ChunkLoss(NamedTuple):
    """share · cross-entropy + term_share · term, over the rows of a chunk."""

    labels_N: Tensor
    smoothing: float
    share: float = 1.0
    term: Term | None = None
    term_share: float = 0.0
    passes: int = 1

    def chunks(self, size: int) -> Iterator[Rows]:
        """Cut the tokens into chunks of nearly the same length, none longer than `size`."""
        tokens, size = len(self.labels_N) // self.passes, max(1, size // self.passes)
        count = math.ceil(tokens / size)
        for i in range(count):
            yield Rows(tokens * i // count, tokens * (i + 1) // count, self.passes)

    def __call__(
        self, logits_CV: Tensor, mean_C1: Tensor, rows: Rows, gradient: bool
    ) -> tuple[Tensor, Tensor, Slope | None]:
        """Return loss, nll, and the gradient of the loss if it is wanted.

        The logits, whose mean is given too, make room for it.
        """
        # First, while the logits are still there.
        term = self.term(logits_CV, rows) if self.term else None
        labels_C1 = rows.of(self.labels_N)[:, None]
        loss, nll, slope = _cross_entropy_(logits_CV, mean_C1, labels_C1, self.smoothing, gradient)
        if term is None:
            return loss, nll, slope
        if slope is not None:
            slope = slope.whole_()
            slope.x_CV.mul_(self.share).add_(term[1], alpha=self.term_share)
        return self.share * loss + self.term_share * term[0], nll, slope


def _cross_entropy_(
    logits_CV: Tensor, mean_C1: Tensor, labels_C1: Tensor, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor, Slope | None]:
    """Return the sums of loss and nll, and the gradient of the loss.

    −log p = log Σ exp(x) − x, where x is how far a logit is below the highest; and the gradient is
    p − the target, which has ε/V everywhere and 1 − ε more at the label. All of it in bits, since
    on a CPU torch's exp2 takes half the time of its exp.
    """
    highest_C1 = -_BITS * logits_CV.amax(dim=1, keepdim=True)
    x_CV = torch.add(highest_C1, logits_CV, alpha=_BITS, out=logits_CV)
    # Rounded as the others are, so that no probability is above 1.
    label_C1 = x_CV.gather(1, labels_C1)
    mean_C1 = torch.add(highest_C1, mean_C1, alpha=_BITS)
    sum_C1 = x_CV.exp2_().sum(dim=1, keepdim=True)
    log_sum_C1 = sum_C1.log2()
    nll_C1 = (log_sum_C1 - label_C1) / _BITS
    loss_C1 = (1 - smoothing) * nll_C1 + smoothing * (log_sum_C1 - mean_C1) / _BITS
    if not gradient:
        return loss_C1.sum(), nll_C1.sum(), None
    x_CV.scatter_add_(1, labels_C1, (smoothing - 1) * sum_C1)
    slope = Slope(x_CV, sum_C1.reciprocal(), smoothing / x_CV.size(1))
    return loss_C1.sum(), nll_C1.sum(), slope
