"""Experiments 1 to 3 and 8: the distribution of q·k, and its effect on softmax."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    holds_if,
    near,
)
from seq2see.lab.figures import Curves, DensityHistogram
from seq2see.lab.models import attend_dot_product, dot_product_scores, kurtosis

# N pairs, D features of a head

CHUNK = 20_000
"""Pairs that are in memory at once."""
DISTRIBUTIONS: dict[str, Callable[[Generator, int], Tensor]] = {
    "normal": lambda rng, d: torch.randn(CHUNK, d, generator=rng),
    "uniform": lambda rng, d: (torch.rand(CHUNK, d, generator=rng) - 0.5) * 12**0.5,
    "coin": lambda rng, d: torch.randint(0, 2, (CHUNK, d), generator=rng) * 2.0 - 1.0,
}
"""Draw components with mean 0 and variance 1."""
SETTINGS = [("normal", 64), ("normal", 512), ("uniform", 64), ("coin", 64)]


def draw_scores(
    context: Context, distribution: str, d: int, scale: float = 1.0, chunks: int = 5
) -> Tensor:
    """Return q·k · scale of independent random pairs as the model computes it, [N]."""
    draw, rng = DISTRIBUTIONS[distribution], context.rng(f"{distribution} {d}")
    scores = [dot_product_scores(draw(rng, d), draw(rng, d), scale) for _ in range(chunks)]
    return torch.cat(scores).double()


# 100,000 pairs: the standard error of a variance ratio is below 0.005, that of a mean 0.003.
@experiment(
    1,
    Part(
        "variance",
        holds(at_most("largest_error", 0.03)),
        false(at_least("largest_error", 0.2)),
    ),
    Part(
        "scaled",
        holds(
            at_most("largest_scaled_error", 0.03),
            *(near(f"mean_{name}_{d}", 0, 0.02) for name, d in SETTINGS),
        ),
        false(at_least("largest_scaled_error", 0.2)),
    ),
    figures=[Curves("growth", "widths", ["raw", "scaled"], "variance", "log", "log", "o")],
)
def dot_product_variance(context: Context) -> Numbers:
    """Draw pairs of vectors and score them with the model's attention."""
    numbers: dict[str, float] = {}
    for name, d in SETTINGS:
        scaled = draw_scores(context, name, d, d**-0.5)
        numbers[f"ratio_{name}_{d}"] = float(draw_scores(context, name, d).var()) / d
        numbers[f"scaled_{name}_{d}"] = float(scaled.var())
        numbers[f"mean_{name}_{d}"] = float(scaled.mean())
    errors = [
        max(abs(value - 1) for key, value in numbers.items() if key.startswith(prefix))
        for prefix in ("ratio", "scaled")
    ]
    widths = [16, 64, 256]
    return {
        **numbers,
        "largest_error": errors[0],
        "largest_scaled_error": errors[1],
        "widths": widths,
        "raw": [float(draw_scores(context, "normal", d, chunks=1).var()) for d in widths],
        "scaled": [
            float(draw_scores(context, "normal", d, d**-0.5, chunks=1).var()) for d in widths
        ],
    }


MEANS = (0.0, 0.5, 1.0, 2.0)


def draw_with_mean(context: Context, name: str, mean: float) -> Tensor:
    """Draw numbers with this mean and variance 1."""
    return mean + context.normal(name, 2_000_000, dtype=torch.float64)


