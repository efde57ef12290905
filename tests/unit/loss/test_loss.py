"""The loss: each fused form against its plain one, and the plain ones against others."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor
from torch.nn import functional as F

from seq2see.errors import ConfigError, InputError
from seq2see.loss import (
    LossConfig,
    LossSum,
    OutputWeights,
    TeacherStates,
    compute_training_loss,
    cross_entropy,
    default_chunk_size,
    distillation_loss,
    kl_divergence,
    r_drop_loss,
    smoothed_cross_entropy,
    symmetric_kl,
)
from seq2see.loss.chunked import GradientAccumulator, LogitsGradient

FEATURES, VOCABULARY = 5, 7


class Case(NamedTuple):
    """Everything that a loss may need."""

    states: Tensor
    weight: Tensor
    bias: Tensor
    labels: Tensor
    teacher: TeacherStates

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.states, self.weight, self.bias


def case(tokens: int = 8, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Case:
    """Draw one whose labels repeat after half of the tokens, as R-Drop wants them."""
    shapes = (tokens, FEATURES), (VOCABULARY, FEATURES), (VOCABULARY,)
    drawn = ((torch.randn(shape) * scale).to(dtype).requires_grad_() for shape in shapes)
    labels = torch.randint(VOCABULARY, ((tokens + 1) // 2,)).repeat(2)[:tokens]
    teacher = TeacherStates(
        torch.randn(tokens, 3).to(dtype),
        OutputWeights(torch.randn(VOCABULARY, 3).to(dtype) * scale),
    )
    return Case(*drawn, labels, teacher)


Fused = Callable[[Case, int | None], LossSum]
Plain = Callable[[Case], Tensor]


def logits(c: Case) -> Tensor:
    """Return the logits, in float32 at least, as the loss promises."""
    return F.linear(*c.inputs).to(torch.promote_types(c.states.dtype, torch.float32))


def fused_distillation(c: Case, chunk: int | None) -> LossSum:
    head = OutputWeights(c.weight, c.bias)
    return distillation_loss(c.states, head, c.labels, c.teacher, 0.3, 0.1, chunk)


def plain_distillation(c: Case) -> Tensor:
    own = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    teacher = c.teacher.output_weights(c.teacher.states_NM).to(own.dtype)
    return 0.7 * own + 0.3 * kl_divergence(teacher, logits(c))


def plain_r_drop(c: Case) -> Tensor:
    own = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    return own + 2 * symmetric_kl(*logits(c).chunk(2))


FORMS: dict[str, tuple[Fused, Plain]] = {
    "cross-entropy": (
        lambda c, chunk: cross_entropy(
            c.states, OutputWeights(c.weight, c.bias), c.labels, chunk_size=chunk
        ),
        lambda c: F.cross_entropy(logits(c), c.labels, reduction="sum"),
    ),
    "smoothed": (
        lambda c, chunk: cross_entropy(
            c.states, OutputWeights(c.weight, c.bias), c.labels, 0.1, chunk
        ),
        lambda c: smoothed_cross_entropy(logits(c), c.labels, 0.1),
    ),
    "distillation": (fused_distillation, plain_distillation),
    "R-Drop": (
        lambda c, chunk: r_drop_loss(
            c.states, OutputWeights(c.weight, c.bias), c.labels, 2.0, 0.1, chunk
        ),
        plain_r_drop,
    ),
}
forms = pytest.mark.parametrize("form", FORMS)


def gradients(total: Tensor, c: Case) -> tuple[Tensor, ...]:
    return torch.autograd.grad(total, c.inputs)


def nll(c: Case) -> Tensor:
    return F.cross_entropy(logits(c), c.labels, reduction="sum")


# The plain forms.


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_plain_cross_entropy_is_torchs(smoothing: float) -> None:
    logits, labels = torch.randn(9, VOCABULARY), torch.randint(VOCABULARY, (9,))
    theirs = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(smoothed_cross_entropy(logits, labels, smoothing), theirs)


def test_fairseqs_smoothing_is_ours_with_a_larger_share() -> None:
    logits, labels = torch.randn(9, VOCABULARY), torch.randint(VOCABULARY, (9,))
    target = torch.full_like(logits, 0.1 / (VOCABULARY - 1)).scatter(1, labels[:, None], 0.9)
    theirs = -(target * logits.log_softmax(dim=-1)).sum()
    ours = smoothed_cross_entropy(logits, labels, 0.1 * VOCABULARY / (VOCABULARY - 1))
    torch.testing.assert_close(ours, theirs)


def test_plain_kl_is_torchs() -> None:
    p, q = torch.randn(2, 9, VOCABULARY)
    distribution, log_q = torch.distributions.Categorical, q.log_softmax(dim=-1)
    theirs = torch.distributions.kl_divergence(distribution(logits=p), distribution(logits=q))
    torch.testing.assert_close(kl_divergence(p, q), theirs.sum())
    other = F.kl_div(p.log_softmax(dim=-1), log_q, log_target=True, reduction="sum")
    torch.testing.assert_close(symmetric_kl(p, q), (theirs.sum() + other) / 2)


def test_a_divergence_by_hand() -> None:
    p, q = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]).log()
    assert kl_divergence(p, q).item() == pytest.approx(0.143841)  # ½ ln 2 + ½ ln ⅔
    assert kl_divergence(p, p).item() == 0


# The fused forms.


@forms
@pytest.mark.parametrize("chunk", [1, 3, 8, None])
def test_fused_equals_plain(form: str, chunk: int | None) -> None:
    """Chunk 3 leaves a shorter one, 1 is below R-Drop's two passes."""
    fused, plain = FORMS[form]
    c = case()
    ours, theirs = fused(c, chunk), plain(c)
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
def test_any_chunk_equals_the_whole(tokens: int, chunk: int, smoothing: float, seed: int) -> None:
    torch.manual_seed(seed)
    c = case(tokens)
    ours = cross_entropy(c.states, OutputWeights(c.weight, c.bias), c.labels, smoothing, chunk)
    theirs = smoothed_cross_entropy(F.linear(*c.inputs), c.labels, smoothing)
    torch.testing.assert_close(ours.total, theirs)
    for a, b in zip(gradients(ours.total, c), gradients(theirs, c), strict=True):
        torch.testing.assert_close(a, b)


