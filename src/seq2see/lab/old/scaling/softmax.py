"""Experiments 4 to 7: what softmax makes of its inputs, and its derivative."""

from __future__ import annotations

from math import exp

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import at_most, between, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves, grids
from seq2see.model import masked_softmax


def softmax(scores: Tensor) -> Tensor:
    """Take the softmax as the model's attention does where nothing is hidden."""
    return masked_softmax(scores, None)


def example(a: float) -> Tensor:
    """Return the notes' example [a, a, 2a]."""
    return torch.tensor([a, a, 2 * a], dtype=torch.float64)


def third(a: float) -> float:
    """Return y₃ of softmax([a, a, 2a])."""
    return float(softmax(example(a))[2])


def third_by_exp(a: float) -> float:
    """Return y₃ as the notes' code has it: exponentials, and no maximum taken away first."""
    return exp(2 * a) / (exp(a) + exp(a) + exp(2 * a))


@experiment(
    number=4,
    title=Text("softmax([a, a, 2a])", "softmax([a, a, 2a])"),
    notes="S4",
    claim=Text(
        "y₃ of softmax([a, a, 2a]) is 0.5761168847658291 for a = 1, 0.9999092083843412 for a = 10 "
        "and 1.0 for a = 100.",
        "softmax([a, a, 2a]) 的 y₃：a = 1 时为 0.5761168847658291，a = 10 时为 0.9999092083843412，"
        "a = 100 时为 1.0。",
    ),
    prediction=Text(
        "The same to 1e-12. The notes' code takes exp(2a), which overflows from a = 355 on; ours "
        "must give 1 there.",
        "误差在 1e-12 以内。笔记的代码要计算 exp(2a)，从 a = 355 起溢出；我们的实现此时必须给出 "
        "1。",
    ),
)
def worked_example(bench: Bench) -> Finding:
    """Compute y₃, draw it, and look for where the notes' way overflows."""
    del bench
    values = {1: 0.5761168847658291, 10: 0.9999092083843412, 100: 1.0}
    first_overflow = next(a for a in range(1, 1000) if _overflows(a))
    x = torch.linspace(0, 100, 201).tolist()
    return Finding(
        Verdict.HOLDS,
        Text(
            "All three numbers are right. The notes' code raises OverflowError from a = 355 on, "
            "since exp(2a) has no float64; softmax must first take the largest input away, as ours "
            "does.",
            "三个数都正确。但笔记的代码从 a = 355 起抛出 OverflowError，因为 exp(2a) 超出了 "
            "float64；"
            "softmax 必须先减去最大输入，我们的实现正是如此。",
        ),
        (
            *(
                Measurement(Text(f"y₃, a = {a}", f"y₃，a = {a}"), third(a), near(value, 1e-12))
                for a, value in values.items()
            ),
            Measurement(
                Text("first a at which the notes' code overflows", "笔记代码首次溢出的 a"),
                first_overflow,
                equal(355),
            ),
            Measurement(Text("ours at a = 355", "我们的实现，a = 355"), third(355), equal(1)),
            Measurement(Text("ours at a = 1e300", "我们的实现，a = 1e300"), third(1e300), equal(1)),
        ),
        (
            curves(
                Text("y₃ of softmax([a, a, 2a]).", "softmax([a, a, 2a]) 的 y₃。"),
                x,
                {"y₃": [third(a) for a in x]},
                ("a", "y₃"),
            ),
        ),
    )


def _overflows(a: float) -> bool:
    try:
        third_by_exp(a)
    except OverflowError:
        return True
    return False


