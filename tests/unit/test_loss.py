"""Compare the chunked losses with the reference, and the reference with other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.nn import functional as F

from seq2see.errors import ConfigError
from seq2see.loss import (
    ChunkGradientAccumulator,
    LogitsGradientParts,
    LossConfig,
    LossSum,
    OutputWeights,
    TeacherStates,
    clamp_log_probs,
    compute_loss_from_states,
    default_chunk_size,
    smoothed_cross_entropy,
)

FEATURES, VOCABULARY = 5, 7


class LossInputs(NamedTuple):
    """All inputs of a loss."""

    states: Tensor
    weight: Tensor
    bias: Tensor
    labels: Tensor
    teacher: TeacherStates

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.states, self.weight, self.bias


def kl_divergence(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Return the sum of KL(p ‖ q) = Σ p · (log p − log q) of distributions, given as logits."""
    log_p_NV, log_q_NV = p_NV.log_softmax(dim=-1), q_NV.log_softmax(dim=-1)
    return (log_p_NV.exp() * (clamp_log_probs(log_p_NV) - log_q_NV)).sum()


def symmetric_kl(p_NV: Tensor, q_NV: Tensor) -> Tensor:
    """Return the sum of ½ · (KL(p ‖ q) + KL(q ‖ p)) of distributions, given as logits."""
    return (kl_divergence(p_NV, q_NV) + kl_divergence(q_NV, p_NV)) / 2


def make_inputs(
    tokens: int = 8, dtype: torch.dtype = torch.float64, scale: float = 1.0
) -> LossInputs:
    """Return random inputs. The second half of the labels repeats the first, as for R-Drop."""
    shapes = (tokens, FEATURES), (VOCABULARY, FEATURES), (VOCABULARY,)
    tensors = ((torch.randn(shape) * scale).to(dtype).requires_grad_() for shape in shapes)
    labels = torch.randint(VOCABULARY, ((tokens + 1) // 2,)).repeat(2)[:tokens]
    teacher = TeacherStates(
        torch.randn(tokens, 3).to(dtype),
        OutputWeights(torch.randn(VOCABULARY, 3).to(dtype) * scale),
    )
    return LossInputs(*tensors, labels, teacher)


Chunked = Callable[[LossInputs, int | None], LossSum]
Reference = Callable[[LossInputs], Tensor]


def compute_chunked_cross_entropy(
    states: Tensor,
    weights: OutputWeights,
    labels: Tensor,
    smoothing: float = 0.0,
    chunk_size: int | None = None,
) -> LossSum:
    config = LossConfig(label_smoothing=smoothing)
    return compute_loss_from_states(config, states, weights, labels, chunk_size=chunk_size)


def logits(c: LossInputs) -> Tensor:
    """Return the logits in float32 or higher precision, as the loss does."""
    return F.linear(*c.inputs).to(torch.promote_types(c.states.dtype, torch.float32))


def chunked_distillation(c: LossInputs, chunk: int | None) -> LossSum:
    weights = OutputWeights(c.weight, c.bias)
    config = LossConfig(distillation_weight=0.3)
    return compute_loss_from_states(config, c.states, weights, c.labels, c.teacher, chunk)


def reference_distillation(c: LossInputs) -> Tensor:
    own_loss = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    teacher = c.teacher.output_weights(c.teacher.states_NM).to(own_loss.dtype)
    return 0.7 * own_loss + 0.3 * kl_divergence(teacher, logits(c))


def reference_r_drop(c: LossInputs) -> Tensor:
    own_loss = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    return own_loss + 2 * symmetric_kl(*logits(c).chunk(2))


LOSSES: dict[str, tuple[Chunked, Reference]] = {
    "cross-entropy": (
        lambda c, chunk: compute_chunked_cross_entropy(
            c.states, OutputWeights(c.weight, c.bias), c.labels, chunk_size=chunk
        ),
        lambda c: F.cross_entropy(logits(c), c.labels, reduction="sum"),
    ),
    "smoothed": (
        lambda c, chunk: compute_chunked_cross_entropy(
            c.states, OutputWeights(c.weight, c.bias), c.labels, 0.1, chunk
        ),
        lambda c: smoothed_cross_entropy(logits(c), c.labels, 0.1),
    ),
    "distillation": (chunked_distillation, reference_distillation),
    "R-Drop": (
        lambda c, chunk: compute_loss_from_states(
            LossConfig(r_drop_weight=2.0),
            c.states,
            OutputWeights(c.weight, c.bias),
            c.labels,
            chunk_size=chunk,
        ),
        reference_r_drop,
    ),
}
losses = pytest.mark.parametrize("name", LOSSES)


def gradients(total: Tensor, c: LossInputs) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, c.inputs)


def nll(c: LossInputs) -> Tensor:
    return F.cross_entropy(logits(c), c.labels, reduction="sum")


# The reference implementations.


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_reference_cross_entropy_equals_torch(smoothing: float) -> None:
    logits, labels = torch.randn(9, VOCABULARY), torch.randint(VOCABULARY, (9,))
    theirs = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, smoothing), theirs)