@forms
def test_gradients_against_finite_differences(form: str) -> None:
    fused, _ = FORMS[form]
    c = case(tokens=6)

    def total(*inputs: Tensor) -> Tensor:
        return fused(Case(*inputs, c.labels, c.teacher), 4).total

    assert torch.autograd.gradcheck(total, c.inputs)


@forms
@pytest.mark.parametrize("scale", [0.0, 1e-4, 60.0])
def test_any_magnitude_is_finite_in_float32(form: str, scale: float) -> None:
    """States and weights of scale 60 give logits beyond 10,000."""
    fused, plain = FORMS[form]
    c = case(40, torch.float32, scale)
    if scale > 1:
        assert logits(c).abs().max() > 10_000
    ours, theirs = fused(c, 7), plain(c)
    torch.testing.assert_close(ours.total, theirs)
    for a, b in zip(gradients(ours.total, c), gradients(theirs, c), strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4 * max(1, scale))


@forms
def test_no_tokens_are_no_loss(form: str) -> None:
    c = case(tokens=0)
    ours = FORMS[form][0](c, None)
    assert (ours.total.item(), ours.nll.item(), ours.num_tokens) == (0, 0, 0)
    for gradient, x in zip(gradients(ours.total, c), c.inputs, strict=True):
        assert gradient.shape == x.shape
        assert not gradient.any()


@forms
def test_the_same_to_the_bit_each_time(form: str) -> None:
    c = case(200, torch.float32)
    first, second = (FORMS[form][0](c, 64) for _ in range(2))
    assert torch.equal(first.total, second.total)
    for a, b in zip(gradients(first.total, c), gradients(second.total, c), strict=True):
        assert torch.equal(a, b)


@forms
def test_only_what_needs_a_gradient_gets_one(form: str) -> None:
    c = case()
    expected = gradients(FORMS[form][0](c, 3).total, c)
    for i in range(3):
        inputs = [x.detach().requires_grad_(i == j) for j, x in enumerate(c.inputs)]
        FORMS[form][0](Case(*inputs, c.labels, c.teacher), 3).total.backward()
        assert [x.grad is not None for x in inputs] == [i == j for j in range(3)]
        torch.testing.assert_close(inputs[i].grad, expected[i])


