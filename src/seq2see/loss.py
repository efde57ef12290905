"""How far the model is from its targets: cross-entropy, distillation, R-Drop.

A loss is a sum and a count of tokens. Who takes the step divides, last of all: then the mean is
right over several batches and several workers too.

The output layer belongs to the loss. Its logits are the largest tensor of a training step, and the
fused forms never hold more than a chunk of their rows: logits, loss and the gradient of the logits
take turns in the same memory, and what is left of a chunk is its part of the gradients of states
and weights. These are made on the way forward; on the way back they are only scaled. The plain
forms above them are the formulas, and what the fused ones are tested against.

Sums and softmax are in float32 at least, whatever the states are in; a float32 sum over a batch is
good to about six digits. Matrix products are in the type of states and weights, or of autocast.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from seq2see.config import Config
from seq2see.errors import InputError

# N tokens in a row, without padding; C tokens of a chunk; M features; V vocabulary

_LOG2_E = math.log2(math.e)


class LossConfig(Config):
    """What training makes small."""

    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """The share of each target that is spread evenly over the vocabulary; 0: plain
    cross-entropy."""
    r_drop: float = Field(default=0.0, ge=0)
    """The weight of the symmetric KL divergence between two passes with different dropout (R-Drop;
    5 in its paper). A step takes twice as long. 0: one pass."""
    distillation: float = Field(default=0.0, ge=0, le=1)
    """The share of the KL divergence to a teacher; cross-entropy keeps the rest. 0: no teacher."""

    def conflicts(self) -> Iterator[str]:
        """Refuse two extra terms at once."""
        if self.r_drop and self.distillation:
            yield "`r_drop` must be 0 with `distillation`: each wants to be the only extra term"


class LossSum(NamedTuple):
    """A loss over some tokens; divide by the tokens of the whole step."""

    total: Tensor
    """The sum of what training makes small. It alone has a gradient."""
    nll: Tensor
    """The sum of −log p(label), without smoothing or extra terms: exp(nll / tokens) is the
    perplexity."""
    tokens: int
    """How many labels it is over; R-Drop counts both passes."""


class Head(NamedTuple):
    """The output layer: logits = states · weightᵀ + bias."""

    weight_VM: Tensor
    bias_V: Tensor | None = None

    def __call__(self, states_NM: Tensor) -> Tensor:
        """Return the logits, [N, V]."""
        return F.linear(states_NM, self.weight_VM, self.bias_V)


class Teacher(NamedTuple):
    """What another model makes of the same tokens. Its logits too come only in chunks."""

    states_NM: Tensor
    head: Head


# The plain forms: each is its formula, over logits.


def smoothed_cross_entropy(logits_NV: Tensor, labels_N: Tensor, smoothing: float = 0.0) -> Tensor:
    """Sum (1 − ε) · −log p(label) + ε · the mean of −log p over the vocabulary, as torch does.

    So the label itself gets 1 − ε + ε/V, every other piece ε/V. fairseq spreads ε over the other
    pieces alone: its ε is our ε · V / (V − 1).
    """
    surprise_NV = -logits_NV.log_softmax(dim=-1)
    nll_N = surprise_NV.gather(1, labels_N[:, None]).squeeze(1)
    return ((1 - smoothing) * nll_N + smoothing * surprise_NV.mean(dim=-1)).sum()


def kl_divergence(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Sum KL(p ‖ q) = Σ p · (log p − log q) of two distributions, given as logits."""
    log_p_NV, log_q_NV = p_NV.log_softmax(dim=-1), q_NV.log_softmax(dim=-1)
    return (log_p_NV.exp() * (_finite(log_p_NV) - log_q_NV)).sum()


