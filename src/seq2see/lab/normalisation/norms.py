"""Item 40: BatchNorm and LayerNorm, over what each of them goes, and a run without any."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2see.lab import pictures
from seq2see.lab.bench import DIGITS, Bench, Lesson
from seq2see.lab.closeness import apart, differing
from seq2see.lab.experiment import (
    Finding,
    Measurement,
    Text,
    Verdict,
    at_least,
    at_most,
    equal,
    experiment,
)
from seq2see.model import Transformer
from seq2see.model.layers import BatchNorm

# B batch, S tokens of a sentence, N tokens in a row, M features

FEATURES = 16
SHORT = [9, 10, 11, 3]
NEIGHBOUR = [4, 5, 6, 7, 8, 9, 10, 3]


@experiment(
    40,
    Text("BatchNorm and LayerNorm", "BatchNorm 与 LayerNorm"),
    "S1 S3",
    Text(
        "BN takes mean and variance of each layer over a batch, LN those of each sample; padding "
        "spoils BN. LN whitens, the result is x̂ · beta + gamma, and without it nothing converges.",
        "BN 为每个小 batch 计算每一层的均值和方差，LN 计算每一个样本的均值和方差；填充会损害 BN。"
        "LN 起白化作用，结果是 x̂ × beta + gamma，删除则无法收敛。",
    ),
    Text(
        "BN: one mean for each feature. LN: one for each token, so batch and sentence do not "
        "matter. Neither whitens: features stay correlated. γ multiplies and β is added: swapped, "
        "they start as a constant. A small model learns even without a norm, only worse.",
        "BN 对每个特征一个均值；LN 对每个词一个均值，与批和句子无关。"
        "两者都不做白化：特征之间仍相关。"
        "γ 相乘、β 相加：若对调，初始时输出恒为常数。小模型没有归一化也能学，只是更差。",
    ),
    trains=True,
)
def batch_or_layer(bench: Bench) -> Finding:
    """Normalise tokens both ways, change their neighbours, and train with each norm and none."""
    x_NM = _correlated(bench)
    layer, batch = nn.LayerNorm(FEATURES), BatchNorm(FEATURES).train()
    layered_NM, batched_NM = layer(x_NM).detach(), batch(x_NM).detach()
    lesson = Lesson(updates=200)
    losses = {
        kind: [each.nll for each in bench.learn_all(lesson.with_model(norm={"kind": kind}))]
        for kind in ("layer", "batch", "none")
    }
    names = {
        "layer": Text("LayerNorm", "LayerNorm"),
        "batch": Text("BatchNorm, padding left out", "BatchNorm（不含填充）"),
        "none": Text("no norm", "无归一化"),
    }
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "four words are mended: BN is per feature, LN per token, neither whitens, and γ "
            "multiplies. LN's independence of batch and length is real. That nothing converges "
            "without it is not so for a model this small (item 38 shows where it is), and with "
            "padding left out BatchNorm learns this task no worse: a result about digits.",
            "改正四处才成立：BN 按特征，LN 按词，都不是白化，γ 才是相乘的。"
            "LN 与批和长度无关是真的。"
            "“删除则无法收敛”对这么小的模型并不成立（何时成立见第 38 项）；"
            "而排除填充之后，BatchNorm 在这个数字任务上也并不更差。",
        ),
        (
            Measurement(
                Text("LN: largest |mean of a token|", "LN：各词均值的最大绝对值"),
                float(layered_NM.mean(dim=1).abs().max()),
                at_most(1e-5),
            ),
            Measurement(
                Text("BN: largest |mean of a feature|", "BN：各特征均值的最大绝对值"),
                float(batched_NM.mean(dim=0).abs().max()),
                at_most(1e-5),
            ),
            Measurement(
                Text(
                    "LN per token, not per sample: means of two tokens of a sentence differ by",
                    "LN 按词而非按样本：同一句两个词的均值相差",
                ),
                apart(x_NM[0].mean(), x_NM[1].mean()),
                at_least(0.01),
            ),
            Measurement(
                Text("LN: numbers of a token changed by other tokens", "LN：其他词改变的数"),
                differing(layer(x_NM)[:1], layer(torch.cat((x_NM[:1], 9 * x_NM[1:])))[:1]),
                equal(0),
            ),
            Measurement(
                Text(
                    "BN in training: change of a token by others", "BN（训练时）：其他词引起的变化"
                ),
                apart(batch(x_NM)[:1], batch(torch.cat((x_NM[:1], 9 * x_NM[1:])))[:1]),
                at_least(0.1),
            ),
            Measurement(
                Text(
                    "textbook BN: change of real tokens by 50 % padding",
                    "课本式 BN：一半填充引起的真实词的变化",
                ),
                apart(batch(torch.cat((x_NM, 0 * x_NM)))[: len(x_NM)], batched_NM),
                at_least(0.1),
            ),
            Measurement(
                Text(
                    "our BN in the model: change of a sentence by its padding",
                    "我们模型中的 BN：填充引起的句子的变化",
                ),
                _change_by_padding(),
                at_most(1e-5),
            ),
            Measurement(
                Text(
                    "correlation left between two features behind LN (whitening: 0)",
                    "LN 之后两个特征的相关系数（白化应为 0）",
                ),
                float(torch.corrcoef(layered_NM.T)[0, 1]),
                at_least(0.3),
            ),
            Measurement(
                Text(
                    "x̂ · β + γ as LN starts: spread of the output",
                    "按 x̂·β + γ 初始化：输出的标准差",
                ),
                float((layered_NM * layer.bias + layer.weight).detach().std()),
                equal(0.0),
            ),
            Measurement.mean(
                Text("held-out loss, LayerNorm", "留出集损失，LayerNorm"),
                losses["layer"],
                at_most(1.0),
            ),
            Measurement.mean(
                Text("held-out loss, BatchNorm", "留出集损失，BatchNorm"), losses["batch"]
            ),
            Measurement.mean(
                Text(
                    "held-out loss, no norm (a guess: 2.40)", "留出集损失，无归一化（瞎猜：2.40）"
                ),
                losses["none"],
                at_most(2.2),
            ),
        ),
        (
            pictures.bars(
                Text(
                    "Held-out loss behind 200 updates, mean and standard deviation of the seeds",
                    "200 次更新后的留出集损失，各种子的均值与标准差",
                ),
                {name: sum(losses[kind]) / len(losses[kind]) for kind, name in names.items()},
                Text("loss", "损失"),
                [float(torch.tensor(losses[kind]).std()) for kind in names],
            ),
        ),
    )


def _correlated(bench: Bench) -> Tensor:
    """Return tokens whose first two features go together."""
    x_NM = torch.randn(400, FEATURES, generator=bench.generator())
    x_NM[:, 1] = x_NM[:, 0] + 0.3 * x_NM[:, 1]
    return x_NM


@torch.no_grad()
def _change_by_padding() -> float:
    """Encode a sentence beside another in training, with little padding and with much."""
    torch.manual_seed(1)
    model = Transformer.from_config(DIGITS.replace(norm={"kind": "batch"})).train()
    little = torch.tensor([[*SHORT, 0, 0, 0, 0], NEIGHBOUR])
    much = torch.nn.functional.pad(little, (0, 8))
    before, after = (model.encode(ids).states_BSM[0, :4] for ids in (little, much))
    return apart(before, after)