def test_label_smoothing_of_fairseq_is_a_larger_epsilon() -> None:
    logits, labels = torch.randn(9, VOCABULARY), torch.randint(VOCABULARY, (9,))
    target = torch.full_like(logits, 0.1 / (VOCABULARY - 1)).scatter(1, labels[:, None], 0.9)
    theirs = -(target * logits.log_softmax(dim=-1)).sum()
    ours = smoothed_cross_entropy(logits, labels, 0.1 * VOCABULARY / (VOCABULARY - 1))
    torch.testing.assert_close(ours, theirs)


def test_reference_kl_divergence_equals_torch() -> None:
    p, q = torch.randn(2, 9, VOCABULARY)
    distribution, log_q = torch.distributions.Categorical, q.log_softmax(dim=-1)
    theirs = torch.distributions.kl_divergence(distribution(logits=p), distribution(logits=q))
    torch.testing.assert_close(kl_divergence(p, q), theirs.sum())
    other = F.kl_div(p.log_softmax(dim=-1), log_q, log_target=True, reduction="sum")
    torch.testing.assert_close(symmetric_kl(p, q), (theirs.sum() + other) / 2)


def test_kl_divergence_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert kl_divergence(p, q).item() == pytest.approx(0.143841)  # ½ ln 2 + ½ ln ⅔
    assert kl_divergence(p, p).item() == 0


# The chunked implementations.


@losses
@pytest.mark.parametrize("chunk", [1, 3, 8, None])
def test_chunked_loss_equals_reference(name: str, chunk: int | None) -> None:
    """Chunk size 3 gives a shorter last chunk; 1 is less than the two passes of R-Drop."""
    chunked, reference = LOSSES[name]
    c = make_inputs()
    ours, theirs = chunked(c, chunk), reference(c)
    torch.testing.assert_close(ours.total, theirs)
    torch.testing.assert_close(ours.nll, nll(c))
    assert ours.num_tokens == 8
    assert not ours.nll.requires_grad
    for a, b in zip(gradients(ours.total * 3, c), gradients(theirs * 3, c), strict=True):
        torch.testing.assert_close(a, b)


@given(
    tokens=st.integers(1, 40),
    chunk=st.integers(1, 50),
    smoothing=st.floats(0, 0.99),
    seed=st.integers(0, 2**31),
)
def test_loss_is_independent_of_chunk_size(
    tokens: int, chunk: int, smoothing: float, seed: int
) -> None:
    torch.manual_seed(seed)
    c = make_inputs(tokens)
    ours = compute_chunked_cross_entropy(
        c.states, OutputWeights(c.weight, c.bias), c.labels, smoothing, chunk
    )
    theirs = smoothed_cross_entropy(F.linear(*c.inputs), c.labels, smoothing)
    torch.testing.assert_close(ours.total, theirs)
    for a, b in zip(gradients(ours.total, c), gradients(theirs, c), strict=True):
        torch.testing.assert_close(a, b)


@losses
def test_gradients_equal_finite_differences(name: str) -> None:
    chunked, _ = LOSSES[name]
    c = make_inputs(tokens=6)

    def total(*inputs: Tensor) -> Tensor:
        return chunked(LossInputs(*inputs, c.labels, c.teacher), 4).total

    assert torch.autograd.gradcheck(total, c.inputs)


@losses
@pytest.mark.parametrize("scale", [0.0, 1e-4, 60.0])
def test_loss_is_finite_at_any_magnitude_in_float32(name: str, scale: float) -> None:
    """States and weights of scale 60 give logits beyond 10,000."""
    chunked, reference = LOSSES[name]
    c = make_inputs(40, torch.float32, scale)
    if scale > 1:
        assert logits(c).abs().max() > 10_000
    ours, theirs = chunked(c, 7), reference(c)
    torch.testing.assert_close(ours.total, theirs)
    for a, b in zip(gradients(ours.total, c), gradients(theirs, c), strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * max(1, scale))


