"""Experiments 4 to 7 and 9: softmax, its derivative, and the gradients of attention."""

from functools import partial
from math import exp, inf

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    between,
    experiment,
    false,
    holds,
    holds_if,
    near,
)
from seq2see.lab.figures import Curves, Heatmaps
from seq2see.lab.models import attend, build_self_attention, max_abs_diff, raises
from seq2see.model import masked_softmax

# B batch, T queries, S keys, D features of a head, M features of the model


def softmax(scores: Tensor) -> Tensor:
    """Return softmax as the model's attention computes it without a mask."""
    return masked_softmax(scores, None)


def example(a: float) -> Tensor:
    """Return the notes' example [a, a, 2a]."""
    return torch.tensor([a, a, 2 * a], dtype=torch.float64)


def notes_y3(x: float) -> float:
    """Return y₃ as the notes' code computes it."""
    return exp(x * 2) / (exp(x) + exp(x) + exp(x * 2))


Y3 = {1: 0.5761168847658291, 10: 0.9999092083843412, 100: 1.0}


# The notes print 16 digits, of which float64 guarantees 15.
@experiment(
    4,
    Part(
        "values",
        holds(at_most("largest_error", 1e-12)),
        false(at_least("largest_error", 1e-6)),
    ),
    Part(
        "code",
        holds_if(at_most("first_overflow", 1000), at_most("error_overflow", 1e-12)),
        holds(at_least("first_overflow", 1001)),
    ),
    figures=[Curves("curve", "a", ["y3"])],
)
def worked_example(context: Context) -> Numbers:
    """Compute y₃ and find the first a at which the notes' code overflows."""
    del context
    errors = {f"error_{a}": abs(float(softmax(example(a))[2]) - y3) for a, y3 in Y3.items()}
    overflow = (a for a in range(1, 1001) if raises(OverflowError, partial(notes_y3, a)))
    first = next(overflow, None)
    x = torch.linspace(0, 100, 201).tolist()
    return {
        **errors,
        "largest_error": max(errors.values()),
        "first_overflow": first or inf,
        "error_overflow": abs(float(softmax(example(first or 1000))[2]) - 1),
        "a": x,
        "y3": [float(softmax(example(a))[2]) for a in x],
    }


# 0.99 is "very close to 1"; in float64, adding 1,000 rounds scores by 1e-13.
@experiment(
    5,
    Part(
        "magnitude",
        false(at_most("shift_difference", 1e-12), at_most("largest_equal", 0.34)),
        holds(at_least("largest_equal", 0.99)),
    ),
    Part(
        "factor",
        holds(near("largest_1", 0.665, 0.01), at_least("largest_10", 0.99)),
        false(at_most("largest_10", 0.9)),
    ),
)
def magnitude_and_differences(context: Context) -> Numbers:
    """Add a constant to all inputs, and multiply them by a factor."""
    x = context.normal("x", 1000, 10, dtype=torch.float64)
    shifts = [max_abs_diff(softmax(x + c), softmax(x)) for c in (1.0, 10.0, 100.0, 1000.0)]
    unequal = torch.arange(3, dtype=torch.float64)
    return {
        "shift_difference": max(shifts),
        "largest_equal": float(softmax(torch.full((3,), 100.0, dtype=torch.float64)).max()),
        "largest_1": float(softmax(unequal).max()),
        "largest_10": float(softmax(10 * unequal).max()),
    }


def jacobian_formula(y: Tensor) -> Tensor:
    """Return diag(y) − yyᵀ."""
    return y.diag() - torch.outer(y, y)


def jacobian_norm(x: Tensor) -> float:
    """Return the Frobenius norm of the Jacobian of softmax, by autograd."""
    return float(jacobian(softmax, x).norm())