@experiment(
    number=5,
    title=Text("Differences saturate softmax, not sizes", "使 softmax 饱和的是差值，而非数值大小"),
    notes="S4",
    claim=Text(
        "If every component of the input is large, y of the largest is very close to 1.",
        "若输入的每个分量绝对值都很大，则最大分量对应的 y 非常接近 1。",
    ),
    prediction=Text(
        "softmax does not change when the same number is added to all inputs: [100, 100, 100] is "
        "uniform, and [1000, 1001, 1002] gives what [0, 1, 2] gives.",
        "给所有输入加上同一个数，softmax 不变：[100, 100, 100] 给出均匀分布，"
        "[1000, 1001, 1002] 与 [0, 1, 2] 的结果相同。",
    ),
)
def differences_saturate(bench: Bench) -> Finding:
    """Compare large inputs with small ones of the same differences."""
    del bench
    far, close = (
        softmax(torch.tensor(x, dtype=torch.float64)) for x in ([1000.0, 1001, 1002], [0.0, 1, 2])
    )
    uniform = softmax(torch.full((3,), 100.0, dtype=torch.float64))
    apart = softmax(torch.tensor([0.0, 10, 20], dtype=torch.float64))
    return Finding(
        Verdict.FALSE,
        Text(
            "Only differences count: softmax(x + c) = softmax(x). Large equal inputs give the "
            "uniform distribution. What √d_k keeps small is the spread of the scores of a query.",
            "只有差值起作用：softmax(x + c) = softmax(x)。相等的大输入给出均匀分布。"
            "√d_k 所控制的是同一个查询各分数之间的离散程度。",
        ),
        (
            Measurement(
                Text("largest y of [100, 100, 100]", "[100, 100, 100] 的最大 y"),
                float(uniform.max()),
                near(1 / 3, 1e-15),
            ),
            Measurement(
                Text(
                    "largest difference, [1000, 1001, 1002] to [0, 1, 2]",
                    "[1000, 1001, 1002] 与 [0, 1, 2] 的最大差",
                ),
                float((far - close).abs().max()),
                at_most(1e-15),
            ),
            Measurement(
                Text("largest y of [1000, 1001, 1002]", "[1000, 1001, 1002] 的最大 y"),
                float(far.max()),
                near(0.66524, 1e-5),
            ),
            Measurement(
                Text("largest y of [0, 10, 20]", "[0, 10, 20] 的最大 y"),
                float(apart.max()),
                near(0.99995, 1e-5),
            ),
        ),
    )


@experiment(
    number=6,
    title=Text("The Jacobian of softmax", "softmax 的雅可比矩阵"),
    notes="S0 S3 S4",
    claim=Text(
        "∂y_i/∂x_i = y_i(1 − y_i) and ∂y_i/∂x_j = −y_i·y_j: the Jacobian is diag(y) − yyᵀ, and it "
        "goes to 0 where y goes to one-hot.",
        "∂y_i/∂x_i = y_i(1 − y_i)，∂y_i/∂x_j = −y_i·y_j：雅可比矩阵为 diag(y) − yyᵀ；"
        "当 y 趋于 one-hot 时它趋于 0。",
    ),
    prediction=Text(
        "Equal to autograd's. Frobenius norm of softmax([a, a, 2a]) for a = 1, 10, 100: 0.423, "
        "1.4e-4, 9e-44.",
        "与自动求导一致。softmax([a, a, 2a]) 的雅可比 Frobenius 范数在 a = 1、10、100 时约为 "
        "0.423、1.4e-4、9e-44。",
    ),
)
def softmax_jacobian(bench: Bench) -> Finding:
    """Compare the formula with autograd, and follow its norm as a grows."""
    x = torch.randn(10, dtype=torch.float64, generator=bench.generator(1))
    return Finding(
        Verdict.HOLDS,
        Text(
            "The formula is autograd's to the last digit, and vanishes exponentially as the "
            "differences grow. Its rows sum to 0: what one input gains the others lose.",
            "公式与自动求导精确一致，且随差值增大呈指数衰减。每一行之和为 0："
            "一个输入所得即其余所失。",
        ),
        (*_formula_and_autograd(x), *_vanishing()),
        (_jacobians(), _norms()),
    )


def _formula_and_autograd(x: Tensor) -> list[Measurement]:
    by_autograd = jacobian(softmax, x)
    return [
        Measurement(
            Text("largest difference to autograd", "与自动求导的最大差"),
            float((by_autograd - formula(softmax(x))).abs().max()),
            at_most(1e-15),
        ),
        Measurement(
            Text("largest sum of a row", "行和的最大绝对值"),
            float(by_autograd.sum(dim=1).abs().max()),
            at_most(1e-15),
        ),
    ]


def _vanishing() -> list[Measurement]:
    expected = {1: near(0.423, 0.001), 10: between(1e-4, 2e-4), 100: between(1e-44, 1e-42)}
    return [
        Measurement(
            Text(f"Frobenius norm, a = {a}", f"Frobenius 范数，a = {a}"),
            jacobian_norm(example(a)),
            bound,
        )
        for a, bound in expected.items()
    ]