# 2,000,000 draws: the relative standard error of a variance is below 0.003.
@experiment(
    2,
    Part(
        "formula",
        false(at_least("notes_error_1", 0.5), *(at_most(f"error_{m:g}", 0.02) for m in MEANS)),
        holds(*(at_most(f"notes_error_{m:g}", 0.02) for m in MEANS)),
    ),
    Part("zero", holds(at_most("notes_error_0", 0.02)), false(at_least("notes_error_0", 0.1))),
    figures=[Curves("means", "mean", ["variance", "notes", "correct"], marker="o")],
)
def product_variance(context: Context) -> Numbers:
    """Compare both formulas, computed from sample moments, with the variance of the product."""
    curves: dict[str, list[float]] = {"variance": [], "notes": [], "correct": []}
    numbers: dict[str, float] = {}
    for mean in MEANS:
        q, k = (draw_with_mean(context, f"{name} {mean}", mean) for name in "qk")
        var_q, var_k, mean_q, mean_k = (float(v) for v in (q.var(), k.var(), q.mean(), k.mean()))
        measured = float((q * k).var())
        notes = var_q * var_k - mean_q**2 * mean_k**2
        correct = var_q * var_k + var_q * mean_k**2 + var_k * mean_q**2
        numbers[f"notes_error_{mean:g}"] = abs(notes - measured) / measured
        numbers[f"error_{mean:g}"] = abs(correct - measured) / measured
        for name, value in zip(curves, (measured, notes, correct), strict=True):
            curves[name].append(value)
    return {**numbers, "mean": list(MEANS), **curves}


# The excess kurtosis of q·k is 6/d. With these numbers of draws, the standard error of excess·d/6
# is 0.04 at d = 64. The kurtosis of the product is 9; 6 is half-way between 3 (normal) and 9.
@experiment(
    3,
    Part(
        "product",
        false(at_least("product", 6)),
        holds(near("product", 3, 0.1)),
    ),
    Part(
        "sum",
        holds_if(*(near(f"excess_{d}", 1, 0.3) for d in (4, 16, 64))),
        holds(near("excess_4", 0, 0.1)),
    ),
    figures=[DensityHistogram("density", ["products", "normals"], "x", (-4, 4))],
)
def product_kurtosis(context: Context) -> Numbers:
    """Measure the kurtosis of products and of dot products."""
    q, k = (context.normal(name, 2_000_000) for name in "qk")
    numbers = {"normal": kurtosis(q), "product": kurtosis(q * k)}
    for d, chunks in ((4, 50), (16, 50), (64, 100)):
        numbers[f"kurtosis_{d}"] = kurtosis(draw_scores(context, "normal", d, chunks=chunks))
        numbers[f"excess_{d}"] = (numbers[f"kurtosis_{d}"] - 3) * d / 6
    return {**numbers, "products": (q * k)[:50_000], "normals": q[:50_000]}


WIDTHS = (16, 64, 256, 512)
KEYS = 32


# A weight of 0.9 leaves 0.1 for the other 31 keys ("nearly one-hot"); uniform weights are 0.03.
@experiment(
    8,
    Part(
        "unscaled",
        holds(at_least("unscaled_512", 0.9), at_least("growth", 0.2)),
        false(at_most("unscaled_512", 0.5)),
    ),
    Part(
        "scaled",
        holds(*(at_most(f"scaled_{d}", 0.25) for d in WIDTHS), at_most("range", 0.02)),
        false(at_least("scaled_512", 0.5)),
    ),
    figures=[Curves("largest", "d", ["unscaled", "scaled"], "weight", "log", marker="o")],
)
def attention_weights_without_scaling(context: Context) -> Numbers:
    """Let random queries attend to random keys with and without scaling."""
    unscaled = [_largest_weight(context, d, 1.0) for d in WIDTHS]
    scaled = [_largest_weight(context, d, d**-0.5) for d in WIDTHS]
    return {
        **{f"unscaled_{d}": value for d, value in zip(WIDTHS, unscaled, strict=True)},
        **{f"scaled_{d}": value for d, value in zip(WIDTHS, scaled, strict=True)},
        "growth": unscaled[-1] - unscaled[0],
        "range": max(scaled) - min(scaled),
        "d": list(WIDTHS),
        "unscaled": unscaled,
        "scaled": scaled,
    }


def _largest_weight(context: Context, d: int, scale: float) -> float:
    """Return the largest of 32 weights, mean over 8,000 queries."""
    q_BHTD = context.normal(f"q {d}", 1000, 1, 8, d)
    k_BHSD = context.normal(f"k {d}", 1000, 1, KEYS, d)
    _, record = attend_dot_product(q_BHTD, k_BHSD, k_BHSD, scale)
    return float(record.weights_BHTS.amax(dim=-1).mean())