# The largest entry of a Jacobian is at most 1/4; rounding errors are below 1e-15.
@experiment(
    6,
    Part("formula", holds(at_most("error", 1e-12)), false(at_least("error", 1e-6))),
    Part("vanishing", holds(near("slope", -1, 0.02)), false(at_least("slope", -0.5))),
    figures=[
        Heatmaps(
            "matrices", ["a = 1", "a = 3", "a = 10"], ["x₁", "x₂", "x₃"], ["y₁", "y₂", "y₃"],
            (-0.25, 0.25), "RdBu",
        ),
        Curves("norms", "a", ["norm"], y_scale="log"),
    ],
)  # fmt: skip
def softmax_jacobian(context: Context) -> Numbers:
    """Compare the formula with autograd, and follow its norm as a grows."""
    x = context.normal("x", 10, dtype=torch.float64)
    steps = [float(a) for a in range(5, 101, 5)]
    norms = torch.tensor([jacobian_norm(example(a)) for a in steps], dtype=torch.float64)
    centered = torch.tensor(steps, dtype=torch.float64) - torch.tensor(steps).mean()
    slope = float((centered * norms.log()).sum() / centered.pow(2).sum())
    matrices = {f"a = {a}": jacobian_formula(softmax(example(a))) for a in (1, 3, 10)}
    return {
        "error": max_abs_diff(jacobian(softmax, x), jacobian_formula(softmax(x))),
        "slope": slope,
        **matrices,
        "a": steps,
        "norm": norms,
    }


# "In general": in 95 % of draws; "on average": the median norm is halved at least.
@experiment(
    7,
    Part(
        "vanishing",
        holds_if(between("share", 0.6, 0.9), at_most("ratio", 0.5)),
        holds(at_least("share", 0.95), at_most("ratio", 0.5)),
        false(at_most("share", 0.5)),
    ),
    log=["ratio", "ratio_sqrt"],
)
def check_of_the_notes(context: Context) -> Numbers:
    """Compare the Jacobians at scores and at scores × d, which S0 prints, in many draws."""
    d = 10
    scores = context.normal("scores", 600, d, dtype=torch.float64)
    jacobians = torch.vmap(torch.func.jacrev(softmax))
    norms, norms_sqrt, norms_d = (
        jacobians(scores * factor).flatten(1).norm(dim=1) for factor in (1, d**0.5, d)
    )
    return {
        "share": float((norms_d < norms).double().mean()),
        "ratio": float((norms_d / norms).median()),
        "ratio_sqrt": float((norms_sqrt / norms).median()),
    }


MATRICES = ("q", "k", "v")


# "Vanishes": to a twentieth at most; "no parameter": each matrix gets a tenth at most.
@experiment(
    9,
    Part("scores", holds(at_least("median_fold", 20)), false(at_most("median_fold", 2))),
    Part(
        "parameters",
        false(*(at_least(f"norm_{name}", 1) for name in MATRICES)),
        holds(*(at_most(f"norm_{name}", 0.1) for name in MATRICES)),
    ),
    log=["median_fold", "norm_*"],
    figures=[Curves("sorted", "share", ["unscaled", "scaled"], "gradient", y_scale="log")],
)
def vanishing_gradients(context: Context) -> Numbers:
    """Send a random gradient back through one head of width 512, with and without scaling."""
    unscaled, unscaled_norms = _gradients(context, "dot")
    scaled, scaled_norms = _gradients(context, "scaled_dot")
    shares = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    return {
        "median_fold": float(scaled.median() / unscaled.median()),
        **{f"norm_{name}": unscaled_norms[name] / scaled_norms[name] for name in MATRICES},
        "share": shares,
        "unscaled": unscaled.quantile(shares),
        "scaled": scaled.quantile(shares),
    }


def _gradients(context: Context, kind: str) -> tuple[Tensor, dict[str, float]]:
    """Return the norm of the gradient at the scores per query, and that of each matrix."""
    d = 512
    attention = build_self_attention(context, d, heads=1, kind=kind)
    x_BTM = context.normal("x", 40, 32, d, dtype=torch.float64)
    _, record = attend(attention, x_BTM)
    record.scores_BHTS.retain_grad()
    mixed_BHTD = record.weights_BHTS @ record.values_BHSD
    gradient = context.normal("gradient", *mixed_BHTD.shape, dtype=torch.float64) * d**-0.5
    mixed_BHTD.backward(gradient)
    weight = attention.qkv.weight.grad
    assert weight is not None
    assert record.scores_BHTS.grad is not None
    norms = [float(part.norm()) for part in weight.chunk(3)]
    per_query = record.scores_BHTS.grad.norm(dim=-1).flatten()
    return per_query, dict(zip(MATRICES, norms, strict=True))