@forms
def test_evaluation_makes_no_gradients(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    c = case()
    trained = FORMS[form][0](c, 3)
    monkeypatch.setattr(GradientAccumulator, "add", None)  # it would be called for the weights
    monkeypatch.setattr(Tensor, "scatter_add_", None)  # and these for the logits
    monkeypatch.setattr(LogitsGradient, "materialize_", None)
    with torch.no_grad():
        evaluated = FORMS[form][0](c, 3)
    frozen = FORMS[form][0](Case(*(x.detach() for x in c.inputs), *c[3:]), 3)
    for ours in (evaluated, frozen):
        assert not ours.total.requires_grad
        assert (ours.total, ours.nll) == (trained.total, trained.nll)


@pytest.mark.parametrize("chunk", [3, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_head_without_bias(smoothing: float, chunk: int | None, scale: float) -> None:
    c = case(scale=scale)
    ours = cross_entropy(c.states, OutputWeights(c.weight), c.labels, smoothing, chunk).total
    theirs = smoothed_cross_entropy(F.linear(c.states, c.weight), c.labels, smoothing)
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(*(torch.autograd.grad(x, c.inputs[:2]) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


def test_tied_weights_gather_both_gradients() -> None:
    c, ids = case(), torch.randint(VOCABULARY, (8,))
    states = F.embedding(ids, c.weight)
    ours = cross_entropy(states, OutputWeights(c.weight), c.labels, 0.1, 3).total
    theirs = smoothed_cross_entropy(F.linear(states, c.weight), c.labels, 0.1)
    a, b = (torch.autograd.grad(x, c.weight, retain_graph=True)[0] for x in (ours, theirs))
    torch.testing.assert_close(a, b)


def test_going_back_twice_gives_the_same_twice() -> None:
    """The gradients are kept with the graph, so nothing may scale or fill them in place."""
    c = case()
    total = cross_entropy(c.states, OutputWeights(c.weight, c.bias), c.labels, 0.1, 3).total
    expected = torch.autograd.grad(total, c.inputs, retain_graph=True)
    for factor in (1.0, 3.0, 1.0):
        (total * factor).backward(retain_graph=True)
    for x, gradient in zip(c.inputs, expected, strict=True):
        torch.testing.assert_close(x.grad, 5 * gradient)


def test_a_second_derivative_is_refused() -> None:
    c = case()
    total = cross_entropy(c.states, OutputWeights(c.weight, c.bias), c.labels).total
    with pytest.raises(NotImplementedError, match="no second derivative"):
        torch.autograd.grad(total, c.states, create_graph=True)


def test_the_sum_does_not_depend_on_how_it_is_split() -> None:
    """Two batches of different length count as one of both: gradients and sums add up."""
    c = case(9)
    head = OutputWeights(c.weight, c.bias)
    whole = cross_entropy(c.states, head, c.labels, 0.1)
    parts = [
        cross_entropy(c.states[rows], head, c.labels[rows], 0.1)
        for rows in (slice(0, 2), slice(2, 9))
    ]
    torch.testing.assert_close(whole.total, parts[0].total + parts[1].total)
    torch.testing.assert_close(whole.nll, parts[0].nll + parts[1].nll)
    assert whole.num_tokens == parts[0].num_tokens + parts[1].num_tokens
    both = gradients(parts[0].total + parts[1].total, c)
    for a, b in zip(gradients(whole.total, c), both, strict=True):
        torch.testing.assert_close(a, b)


# Precision.


@forms
def test_low_precision_sums_in_float32(form: str) -> None:
    """Only the matrix products round: once for the logits, once for the gradients."""
    c = case(600, torch.bfloat16)
    exact = Case(*(x.detach().double().requires_grad_() for x in c.inputs), *c[3:])
    exact = exact._replace(
        teacher=TeacherStates(
            c.teacher.states_NM.double(), OutputWeights(c.teacher.output_weights.weight_VM.double())
        )
    )
    ours, theirs = FORMS[form][0](c, 8), FORMS[form][1](c)
    torch.testing.assert_close(ours.total, theirs, rtol=1e-5, atol=0)
    torch.testing.assert_close(ours.nll, nll(c), rtol=1e-5, atol=0)
    assert ours.total.dtype == torch.float32
    in_float64 = gradients(FORMS[form][1](exact), exact)
    for a, b in zip(gradients(ours.total, c), in_float64, strict=True):
        assert a.dtype == torch.bfloat16
        assert (a - b).norm() / b.norm() < 0.01


@pytest.mark.parametrize("size", [30.0, 1000.0])
def test_who_is_sure_loses_no_digits(size: float) -> None:
    torch.manual_seed(1)
    logits_NV = size * torch.randn(200, 500).clamp(-1, 1)
    labels_N = logits_NV.argmax(1)
    ours = [
        cross_entropy(states_1V, OutputWeights(torch.eye(500)), label_1, 0.1)
        for states_1V, label_1 in zip(logits_NV[:, None], labels_N[:, None], strict=True)
    ]
    exact_NV = -logits_NV.double().log_softmax(1)
    surprise_N = torch.stack([each.nll for each in ours])
    assert surprise_N.min() >= -1e-6
    expected_N = exact_NV.gather(1, labels_N[:, None])[:, 0].float()
    torch.testing.assert_close(surprise_N, expected_N, rtol=0, atol=1e-6)


def test_a_large_vocabulary_is_not_too_large_for_half_precision() -> None:
    states = torch.zeros(2, 4, dtype=torch.float16).requires_grad_()
    weight = torch.ones(100_000, 4, dtype=torch.float16).requires_grad_()
    cross_entropy(states, OutputWeights(weight), torch.tensor([3, 5]), 0.1).total.backward()
    assert states.grad is not None
    assert states.grad.isfinite().all()


def test_autocast_changes_nothing_where_all_is_low_already() -> None:
    c = case(dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        inside = FORMS["smoothed"][0](c, 3)
    outside = FORMS["smoothed"][0](c, 3)
    assert (inside.total, inside.nll) == (outside.total, outside.nll)


@pytest.mark.parametrize("states", [torch.float32, torch.bfloat16])
def test_autocast_takes_its_own_type(states: torch.dtype) -> None:
    c = case(dtype=torch.float32)
    teacher = TeacherStates(c.teacher.states_NM.to(states), c.teacher.output_weights)
    given = c._replace(states=c.states.detach().to(states).requires_grad_(), teacher=teacher)
    low = Case(*(x.detach().bfloat16().requires_grad_() for x in c.inputs), *c[3:])
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = FORMS["distillation"][0](given, 3), FORMS["distillation"][0](low, 3)
    assert torch.equal(ours.total, theirs.total)
    pairs = zip(gradients(ours.total, given), gradients(theirs.total, low), strict=True)
    for x, (a, b) in zip(given.inputs, pairs, strict=True):
        assert a.dtype == x.dtype
        assert torch.equal(a.float(), b.float())


def test_mixed_types_take_the_finer() -> None:
    c = case(dtype=torch.bfloat16)
    fine = Case(*(x.detach().float().requires_grad_() for x in c.inputs), *c[3:])
    mixed = fine._replace(states=c.states)
    ours, theirs = (FORMS["smoothed"][0](x, None).total for x in (mixed, fine))
    assert torch.equal(ours, theirs)


def test_a_teacher_may_rule_pieces_out() -> None:
    c = case(dtype=torch.float32)
    bias = torch.zeros(VOCABULARY)
    bias[2] = -torch.inf
    ours = FORMS["distillation"][0](
        c._replace(
            teacher=TeacherStates(
                c.teacher.states_NM, OutputWeights(c.teacher.output_weights.weight_VM, bias)
            )
        ),
        3,
    )
    ruled = F.linear(c.teacher.states_NM, c.teacher.output_weights.weight_VM)
    ruled[:, 2] = -1e4
    own = smoothed_cross_entropy(logits(c), c.labels, 0.1)
    torch.testing.assert_close(ours.total, 0.7 * own + 0.3 * kl_divergence(ruled, logits(c)))
    assert all(g.isfinite().all() for g in gradients(ours.total, c))


def test_two_equal_passes_do_not_diverge() -> None:
    c = case()
    states = c.states[:4].repeat(2, 1)
    head = OutputWeights(c.weight, c.bias)
    with_term = r_drop_loss(states, head, c.labels, 5.0, 0.1)
    without = cross_entropy(states, head, c.labels, 0.1)
    torch.testing.assert_close(with_term.total, without.total)
    for a, b in zip(gradients(with_term.total, c), gradients(without.total, c), strict=True):
        torch.testing.assert_close(a, b)


# Memory.


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Remembers the largest tensor that anything inside it made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        for x in result if isinstance(result, tuple | list) else [result]:
            if isinstance(x, Tensor):
                self.elements = max(self.elements, x.numel())
        return result


@forms
def test_the_logits_of_the_whole_never_exist(form: str) -> None:
    c = case(400)
    with LargestTensor() as largest:
        FORMS[form][0](c, 10).total.backward()
    assert largest.elements == 400 * FEATURES  # the states; the logits would be 400 × VOCABULARY
    with LargestTensor() as largest:
        FORMS[form][1](c).backward()
    assert largest.elements == 400 * VOCABULARY


@pytest.mark.parametrize(("vocabulary", "rows"), [(8_000, 640), (32_000, 524), (256_000, 128)])
def test_the_rows_of_a_chunk(vocabulary: int, rows: int) -> None:
    assert default_chunk_size(vocabulary) == rows


# The config, and what is refused.


def test_the_config_chooses() -> None:
    c = case()
    head = OutputWeights(c.weight, c.bias)

    def chosen(**settings: float) -> Tensor:
        teacher = c.teacher if "distillation_weight" in settings else None
        return compute_training_loss(
            LossConfig(**settings), c.states, head, c.labels, teacher
        ).total

    assert torch.equal(chosen(), FORMS["smoothed"][0](c, None).total)
    assert torch.equal(chosen(label_smoothing=0.0), FORMS["cross-entropy"][0](c, None).total)
    assert torch.equal(chosen(r_drop_weight=2.0), FORMS["R-Drop"][0](c, None).total)
    assert torch.equal(chosen(distillation_weight=0.3), FORMS["distillation"][0](c, None).total)


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
def test_settings_that_cannot_be(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LossConfig(**settings)


REFUSED: dict[str, tuple[Callable[[Case], LossSum], str]] = {
    "padding": (
        lambda c: cross_entropy(c.states, OutputWeights(c.weight), c.labels.fill_(-100)),
        "from 0 to 6, .* but is -100 instead; leave padding out",
    ),
    "beyond the vocabulary": (
        lambda c: cross_entropy(c.states, OutputWeights(c.weight), c.labels.fill_(VOCABULARY)),
        "from 0 to 6, .* but is 7 instead",
    ),
    "float labels": (
        lambda c: cross_entropy(c.states, OutputWeights(c.weight), c.labels.float()),
        "labels must be int64 or int32",
    ),
    "too few labels": (
        lambda c: cross_entropy(c.states, OutputWeights(c.weight), c.labels[:3]),
        r"as many as the states, 8, but are \[3\] instead",
    ),
    "sentences": (
        lambda c: cross_entropy(c.states.view(2, 4, -1), OutputWeights(c.weight), c.labels),
        r"states must be \[tokens, 5\], .* but are \[2, 4, 5\]",
    ),
    "other labels in the second pass": (
        lambda c: r_drop_loss(
            c.states, OutputWeights(c.weight), c.labels.add(torch.arange(8)) % 7, 1.0
        ),
        "second half of the labels",
    ),
    "half a pass": (
        lambda c: r_drop_loss(c.states[:7], OutputWeights(c.weight), torch.zeros(7).long(), 1.0),
        "second half of the labels",
    ),
    "another teacher": (
        lambda c: distillation_loss(
            c.states,
            OutputWeights(c.weight),
            c.labels,
            TeacherStates(c.states[:2], OutputWeights(c.weight)),
            0.5,
        ),
        r"as many tokens and pieces as the student, \[8, 7\], but has \[2, 7\]",
    ),
    "no teacher": (
        lambda c: compute_training_loss(
            LossConfig(distillation_weight=0.5), c.states, OutputWeights(c.weight), c.labels
        ),
        "a teacher must be given",
    ),
    "a teacher unasked": (
        lambda c: compute_training_loss(
            LossConfig(), c.states, OutputWeights(c.weight), c.labels, c.teacher
        ),
        "and only then",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what: str) -> None:
    run, message = REFUSED[what]
    with pytest.raises(InputError, match=message):
        run(case())


def test_int32_labels_are_as_good() -> None:
    c = case()
    head = OutputWeights(c.weight)
    ours, theirs = (cross_entropy(c.states, head, y).total for y in (c.labels.int(), c.labels))
    assert torch.equal(ours, theirs)