def _jacobians() -> Figure:
    return grids(
        Text(
            "The Jacobian of softmax([a, a, 2a]), for a = 1, 3 and 10.",
            "softmax([a, a, 2a]) 的雅可比矩阵，a = 1、3、10。",
        ),
        {f"a = {a}": formula(softmax(example(a))).tolist() for a in (1, 3, 10)},
        ["y₁", "y₂", "y₃"],
        ["x₁", "x₂", "x₃"],
        limits=(-0.25, 0.25),
        colours="RdBu",
        numbers=True,
    )


def _norms() -> Figure:
    steps = [float(a) for a in range(101)]
    return curves(
        Text("The norm of the Jacobian against a.", "雅可比矩阵的范数随 a 的变化。"),
        steps,
        {"‖∂y/∂x‖": [jacobian_norm(example(a)) for a in steps]},
        ("a", "‖∂y/∂x‖"),
        y_scale="log",
    )


def formula(y: Tensor) -> Tensor:
    """Return diag(y) − yyᵀ."""
    return y.diag() - torch.outer(y, y)


def jacobian_norm(x: Tensor) -> float:
    """Return the Frobenius norm of the Jacobian of softmax, by autograd."""
    return float(jacobian(softmax, x).norm())


@experiment(
    number=7,
    title=Text("The check that S0 gives", "S0 的验证代码"),
    notes="S0",
    claim=Text(
        "S0's code compares softmax of scores with softmax of the same scores times d = 10, to "
        "show what a higher variance does, and prints vanishing gradients.",
        "S0 的代码比较分数与其 d = 10 倍后的 softmax，以说明高方差的影响，并打印趋于 0 的梯度。",
    ),
    prediction=Text(
        "Both softmaxes are taken of `score1`, so they are equal. Times d raises the variance by "
        "d² = 100, where the dot product raises it by d: √d was meant.",
        "两次 softmax 都取自 `score1`，因此结果相同。乘以 d 使方差变为 d² = 100 倍，"
        "而点积只使方差变为 d 倍：本意应是 √d。",
    ),
)
def check_of_the_notes(bench: Bench) -> Finding:
    """Do what the notes' code does, then what it meant."""
    d, trials = 10, 100
    scores = torch.randn(trials, d, dtype=torch.float64, generator=bench.generator(1))
    as_written = (softmax(scores), softmax(scores))  # the second was to be of the larger scores
    norms = {
        factor: [jacobian_norm(row * factor) for row in scores]
        for factor in (1.0, d**0.5, float(d))
    }
    mean = {factor: sum(found) / trials for factor, found in norms.items()}
    return Finding(
        Verdict.FALSE,
        Text(
            "`probs2` is computed from `score1`, so the two printed distributions are the same; "
            "and ×d makes the variance d² times as large. The point survives the repair: at √d, "
            "which is what an unscaled dot product does, the Jacobian already shrinks.",
            "`probs2` 由 `score1` 计算，因此两个分布完全相同；而 ×d 使方差变为 d² 倍。"
            "改正后结论仍在：乘以 √d（未缩放点积的真实效果）时雅可比矩阵已经变小。",
        ),
        (
            Measurement(
                Text(
                    "difference of the two softmaxes, as written", "两次 softmax 之差（照原代码）"
                ),
                float((as_written[0] - as_written[1]).abs().max()),
                equal(0),
            ),
            Measurement(
                Text("variance, times d against not", "×d 后方差之比"),
                float((scores * d).var() / scores.var()),
                near(d**2, 1e-9),
            ),
            Measurement(
                Text("variance, times √d against not", "×√d 后方差之比"),
                float((scores * d**0.5).var() / scores.var()),
                near(d, 1e-9),
            ),
            Measurement(
                Text("mean norm of the Jacobian, scores as they are", "雅可比平均范数，原分数"),
                mean[1.0],
                between(0.25, 0.5),
            ),
            Measurement(
                Text("… times √d, over that", "……×√d，与上者之比"),
                mean[d**0.5] / mean[1.0],
                at_most(0.95),
            ),
            Measurement(
                Text("… times d, over it too", "……×d，与原分数之比"),
                mean[float(d)] / mean[1.0],
                at_most(0.5),
            ),
        ),
    )