@losses
def test_no_tokens_give_zero_loss(name: str) -> None:
    c = make_inputs(tokens=0)
    ours = LOSSES[name][0](c, None)
    assert (ours.total.item(), ours.nll.item(), ours.num_tokens) == (0, 0, 0)
    for gradient, x in zip(gradients(ours.total, c), c.inputs, strict=True):
        assert gradient.shape == x.shape
        assert not gradient.any()


@losses
def test_loss_is_deterministic(name: str) -> None:
    c = make_inputs(200, torch.float32)
    first, second = (LOSSES[name][0](c, 64) for _ in range(2))
    assert torch.equal(first.total, second.total)
    for a, b in zip(gradients(first.total, c), gradients(second.total, c), strict=True):
        assert torch.equal(a, b)


@losses
def test_only_tensors_that_require_grad_get_gradients(name: str) -> None:
    c = make_inputs()
    expected = gradients(LOSSES[name][0](c, 3).total, c)
    for i in range(3):
        inputs = [x.detach().requires_grad_(i == j) for j, x in enumerate(c.inputs)]
        LOSSES[name][0](LossInputs(*inputs, c.labels, c.teacher), 3).total.backward()
        assert [x.grad is not None for x in inputs] == [i == j for j in range(3)]
        torch.testing.assert_close(inputs[i].grad, expected[i])


@losses
def test_evaluation_computes_no_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c = make_inputs()
    trained = LOSSES[name][0](c, 3)
    monkeypatch.setattr(
        ChunkGradientAccumulator, "add", None
    )  # called for the gradients of the weights
    monkeypatch.setattr(Tensor, "scatter_add_", None)  # called for those of the logits
    monkeypatch.setattr(LogitsGradientParts, "materialize_", None)
    with torch.no_grad():
        evaluated = LOSSES[name][0](c, 3)
    frozen = LOSSES[name][0](LossInputs(*(x.detach() for x in c.inputs), *c[3:]), 3)
    for ours in (evaluated, frozen):
        assert not ours.total.requires_grad
        assert (ours.total, ours.nll) == (trained.total, trained.nll)


