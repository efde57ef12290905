"""Experiments 1 to 3: how a dot product spreads."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import at_most, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves, sketch
from seq2see.model import DotProductAttention
from seq2see.model.basic_modules import Dropout

# N pairs, D features of a head

PAIRS = 30_000


def scores(q_ND: Tensor, k_ND: Tensor, scale: float = 1.0) -> Tensor:
    """Return the score of each pair, as the model's attention makes it."""
    attention = DotProductAttention(scale, Dropout(0.0))
    return attention.compute_scores(q_ND[:, None, None], k_ND[:, None, None]).flatten()


def normal(shape: tuple[int, int], generator: Generator) -> Tensor:
    """Draw from N(0, 1)."""
    return torch.randn(shape, generator=generator)


def uniform(shape: tuple[int, int], generator: Generator) -> Tensor:
    """Draw evenly from ±√3: mean 0, variance 1."""
    return (torch.rand(shape, generator=generator) - 0.5) * 12**0.5


def coin(shape: tuple[int, int], generator: Generator) -> Tensor:
    """Draw −1 or 1: mean 0, variance 1, and nothing like a normal distribution."""
    return torch.randint(0, 2, shape, generator=generator) * 2.0 - 1.0


@experiment(
    number=1,
    title=Text("The variance of q·k is d_k", "q·k 的方差是 d_k"),
    notes="S0 S1 S3 S4",
    claim=Text(
        "If the components of q and k are independent with mean 0 and variance 1, q·k has mean 0 "
        "and variance d_k; divided by √d_k, its variance is 1. S4 adds: they must be normal.",
        "若 q 与 k 的各分量相互独立、均值为 0、方差为 1，则 q·k 的均值为 0、方差为 d_k；"
        "除以 √d_k 后方差为 1。S4 还要求服从标准正态分布。",
    ),
    prediction=Text(
        "64 and 512, and 1 after scaling; the same for components that are −1 or 1.",
        "方差为 64 与 512，缩放后为 1；分量只取 ±1 时也一样。",
    ),
)
def dot_product_variance(bench: Bench) -> Finding:
    """Draw pairs of vectors and score them with the model's own attention."""
    measured = []
    for d in (64, 512):
        q, k = (normal((PAIRS, d), bench.generator(seed)) for seed in (1, 2))
        raw, scaled = scores(q, k), scores(q, k, d**-0.5)
        measured += [
            Measurement(
                Text(f"mean of q·k/√d_k, d_k = {d}", f"q·k/√d_k 的均值，d_k = {d}"),
                float(scaled.mean()),
                near(0, 0.02),
            ),
            Measurement(
                Text(f"variance of q·k, d_k = {d}", f"q·k 的方差，d_k = {d}"),
                float(raw.var()),
                near(d, 0.03 * d),
            ),
            Measurement(
                Text(f"variance of q·k/√d_k, d_k = {d}", f"q·k/√d_k 的方差，d_k = {d}"),
                float(scaled.var()),
                near(1, 0.03),
            ),
        ]
    return Finding(
        Verdict.HOLDS,
        Text(
            "Independence, mean 0 and variance 1 are enough. Normality, which S4 asks for, is not "
            "needed: with components drawn evenly, or by a coin, the variance is the same.",
            "只需独立、均值 0、方差 1。S4 所要求的正态性并不必要：均匀分布或抛硬币（±1）的分量，"
            "方差完全相同。",
        ),
        (
            *measured,
            _variance(bench, uniform, "uniform", "均匀分布"),
            _variance(bench, coin, "±1", "±1"),
        ),
        (_against_width(bench),),
    )


def _against_width(bench: Bench) -> Figure:
    widths = [2**power for power in range(4, 10)]
    drawn = [[normal((PAIRS, d), bench.generator(seed)) for seed in (1, 2)] for d in widths]
    return curves(
        Text("The variance against d_k.", "方差随 d_k 的变化。"),
        widths,
        {
            "q·k": [float(scores(q, k).var()) for q, k in drawn],
            "q·k/√d_k": [float(scores(q, k, q.size(1) ** -0.5).var()) for q, k in drawn],
        },
        ("d_k", Text("variance", "方差")),
        x_scale="log",
        y_scale="log",
        marker="o",
    )


def _variance(
    bench: Bench, draw: Callable[[tuple[int, int], Generator], Tensor], en: str, zh: str
) -> Measurement:
    q, k = (draw((PAIRS, 64), bench.generator(seed)) for seed in (1, 2))
    return Measurement(
        Text(f"variance of q·k, d_k = 64, components {en}", f"q·k 的方差，d_k = 64，分量为{zh}"),
        float(scores(q, k).var()),
        near(64, 2),
    )


