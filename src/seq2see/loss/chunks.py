"""The loss of a chunk of rows, made where its logits are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from torch import Tensor

# N tokens in a row; C tokens of a chunk; V vocabulary

_LOG2_E = math.log2(math.e)


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

    def __call__(self, logits_CV: Tensor, rows: Rows, gradient: bool) -> tuple[Tensor, Tensor]:
        """Return loss and nll; what becomes of the logits is their gradient, or else of no use."""
        # First, while the logits are still there.
        term = self.term(logits_CV, rows) if self.term else None
        labels_C = rows.of(self.labels_N)
        loss, nll = _cross_entropy_(logits_CV, labels_C, self.smoothing, gradient)
        if term is None:
            return loss, nll
        if gradient:
            logits_CV.mul_(self.share).add_(term[1], alpha=self.term_share)
        return self.share * loss + self.term_share * term[0], nll


def _cross_entropy_(
    logits_CV: Tensor, labels_C: Tensor, smoothing: float, gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return the sums of loss and nll, and turn the logits into the gradient of the loss.

    log p = x − log Σ exp x, where x = logits − their maximum. The gradient is p − the target.
    """
    labels_C1 = labels_C[:, None]
    x_CV = logits_CV.sub_(logits_CV.amax(dim=1, keepdim=True))
    label_C1, mean_C1 = x_CV.gather(1, labels_C1), x_CV.mean(dim=1, keepdim=True)
    sum_C1 = _exp_(x_CV).sum(dim=1, keepdim=True)
    log_sum_C1 = sum_C1.log()
    nll_C1 = log_sum_C1 - label_C1
    loss_C1 = (1 - smoothing) * nll_C1 + smoothing * (log_sum_C1 - mean_C1)
    if gradient:
        p_CV = x_CV.mul_(sum_C1.reciprocal())
        p_CV.sub_(smoothing / p_CV.size(1))
        p_CV.scatter_(1, labels_C1, p_CV.gather(1, labels_C1) - (1 - smoothing))
    return loss_C1.sum(), nll_C1.sum()


def _exp_(x: Tensor) -> Tensor:
    """Take exp in place. On a CPU, torch's exp2 and one pass more take two thirds of its exp."""
    return x.mul_(_LOG2_E).exp2_() if x.device.type == "cpu" else x.exp_()