@pytest.mark.parametrize("chunk", [3, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_output_weights_without_bias(smoothing: float, chunk: int | None, scale: float) -> None:
    c = make_inputs(scale=scale)
    ours = compute_chunked_cross_entropy(
        c.states, OutputWeights(c.weight), c.labels, smoothing, chunk
    ).total
    theirs = smoothed_cross_entropy(F.linear(c.states, c.weight), c.labels, smoothing)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(x, c.inputs[:2]) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_tied_weights_accumulate_both_gradients() -> None:
    c, ids = make_inputs(), torch.randint(VOCABULARY, (8,))
    states = F.embedding(ids, c.weight)
    ours = compute_chunked_cross_entropy(states, OutputWeights(c.weight), c.labels, 0.1, 3).total
    theirs = smoothed_cross_entropy(F.linear(states, c.weight), c.labels, 0.1)
    a, b = (torch.autograd.grad(x, c.weight, retain_graph=True)[0] for x in (ours, theirs))
    torch.testing.assert_close(a, b)


def test_repeated_backward_gives_equal_gradients() -> None:
    """The graph retains the gradients, so they must not be changed in place."""
    c = make_inputs()
    total = compute_chunked_cross_entropy(
        c.states, OutputWeights(c.weight, c.bias), c.labels, 0.1, 3
    ).total
    expected = torch.autograd.grad(total, c.inputs, retain_graph=True)
    for factor in (1.0, 3.0, 1.0):
        (total * factor).backward(retain_graph=True)
    for x, gradient in zip(c.inputs, expected, strict=True):
        torch.testing.assert_close(x.grad, 5 * gradient)


def test_second_derivative_raises_not_implemented_error() -> None:
    c = make_inputs()
    total = compute_chunked_cross_entropy(c.states, OutputWeights(c.weight, c.bias), c.labels).total
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(total, c.states, create_graph=True)


def test_loss_of_batch_equals_sum_over_its_parts() -> None:
    """The sums and gradients of two batches add up to those of one batch of both."""
    c = make_inputs(9)
    weights = OutputWeights(c.weight, c.bias)
    batch = compute_chunked_cross_entropy(c.states, weights, c.labels, 0.1)
    parts = [
        compute_chunked_cross_entropy(c.states[rows], weights, c.labels[rows], 0.1)
        for rows in (slice(0, 2), slice(2, 9))
    ]
    torch.testing.assert_close(batch.total, parts[0].total + parts[1].total)
    torch.testing.assert_close(batch.nll, parts[0].nll + parts[1].nll)
    assert batch.num_tokens == parts[0].num_tokens + parts[1].num_tokens
    both = gradients(parts[0].total + parts[1].total, c)
    for a, b in zip(gradients(batch.total, c), both, strict=True):
        torch.testing.assert_close(a, b)


# Precision.


@losses
def test_bfloat16_loss_is_summed_in_float32(name: str) -> None:
    """Only the matrix products are rounded: once for the logits, once for the gradients."""
    c = make_inputs(600, torch.bfloat16)
    exact = LossInputs(*(x.detach().double().requires_grad_() for x in c.inputs), *c[3:])
    exact = exact._replace(
        teacher=TeacherStates(
            c.teacher.states_NM.double(), OutputWeights(c.teacher.output_weights.weight_VM.double())
        )
    )
    ours, theirs = LOSSES[name][0](c, 8), LOSSES[name][1](c)
    torch.testing.assert_close(ours.total, theirs, rtol=1e-5, atol=0)
    torch.testing.assert_close(ours.nll, nll(c), rtol=1e-5, atol=0)
    assert ours.total.dtype == torch.float32
    in_float64 = gradients(LOSSES[name][1](exact), exact)
    for a, b in zip(gradients(ours.total, c), in_float64, strict=True):
        assert a.dtype == torch.bfloat16
        assert (a - b).norm() / b.norm() < 0.01


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_nll_of_confident_predictions_is_exact(size: float) -> None:
    torch.manual_seed(1)
    logits_NV = size * torch.randn(200, 500).clamp(-1, 1)
    labels_N = logits_NV.argmax(1)
    ours = [
        compute_chunked_cross_entropy(states_1V, OutputWeights(torch.eye(500)), label_1, 0.1)
        for states_1V, label_1 in zip(logits_NV[:, None], labels_N[:, None], strict=True)
    ]
    exact_NV = -logits_NV.double().log_softmax(1)
    nll_N = torch.stack([each.nll for each in ours])
    assert nll_N.min() >= -1e-6
    expected_N = exact_NV.gather(1, labels_N[:, None])[:, 0].float()
    torch.testing.assert_close(nll_N, expected_N, rtol=0, atol=1e-6)


def test_large_vocabulary_is_finite_in_float16() -> None:
    states = torch.zeros(2, 4, dtype=torch.float16).requires_grad_()
    weight = torch.ones(100_000, 4, dtype=torch.float16).requires_grad_()
    compute_chunked_cross_entropy(
        states, OutputWeights(weight), torch.tensor([3, 5]), 0.1
    ).total.backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_autocast_does_not_change_bfloat16_loss() -> None:
    c = make_inputs(dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        inside = LOSSES["smoothed"][0](c, 3)
    outside = LOSSES["smoothed"][0](c, 3)
    assert (inside.total, inside.nll) == (outside.total, outside.nll)


@pytest.mark.parametrize("states", [torch.float32, torch.bfloat16])
def test_autocast_uses_its_own_dtype(states: torch.dtype) -> None:
    c = make_inputs(dtype=torch.float32)
    teacher = TeacherStates(c.teacher.states_NM.to(states), c.teacher.output_weights)
    mixed = c._replace(states=c.states.detach().to(states).requires_grad_(), teacher=teacher)
    low = LossInputs(*(x.detach().bfloat16().requires_grad_() for x in c.inputs), *c[3:])
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = LOSSES["distillation"][0](mixed, 3), LOSSES["distillation"][0](low, 3)
    assert torch.equal(ours.total, theirs.total)
    pairs = zip(gradients(ours.total, mixed), gradients(theirs.total, low), strict=True)
    for x, (a, b) in zip(mixed.inputs, pairs, strict=True):
        assert a.dtype == x.dtype
        assert torch.equal(a.float(), b.float())


def test_mixed_dtypes_use_the_higher_precision() -> None:
    c = make_inputs(dtype=torch.bfloat16)
    high = LossInputs(*(x.detach().float().requires_grad_() for x in c.inputs), *c[3:])
    mixed = high._replace(states=c.states)
    ours, theirs = (LOSSES["smoothed"][0](x, None).total for x in (mixed, high))
    assert torch.equal(ours, theirs)


def test_teacher_may_have_zero_probabilities() -> None:
    c = make_inputs(dtype=torch.float32)
    bias = torch.zeros(VOCABULARY)
    bias[2] = -torch.inf
    ours = LOSSES["distillation"][0](
        c._replace(
            teacher=TeacherStates(
                c.teacher.states_NM, OutputWeights(c.teacher.output_weights.weight_VM, bias)
            )
        ),
        3,
    )
    teacher_logits = F.linear(c.teacher.states_NM, c.teacher.output_weights.weight_VM)
    teacher_logits[:, 2] = -1e4
    own_loss = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    divergence = kl_divergence(teacher_logits, logits(c))
    torch.testing.assert_close(ours.total, 0.7 * own_loss + 0.3 * divergence)
    assert all(g.isfinite().all() for g in gradients(ours.total, c))


def test_equal_passes_have_zero_r_drop_term() -> None:
    c = make_inputs()
    states = c.states[:4].repeat(2, 1)
    weights = OutputWeights(c.weight, c.bias)
    with_term = compute_loss_from_states(LossConfig(r_drop_weight=5.0), states, weights, c.labels)
    without = compute_chunked_cross_entropy(states, weights, c.labels, 0.1)
    torch.testing.assert_close(with_term.total, without.total)
    for a, b in zip(gradients(with_term.total, c), gradients(without.total, c), strict=True):
        torch.testing.assert_close(a, b)


# Memory.


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Stores the size of the largest tensor that is created in the block."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, Tensor):
                self.elements = max(self.elements, x.numel())
        return result


@losses
def test_full_logits_are_never_allocated(name: str) -> None:
    c = make_inputs(400)
    with LargestTensor() as largest:
        LOSSES[name][0](c, 10).total.backward()
    assert largest.elements == 400 * FEATURES  # the states; the logits would be 400 × VOCABULARY
    with LargestTensor() as largest:
        LOSSES[name][1](c).backward()
    assert largest.elements == 400 * VOCABULARY


@pytest.mark.parametrize(("vocabulary", "rows"), [(8_000, 640), (32_000, 524), (256_000, 128)])
def test_default_chunk_size(vocabulary: int, rows: int) -> None:
    assert default_chunk_size(vocabulary) == rows


# The config, and invalid inputs.


def test_config_selects_the_loss() -> None:
    c = make_inputs()
    weights = OutputWeights(c.weight, c.bias)

    def configured_loss(**settings: float) -> Tensor:
        teacher = c.teacher if "distillation_weight" in settings else None
        return compute_loss_from_states(
            LossConfig(**settings), c.states, weights, c.labels, teacher
        ).total

    assert torch.equal(configured_loss(), LOSSES["smoothed"][0](c, None).total)
    assert torch.equal(
        configured_loss(label_smoothing=0.0), LOSSES["cross-entropy"][0](c, None).total
    )
    assert torch.equal(configured_loss(r_drop_weight=2.0), LOSSES["R-Drop"][0](c, None).total)
    assert torch.equal(
        configured_loss(distillation_weight=0.3), LOSSES["distillation"][0](c, None).total
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_smoothing": 1.0}, "`label_smoothing` must be below 1"),
        ({"label_smoothing": -0.1}, "`label_smoothing` must be at least 0"),
        ({"r_drop_weight": -1.0}, "`r_drop_weight` must be at least 0"),
        ({"distillation_weight": 1.5}, "`distillation_weight` must be at most 1"),
        (
            {"r_drop_weight": 1.0, "distillation_weight": 0.5},
            "`r_drop_weight` must be 0 with `distillation_weight`",
        ),
    ],
)
def test_invalid_settings_raise_config_error(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LossConfig(**settings)


def test_int32_labels_equal_int64_labels() -> None:
    c = make_inputs()
    head = OutputWeights(c.weight)
    ours, theirs = (
        compute_chunked_cross_entropy(c.states, head, y).total for y in (c.labels.int(), c.labels)
    )
    assert torch.equal(ours, theirs)