def symmetric_kl(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Sum ½ · (KL(p ‖ q) + KL(q ‖ p)) of two distributions, given as logits."""
    return (kl_divergence(p_NV, q_NV) + kl_divergence(q_NV, p_NV)) / 2


def _finite(log_p: Tensor) -> Tensor:
    """Raise −∞, where p is 0, to the least number: 0 · −∞ would not be 0."""
    return log_p.clamp(min=torch.finfo(log_p.dtype).min)


# The fused forms.


def training_loss(
    config: LossConfig,
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    teacher: Teacher | None = None,
) -> LossSum:
    """Return the loss that the config asks for, in the fused form."""
    if (teacher is None) == (config.distillation > 0):
        raise InputError("a teacher must be given with `distillation` above 0, and only then")
    if teacher is not None:
        share = config.distillation
        return distillation(states_NM, head, labels_N, teacher, share, config.label_smoothing)
    if config.r_drop:
        return r_drop(states_NM, head, labels_N, config.r_drop, config.label_smoothing)
    return cross_entropy(states_NM, head, labels_N, config.label_smoothing)


def cross_entropy(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return `smoothed_cross_entropy` of the head's logits. Leave padding out before.

    `chunk` is the number of rows whose logits are held at a time.
    """
    return _fused(states_NM, head, _Objective(labels_N, smoothing), chunk)


def distillation(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    teacher: Teacher,
    share: float,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return (1 − share) · cross-entropy + share · KL(teacher ‖ student)."""
    _check_teacher(teacher, states_NM, head)
    objective = _Objective(labels_N, smoothing, 1 - share, _ToTeacher(teacher), share)
    return _fused(states_NM, head, objective, chunk)


def r_drop(
    states_NM: Tensor,
    head: Head,
    labels_N: Tensor,
    weight: float,
    smoothing: float = 0.0,
    chunk: int | None = None,
) -> LossSum:
    """Return cross-entropy + weight · the symmetric KL between two passes over the same tokens.

    The second half of the rows is the second pass, as it comes from a batch put behind itself. Each
    pass counts its tokens, so that the mean is half of R-Drop's own formula.
    """
    _check_passes(labels_N)
    objective = _Objective(labels_N, smoothing, 1.0, _between_passes, weight, passes=2)
    return _fused(states_NM, head, objective, chunk)


class _Rows(NamedTuple):
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


class _Term(Protocol):
    """A further term: from the logits of a chunk to its sum and its gradient of the logits."""

    def __call__(self, logits_CV: Tensor, rows: _Rows, /) -> tuple[Tensor, Tensor]: ...


class _Objective(NamedTuple):
    """share · cross-entropy + term_share · term, over the rows of a chunk."""

    labels_N: Tensor
    smoothing: float
    share: float = 1.0
    term: _Term | None = None
    term_share: float = 0.0
    passes: int = 1

    def chunks(self, size: int) -> Iterator[_Rows]:
        """Cut the tokens into chunks of nearly the same length, none longer than `size`."""
        tokens, size = len(self.labels_N) // self.passes, max(1, size // self.passes)
        count = math.ceil(tokens / size)
        for i in range(count):
            yield _Rows(tokens * i // count, tokens * (i + 1) // count, self.passes)

    def __call__(self, logits_CV: Tensor, rows: _Rows, gradient: bool) -> tuple[Tensor, Tensor]:
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


class _ToTeacher:
    """KL(teacher ‖ student), the teacher's logits made chunk by chunk."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher = teacher

    def __call__(self, logits_CV: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
        teacher_CV = self.teacher.head(rows.of(self.teacher.states_NM))
        log_p_CV = teacher_CV.log_softmax(dim=1, dtype=logits_CV.dtype)
        log_q_CV = logits_CV.log_softmax(dim=1)
        p_CV = log_p_CV.exp()
        loss = (p_CV * (_finite(log_p_CV) - log_q_CV)).sum()
        return loss, log_q_CV.exp_().sub_(p_CV)


def _between_passes(logits_CV: Tensor, rows: _Rows) -> tuple[Tensor, Tensor]:
    """Return the symmetric KL of the two passes.

    The gradients of KL(p ‖ q) are p · (log p − log q − KL) for the logits of p, q − p for q's.
    """
    log_p, log_q = logits_CV.unflatten(0, (rows.passes, -1)).log_softmax(dim=-1)
    difference = _finite(log_p) - _finite(log_q)
    p, q = log_p.exp(), log_q.exp()
    p_to_q = (p * difference).sum(dim=-1, keepdim=True)
    q_to_p = -(q * difference).sum(dim=-1, keepdim=True)
    gradient_p = p * (difference - p_to_q) + p - q
    gradient_q = q * (-difference - q_to_p) + q - p
    return (p_to_q + q_to_p).sum() / 2, torch.cat((gradient_p, gradient_q)) / 2


def rows_of_a_chunk(vocab_size: int) -> int:
    """Return how many rows to take at a time: 512, fewer where that is above 64 MB of float32.

    With fewer, each matrix product reads all the weights for too little work: 128 rows took 1.2 to
    1.3 times as long. With twice as many, the gain was about 5 %.
    """
    return max(128, min(512, 2**24 // vocab_size))


def _fused(states_NM: Tensor, head: Head, objective: _Objective, chunk: int | None) -> LossSum:
    _check(states_NM, head, objective.labels_N)
    objective = objective._replace(labels_N=objective.labels_N.long())  # gather takes no other
    device = states_NM.device.type
    dtype = torch.promote_types(states_NM.dtype, head.weight_VM.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    bias_V = None if head.bias_V is None else head.bias_V.to(dtype)
    size = chunk or rows_of_a_chunk(len(head.weight_VM))
    # Inside the function grad mode is always off, and `needs_input_grad` knows nothing of no_grad.
    gradient = torch.is_grad_enabled()
    total, nll = _Fused.apply(
        states_NM.to(dtype), head.weight_VM.to(dtype), bias_V, objective, size, gradient
    )
    return LossSum(total, nll, len(states_NM))


class _Fused(torch.autograd.Function):
    """Walks over the chunks, and makes the gradients on its way if anyone will want them."""

    @staticmethod
    def forward(
        ctx: Any,
        states_NM: Tensor,
        weight_VM: Tensor,
        bias_V: Tensor | None,
        objective: _Objective,
        size: int,
        gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        head = Head(weight_VM, bias_V)
        needed = [gradient and needs for needs in ctx.needs_input_grad[:3]]
        gradients = _Gradients(states_NM, head, needed)
        chunks = list(objective.chunks(size))
        logits = _Logits(head, max((rows.size for rows in chunks), default=0))
        total, nll = gradients.zeros(), gradients.zeros()
        for rows in chunks:
            states_CM = rows.of(states_NM)
            logits_CV = logits(states_CM)
            loss, surprise = objective(logits_CV, rows, any(needed))
            total += loss
            nll += surprise
            gradients.add(rows, states_CM, logits_CV)
        ctx.save_for_backward(*gradients.result())
        ctx.mark_non_differentiable(nll)
        return total, nll

    @staticmethod
    def backward(ctx: Any, *factors: Any) -> Any:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the fused loss has no second derivative: leave `create_graph` out, or take "
                "the plain form"
            )
        factor = factors[0]
        # Not in place, as the graph may be kept. Elsewhere than on a CPU to look would be to wait.
        same = factor.device.type == "cpu" and factor.item() == 1
        saved = [g if g is None or same else g * factor.to(g.dtype) for g in ctx.saved_tensors]
        return *saved, None, None, None


class _Logits:
    """The logits of one chunk after the other, in the same memory."""

    def __init__(self, head: Head, size: int) -> None:
        self.head = head
        weight_VM = head.weight_VM
        self.memory_CV = weight_VM.new_empty(size, len(weight_VM), dtype=_precise(weight_VM))

    def __call__(self, states_CM: Tensor) -> Tensor:
        weight_VM, bias_V = self.head
        out_CV = self.memory_CV[: len(states_CM)]
        if out_CV.dtype != weight_VM.dtype:
            return out_CV.copy_(self.head(states_CM))
        if bias_V is None:
            return torch.mm(states_CM, weight_VM.t(), out=out_CV)
        return torch.addmm(bias_V, states_CM, weight_VM.t(), out=out_CV)


class _Gradients:
    """The gradients of states, weight and bias as they grow, in float32 at least."""

    def __init__(self, states_NM: Tensor, head: Head, needed: list[bool]) -> None:
        self.head = head
        self.precision = _precise(head.weight_VM)
        states, weight, bias = needed
        self.states_NM = torch.empty_like(states_NM) if states else None
        self.weight_VM = self.zeros(*head.weight_VM.shape) if weight else None
        self.bias_V = self.zeros(len(head.weight_VM)) if bias else None

    def zeros(self, *shape: int) -> Tensor:
        """Return zeros that sums can grow in."""
        return self.head.weight_VM.new_zeros(shape, dtype=self.precision)

    def add(self, rows: _Rows, states_CM: Tensor, gradient_CV: Tensor) -> None:
        """Pass the gradient of a chunk's logits on."""
        if self.bias_V is not None:
            self.bias_V += gradient_CV.sum(dim=0)
        gradient_CV = gradient_CV.to(states_CM.dtype)
        if self.states_NM is not None:
            rows.put(self.states_NM, gradient_CV @ self.head.weight_VM)
        if self.weight_VM is not None:
            _add_product_(self.weight_VM, gradient_CV.t(), states_CM)

    def result(self) -> Iterator[Tensor | None]:
        """Yield each in the type of what it is the gradient of."""
        for gradient in (self.states_NM, self.weight_VM, self.bias_V):
            yield None if gradient is None else gradient.to(self.head.weight_VM.dtype)


def _add_product_(sum_VM: Tensor, a_VC: Tensor, b_CM: Tensor) -> None:
    if sum_VM.dtype == a_VC.dtype:
        sum_VM.addmm_(a_VC, b_CM)
    else:
        sum_VM += a_VC @ b_CM


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _check(states_NM: Tensor, head: Head, labels_N: Tensor) -> None:
    """Refuse what does not fit together."""
    weight_VM = head.weight_VM
    if states_NM.dim() != 2 or states_NM.size(1) != weight_VM.size(1):
        raise InputError(
            f"states must be [tokens, {weight_VM.size(1)}], as the output layer takes them, "
            f"but are {list(states_NM.shape)} instead"
        )
    if labels_N.shape != states_NM.shape[:1]:
        raise InputError(
            f"labels must be as many as the states, {len(states_NM)}, "
            f"but are {list(labels_N.shape)} instead"
        )
    if labels_N.dtype not in {torch.int64, torch.int32}:
        raise InputError(f"labels must be int64 or int32, but are {labels_N.dtype} instead")
    if labels_N.device.type == "cpu":  # elsewhere to look would be to wait
        _check_range(labels_N, len(weight_VM) - 1)


def _check_range(labels_N: Tensor, last: int) -> None:
    wrong = labels_N[(labels_N < 0) | (labels_N > last)]
    if len(wrong):
        raise InputError(
            f"a label must be from 0 to {last}, the vocabulary's last, but is {wrong[0].item()} "
            f"instead; leave padding out"
        )


def _check_passes(labels_N: Tensor) -> None:
    """Refuse two passes over different tokens."""
    if len(labels_N) % 2 or (
        labels_N.device.type == "cpu" and not torch.equal(*labels_N.tensor_split(2))
    ):
        raise InputError("the second half of the labels must repeat the first for R-Drop")


def _check_teacher(teacher: Teacher, states_NM: Tensor, head: Head) -> None:
    ours = len(states_NM), len(head.weight_VM)
    theirs = len(teacher.states_NM), len(teacher.head.weight_VM)
    if ours != theirs:
        raise InputError(
            f"the teacher must have as many tokens and pieces as the student, {list(ours)}, "
            f"but has {list(theirs)} instead"
        )
