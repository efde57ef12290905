"""Item 41: where dropout stands."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from seq2see.lab.old.bench import DIGITS, Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, equal, near
from seq2see.lab.old.experiment import Finding, Measurement, Text, Verdict, experiment
from seq2see.model import DropoutConfig, Transformer
from seq2see.model.basic_modules import Dropout, PostNormResidual

SOURCE = torch.tensor([[4, 5, 6, 7, 8]])
PLACES = {
    "embedding": Text("the sum of embedding and position", "词嵌入与位置编码之和"),
    "residual": Text("each sublayer's output, before it is added", "每个子层的输出，相加之前"),
    "attention": Text("the attention weights", "注意力权重"),
    "activation": Text("behind the feed-forward network's ReLU", "前馈网络的 ReLU 之后"),
}


@experiment(
    41,
    Text("The places of dropout", "dropout 在哪里"),
    "S1",
    Text(
        "Dropout stands in four places: on the sum of embedding and position, on each sublayer's "
        "output before the norm, on the attention weights, behind the ReLU.",
        "dropout 有四处：词嵌入和位置编码求和后；每一个子层输出后、做 LN 之前；"
        "注意力权重后；前馈网络的 ReLU 后。",
    ),
    Text(
        "Each of the four acts by itself in our model. The paper (5.4) names the first two only; "
        "Tensor2Tensor's code had the others, and in ours they are off by default.",
        "四处在我们的模型里各自起作用。但论文（5.4 节）只写了前两处；"
        "后两处来自 Tensor2Tensor 的代码，我们默认关闭。",
    ),
)
def places(bench: Bench) -> Finding:
    """Switch each place on alone, and see what it leaves alone."""
    paper = DropoutConfig()
    rates = [paper.embedding, paper.residual, paper.attention, paper.activation]
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "the authors' code is meant. The paper names two places. On a sublayer's output it is "
            "that output alone that is thinned out, never the x beside it.",
            "指的是作者的代码时成立；论文只写了两处。"
            "子层输出处丢弃的只是该输出，而不是与之相加的 x。",
        ),
        (
            *_alone(),
            Measurement(
                Text(
                    "places that the paper names, and our defaults use",
                    "论文所列、我们默认启用的处数",
                ),
                sum(rate > 0 for rate in rates),
                equal(2),
            ),
            Measurement(
                Text("share kept at the rate 0.1", "丢弃率 0.1 时保留的比例"),
                _share_kept(0.1),
                near(0.9, 0.005),
            ),
            Measurement(
                Text(
                    "x + dropout(f(x)) at rates near 1: distance to x",
                    "丢弃率接近 1 时 x + dropout(f(x)) 与 x 的距离",
                ),
                _distance_to_x(bench),
                equal(0.0),
            ),
        ),
    )


def _alone() -> Iterator[Measurement]:
    """Yield how far two passes in training differ if dropout is on in one place alone."""
    for name, where in PLACES.items():
        rates = {place: 0.5 if place == name else 0.0 for place in PLACES}
        torch.manual_seed(1)
        model = Transformer.from_config(DIGITS.replace(dropout=rates)).train()
        once, again = (model.encode(SOURCE).states_BSM for _ in range(2))
        yield Measurement(
            Text(
                f"two passes differ, dropout only on: {where.en}",
                f"两次前向之差，只在此处丢弃：{where.zh}",
            ),
            apart(once, again),
            at_least(0.01),
        )


def _share_kept(rate: float) -> float:
    torch.manual_seed(1)
    return float((Dropout(rate).train()(torch.ones(200_000)) > 0).double().mean())


def _distance_to_x(bench: Bench) -> float:
    """Drop a sublayer's output whole; what is left of the sum must be x itself."""
    x_NM = torch.randn(50, 8, generator=bench.generator())
    residual = PostNormResidual(torch.nn.Identity(), Dropout(1 - 1e-9)).train()

    def sublayer(x: Tensor) -> Tensor:
        return 100 * x

    return apart(residual(x_NM, sublayer), x_NM)