@experiment(
    number=2,
    title=Text("The variance of a product", "乘积的方差"),
    notes="S0",
    claim=Text(
        "S0 derives D(qk) = D(q)D(k) − E(q)²E(k)².", "S0 推导得 D(qk) = D(q)D(k) − E(q)²E(k)²。"
    ),
    prediction=Text(
        "With both means 1 and both variances 1 the notes' formula gives 0. The right one, "
        "D(q)D(k) + D(q)E(k)² + D(k)E(q)², gives 3.",
        "当均值与方差都为 1 时，笔记的公式给出 0；正确的公式 D(q)D(k) + D(q)E(k)² + D(k)E(q)² "
        "给出 3。",
    ),
)
def product_variance(bench: Bench) -> Finding:
    """Multiply numbers with mean 1 and variance 1."""
    q, k = (1 + normal((2_000_000, 1), bench.generator(seed)) for seed in (1, 2))
    q_64, k_64 = (1 + normal((PAIRS, 64), bench.generator(seed)) for seed in (3, 4))
    return Finding(
        Verdict.FALSE,
        Text(
            "E(q²) is D(q) + E(q)², and the derivation takes the square away instead of adding it. "
            "With means of 0, as the notes assume later, both formulas give 1, so the slip does "
            "not show. Where means are not 0 (behind a LayerNorm with a learned bias, say), √d_k "
            "no longer makes the variance 1.",
            "E(q²) 等于 D(q) + E(q)²，推导却把平方项减去而不是加上。均值为 0 时（笔记随后的假设）"
            "两个公式都得 1，错误因此看不出来。均值不为 0 时（例如 LayerNorm 学到了偏置），"
            "除以 √d_k 就不再得到方差 1。",
        ),
        (
            Measurement(
                Text("variance of qk, means 1", "qk 的方差，均值为 1"),
                float((q * k).var()),
                near(3, 0.03),
            ),
            Measurement(
                Text("the notes' formula", "笔记的公式"), 1.0 * 1.0 - 1.0 * 1.0, at_most(0)
            ),
            Measurement(
                Text(
                    "variance of q·k/√d_k, d_k = 64, means 1", "q·k/√d_k 的方差，d_k = 64，均值为 1"
                ),
                float(scores(q_64, k_64, 64**-0.5).var()),
                near(3, 0.1),
            ),
        ),
    )


@experiment(
    number=3,
    title=Text("A product of normal numbers is not normal", "正态变量之积不是正态变量"),
    notes="S2",
    claim=Text(
        "The product of two independent normal variables is normal again, and so the dot product, "
        "as a sum of them, is normal too.",
        "两个独立正态随机变量的积依然是正态随机变量，因此点积作为它们的和也是正态的。",
    ),
    prediction=Text(
        "A normal variable has kurtosis 3. The product has 9, the dot product 3 + 6/d_k.",
        "正态变量的峰度为 3；乘积的峰度为 9，点积的峰度为 3 + 6/d_k。",
    ),
)
def product_kurtosis(bench: Bench) -> Finding:
    """Measure the kurtosis of products and of dot products."""
    q, k = (normal((2_000_000, 1), bench.generator(seed)) for seed in (1, 2))
    product = (q * k).flatten()
    kurtoses = {}
    for d in (4, 64):
        q_d, k_d = (normal((200_000, d), bench.generator(seed)) for seed in (3, 4))
        kurtoses[d] = kurtosis(scores(q_d, k_d))
    with sketch(
        Text(
            "Products of two normal numbers, against a normal variable of the same variance.",
            "两个正态数之积，与方差相同的正态变量相比。",
        )
    ) as made:
        axes = made.canvas.subplots()
        bins = torch.linspace(-4, 4, 121)
        for values, label in ((product, Text("product", "乘积")), (q, Text("normal", "正态"))):
            heights, _ = torch.histogram(values.flatten()[:400_000], bins, density=True)
            axes.stairs(heights.tolist(), bins.tolist(), label=made.word(label), linewidth=1.4)
        axes.set_xlabel("x")
        axes.set_ylabel(made.word(Text("density", "密度")))
        axes.legend()
    return Finding(
        Verdict.FALSE,
        Text(
            "The product has a peak at 0 and heavy tails: kurtosis 9, not 3. Sums are normal in "
            "the limit only (3 + 6/d_k). The variance of the dot product does not need normality, "
            "so the conclusion about √d_k stands.",
            "乘积在 0 处有尖峰且尾部很重：峰度是 9 而不是 3。和只在极限下趋于正态（3 + 6/d_k）。"
            "点积的方差并不需要正态性，因此关于 √d_k 的结论仍然成立。",
        ),
        (
            Measurement(Text("kurtosis of q", "q 的峰度"), kurtosis(q), near(3, 0.03)),
            Measurement(Text("kurtosis of qk", "qk 的峰度"), kurtosis(product), near(9, 0.6)),
            Measurement(
                Text("kurtosis of q·k, d_k = 4", "q·k 的峰度，d_k = 4"), kurtoses[4], near(4.5, 0.3)
            ),
            Measurement(
                Text("kurtosis of q·k, d_k = 64", "q·k 的峰度，d_k = 64"),
                kurtoses[64],
                near(3 + 6 / 64, 0.06),
            ),
        ),
        (made.figure,),
    )


def kurtosis(values: Tensor) -> float:
    """Return the fourth moment over the squared variance; 3 for a normal variable."""
    centred = values.double() - values.double().mean()
    return float(centred.pow(4).mean() / centred.pow(2).mean() ** 2)
