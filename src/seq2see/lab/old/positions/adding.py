"""Item 35: to add positions, or to put them beside the embeddings."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most, between
from seq2see.lab.old.experiment import Finding, Measurement, Text, Verdict, experiment
from seq2see.model import compute_sinusoids

# T positions, M features of the model, V vocabulary

WIDE, WORDS, POSITIONS = 512, 10_000, 512


@experiment(
    35,
    Text("Adding or concatenating positions", "位置编码：相加还是拼接"),
    "S3",
    Text(
        "Why does one add? Because [W₁ W₂][e; p] = W₁e + W₂p and W(e + p) = We + Wp: adding is "
        "concatenating with shared weights, which limits what can be expressed.",
        "为什么相加而不是拼接？因为 [W1 W2][e; p] = W1e + W2p，W(e+p) = We + Wp："
        "相加等于两个权重共享的拼接，而这种共享明显限制了表达能力。",
    ),
    Text(
        "The algebra is exact, and speaks against adding. What speaks for it: waves fill a small "
        "part of the space, so that both parts of a sum can be read back.",
        "代数恒等式成立，但它是反对相加的理由。支持相加的是：正弦波只占空间的一小部分，"
        "从和里能把两部分都读回来。",
    ),
)
def adding(bench: Bench) -> Finding:
    """Check the algebra, then read words and positions back from their sum."""
    generator = bench.generator()
    tokens_VM = torch.randn(WORDS, WIDE, generator=generator).double()
    places_TM = compute_sinusoids(torch.arange(POSITIONS), WIDE)
    words_T = torch.randint(WORDS, (POSITIONS,), generator=generator)
    weight_MM = torch.randn(WIDE, WIDE, generator=generator).double() / WIDE**0.5
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "it is taken as algebra. It names the price of adding and not its reason. The price "
            "is small: of 512 dimensions the waves need about a fifth, and from the sum the word "
            "and nearly always the very position can be read back; concatenating would make every "
            "first projection twice as large.",
            "只把它当作代数时成立。它说的是相加的代价，而不是理由。代价其实很小："
            "512 维里正弦波约占五分之一，"
            "从和里能读回是哪个词，也几乎总能读回确切位置；而拼接会使第一层投影大一倍。",
        ),
        (
            *_algebra(tokens_VM[words_T], places_TM, weight_MM),
            _directions(places_TM),
            *_read_back(tokens_VM, words_T, places_TM),
        ),
    )


def _algebra(embedded_TM: Tensor, places_TM: Tensor, weight_MM: Tensor) -> list[Measurement]:
    projected_TM = (embedded_TM + places_TM) @ weight_MM
    beside_TM = torch.cat((embedded_TM, places_TM), dim=1)
    twice_MM = torch.cat((weight_MM, weight_MM), dim=0)
    return [
        Measurement(
            Text("|W(e + p) − (We + Wp)|", "|W(e+p) − (We+Wp)|"),
            apart(projected_TM, embedded_TM @ weight_MM + places_TM @ weight_MM),
            at_most(1e-12),
        ),
        Measurement(
            Text("|W(e + p) − [W W][e; p]|", "|W(e+p) − [W W][e; p]|"),
            apart(projected_TM, beside_TM @ twice_MM),
            at_most(1e-12),
        ),
    ]


def _directions(places_TM: Tensor) -> Measurement:
    energy_M = torch.linalg.svdvals(places_TM).square()
    return Measurement(
        Text(
            "directions that hold 99 % of 512 positions, of 512",
            "容纳 512 个位置 99% 能量的方向数（共 512 维）",
        ),
        int((energy_M.cumsum(0) < 0.99 * energy_M.sum()).sum()) + 1,
        between(90, 130),
    )


def _read_back(tokens_VM: Tensor, words_T: Tensor, places_TM: Tensor) -> list[Measurement]:
    sum_TM = tokens_VM[words_T] + places_TM
    words_right = (sum_TM @ tokens_VM.T).argmax(1) == words_T
    places_off = ((sum_TM @ places_TM.T).argmax(1) - torch.arange(POSITIONS)).abs()
    return [
        Measurement(
            Text(
                "words read back from the sum, of 10,000 random ones",
                "从和中读回词的正确率（一万个随机词）",
            ),
            float(words_right.double().mean()),
            at_least(0.999),
        ),
        Measurement(
            Text("error of the position read back, in places", "读回位置的平均误差（个位置）"),
            float(places_off.double().mean()),
            at_most(0.3),
        ),
    ]
