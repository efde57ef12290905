"""Experiments 8 and 9: what happens to weights and gradients without the scale."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.lab.old.attention.steps import SITE, dot_product, self_attention
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, between, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves
from seq2see.model import NO_MASK, BatchLayout

# B batch, T queries, S keys, D features of a head, M features of the model

KEYS = 32
EXPECTED = {16: 0.65, 64: 0.82, 256: 0.91, 512: 0.94}
"""The largest weight without a scale, by d_k."""


@experiment(
    number=8,
    title=Text("Without the scale, one key takes all", "不缩放时，一个键独占注意力"),
    notes="S0 S1 S3 S4",
    claim=Text(
        "The larger d_k, the larger q·k, and softmax becomes nearly one-hot.",
        "d_k 越大，q·k 越大，softmax 越接近 one-hot。",
    ),
    prediction=Text(
        "Over 32 keys the largest weight is 0.65, 0.82, 0.91 and 0.94 for d_k = 16, 64, 256 and "
        "512; with the scale about 0.165 whatever d_k is.",
        "32 个键时，d_k = 16、64、256、512 的最大权重为 0.65、0.82、0.91、0.94；"
        "缩放后无论 d_k 多大都约为 0.165。",
    ),
)
def largest_weight(bench: Bench) -> Finding:
    """Let random queries attend to random keys, with the scale and without."""
    unscaled = {d: _largest_weight(bench, d, 1.0) for d in EXPECTED}
    scaled = {d: _largest_weight(bench, d, d**-0.5) for d in EXPECTED}
    return Finding(
        Verdict.HOLDS,
        Text(
            "The standard deviation of the scores is √d_k, so the gaps between them grow with it. "
            "With the scale the largest of 32 weights stays near 0.165 at every d_k.",
            "分数的标准差为 √d_k，分数之间的差距随之增大。缩放后，32 个权重中的最大者在任何 d_k "
            "下都约为 0.165。",
        ),
        (
            *(
                Measurement(
                    Text(f"largest weight, d_k = {d}, unscaled", f"最大权重，d_k = {d}，不缩放"),
                    unscaled[d],
                    near(expected, 0.03),
                )
                for d, expected in EXPECTED.items()
            ),
            *(
                Measurement(
                    Text(f"largest weight, d_k = {d}, scaled", f"最大权重，d_k = {d}，缩放"),
                    scaled[d],
                    near(0.165, 0.01),
                )
                for d in EXPECTED
            ),
        ),
        (
            curves(
                Text(
                    "The largest of 32 attention weights, mean over 8,000 queries.",
                    "32 个注意力权重中的最大者，对 8,000 个查询取平均。",
                ),
                list(EXPECTED),
                {
                    Text("unscaled", "不缩放"): list(unscaled.values()),
                    Text("scaled by 1/√d_k", "乘以 1/√d_k"): list(scaled.values()),
                },
                ("d_k", Text("largest weight", "最大权重")),
                x_scale="log",
                marker="o",
            ),
        ),
    )


def _largest_weight(bench: Bench, d: int, scale: float) -> float:
    generator = bench.generator(d)
    queries = torch.randn(1000, 1, 8, d, generator=generator)
    keys = torch.randn(1000, 1, KEYS, d, generator=generator)
    _, record = dot_product(queries, keys, keys, scale)
    return float(record.weights_BHTS.amax(dim=-1).mean())


@experiment(
    number=9,
    title=Text("Do all gradients vanish?", "所有梯度都消失了吗？"),
    notes="S4",
    claim=Text(
        "Where softmax is saturated, all gradients vanish to 0 and the parameters can hardly be "
        "updated.",
        "softmax 饱和时，所有的梯度都消失为 0，参数几乎无法更新。",
    ),
    prediction=Text(
        "For d_k = 512 without the scale, the typical query has hardly any gradient at its scores; "
        "but W_Q and W_V get larger gradients than with the scale: a few undecided queries, times "
        "large keys, make up for the many.",
        "d_k = 512 且不缩放时，典型的查询在其分数上几乎没有梯度；但 W_Q 与 W_V 得到的梯度反而更大："
        "少数尚未定型的查询乘以很大的键，抵过了其余的多数。",
    ),
)
def vanishing_gradients(bench: Bench) -> Finding:
    """Send a random gradient back through attention, and look at each query for itself."""
    unscaled, scaled = _gradients(bench, "dot"), _gradients(bench, "scaled_dot")
    return Finding(
        Verdict.FALSE,
        Text(
            "The gradient at the scores does vanish for most queries (the median falls a "
            "hundredfold), which is what the claim is about. But not all gradients do: the values "
            "never pass through softmax, so W_V gets more gradient than before, and W_Q too, since "
            "the keys are not divided by √d_k and a tenth of the queries is still undecided. A "
            "global norm would seem to refute the claim; quantiles per query show what is true "
            "in it.",
            "对大多数查询而言，分数处的梯度确实消失了（中位数降到约百分之一），这正是该说法的依据。"
            "但并非所有梯度都消失：V 不经过 softmax，W_V 的梯度反而更大；W_Q 也更大，"
            "因为键没有除以 "
            "√d_k，而且约十分之一的查询尚未定型。只看全局范数似乎会推翻该说法；"
            "按查询的分位数才显示出其中正确的部分。",
        ),
        (*_at_the_scores(unscaled, scaled), *_at_the_matrices(unscaled, scaled)),
        (_by_query(unscaled, scaled),),
    )


def _at_the_scores(unscaled: _Gradients, scaled: _Gradients) -> list[Measurement]:
    return [
        Measurement(
            Text("median gradient at the scores, unscaled", "分数梯度的中位数，不缩放"),
            quantile(unscaled.at_scores, 0.5),
            at_most(0.01),
        ),
        Measurement(
            Text("median gradient at the scores, scaled", "分数梯度的中位数，缩放"),
            quantile(scaled.at_scores, 0.5),
            near(0.22, 0.04),
        ),
        Measurement(
            Text("90th percentile, unscaled", "第 90 百分位，不缩放"),
            quantile(unscaled.at_scores, 0.9),
            between(0.1, 0.6),
        ),
        Measurement(
            Text("90th percentile, scaled", "第 90 百分位，缩放"),
            quantile(scaled.at_scores, 0.9),
            between(0.25, 0.4),
        ),
    ]


def _at_the_matrices(unscaled: _Gradients, scaled: _Gradients) -> list[Measurement]:
    return [
        Measurement(
            Text("‖dW_Q‖, unscaled over scaled", "‖dW_Q‖，不缩放与缩放之比"),
            unscaled.query / scaled.query,
            at_least(5),
        ),
        Measurement(
            Text("‖dW_V‖, unscaled over scaled", "‖dW_V‖，不缩放与缩放之比"),
            unscaled.value / scaled.value,
            at_least(2),
        ),
    ]


def _by_query(unscaled: _Gradients, scaled: _Gradients) -> Figure:
    shares = [percent / 100 for percent in range(1, 100)]
    return curves(
        Text(
            "The gradient at the scores of each query, d_k = 512, sorted: without the "
            "scale most queries learn nothing, and a few as much as before.",
            "每个查询在分数处的梯度（d_k = 512，已排序）：不缩放时多数查询学不到东西，"
            "少数与缩放时相当。",
        ),
        shares,
        {
            Text("unscaled", "不缩放"): [quantile(unscaled.at_scores, s) for s in shares],
            Text("scaled", "缩放"): [quantile(scaled.at_scores, s) for s in shares],
        },
        (Text("share of the queries", "查询的比例"), Text("norm of the gradient", "梯度范数")),
        y_scale="log",
    )


@dataclass(frozen=True)
class _Gradients:
    at_scores: Tensor
    """The norm for each query."""
    query: float
    """The norm of W_Q's."""
    value: float
    """The norm of W_V's."""


def _gradients(bench: Bench, kind: str, d: int = 512) -> _Gradients:
    """Send a random gradient of unit size a query back through one head of width d."""
    torch.manual_seed(1)
    heads = self_attention(1, d, kind=kind)
    generator, ear = bench.generator(2), Ear()
    x_BSM = torch.randn(40, KEYS, d, generator=generator)
    layout = BatchLayout(40, KEYS)
    heads(layout.flatten(x_BSM), layout, NO_MASK, ear)
    record = ear.attention[SITE]
    record.scores_BHTS.retain_grad()
    mixed = record.weights_BHTS @ record.values_BHSD
    mixed.backward(torch.randn(mixed.shape, generator=generator) * d**-0.5)
    weight = heads.qkv.weight.grad
    assert weight is not None
    assert record.scores_BHTS.grad is not None
    query, _, value = weight.chunk(3)
    return _Gradients(
        record.scores_BHTS.grad.norm(dim=-1).flatten(), float(query.norm()), float(value.norm())
    )


def quantile(values: Tensor, share: float) -> float:
    """Return the value below which this share of them is."""
    return float(values.quantile(share))
