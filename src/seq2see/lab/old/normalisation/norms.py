"""Item 40: BatchNorm and LayerNorm, over what each of them goes, and a run without any."""

from __future__ import annotations

from statistics import fmean, stdev

import torch
from torch import Tensor, nn

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import DIGITS, Bench, Lesson
from seq2see.lab.old.closeness import apart, differing
from seq2see.lab.old.expectation import at_least, at_most, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import Transformer
from seq2see.model.basic_modules import BatchNorm

# B batch, S tokens of a sentence, N tokens in a row, M features

FEATURES = 16
SHORT = [9, 10, 11, 3]
NEIGHBOUR = [4, 5, 6, 7, 8, 9, 10, 3]
NAMES = {
    "layer": Text("LayerNorm", "LayerNorm"),
    "batch": Text("BatchNorm, padding left out", "BatchNorm（不含填充）"),
    "none": Text("no norm", "无归一化"),
}


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
    lesson = Lesson(updates=200)
    losses = {kind: bench.losses(lesson.with_model(norm={"kind": kind})) for kind in NAMES}
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
        (*_means(x_NM), *_neighbours(x_NM), *_padding(x_NM), *_whitening(x_NM), *_learned(losses)),
        (_bars(losses),),
    )


def _correlated(bench: Bench) -> Tensor:
    """Return tokens whose first two features go together."""
    x_NM = torch.randn(400, FEATURES, generator=bench.generator())
    x_NM[:, 1] = x_NM[:, 0] + 0.3 * x_NM[:, 1]
    return x_NM


@torch.no_grad()
def _layer(x_NM: Tensor) -> Tensor:
    normalised_NM: Tensor = nn.LayerNorm(FEATURES)(x_NM)
    return normalised_NM


@torch.no_grad()
def _batch(x_NM: Tensor) -> Tensor:
    """Normalise as in training, by the statistics of these tokens."""
    normalised_NM: Tensor = BatchNorm(FEATURES).train()(x_NM)
    return normalised_NM


def _means(x_NM: Tensor) -> list[Measurement]:
    return [
        Measurement(
            Text("LN: largest |mean of a token|", "LN：各词均值的最大绝对值"),
            float(_layer(x_NM).mean(dim=1).abs().max()),
            at_most(1e-5),
        ),
        Measurement(
            Text("BN: largest |mean of a feature|", "BN：各特征均值的最大绝对值"),
            float(_batch(x_NM).mean(dim=0).abs().max()),
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
    ]


def _neighbours(x_NM: Tensor) -> list[Measurement]:
    among_others_NM = torch.cat((x_NM[:1], 9 * x_NM[1:]))
    return [
        Measurement(
            Text("LN: numbers of a token changed by other tokens", "LN：其他词改变的数"),
            differing(_layer(x_NM)[:1], _layer(among_others_NM)[:1]),
            equal(0),
        ),
        Measurement(
            Text("BN in training: change of a token by others", "BN（训练时）：其他词引起的变化"),
            apart(_batch(x_NM)[:1], _batch(among_others_NM)[:1]),
            at_least(0.1),
        ),
    ]


def _padding(x_NM: Tensor) -> list[Measurement]:
    padded_NM = torch.cat((x_NM, torch.zeros_like(x_NM)))
    return [
        Measurement(
            Text(
                "textbook BN: change of real tokens by 50 % padding",
                "课本式 BN：一半填充引起的真实词的变化",
            ),
            apart(_batch(padded_NM)[: len(x_NM)], _batch(x_NM)),
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
    ]


@torch.no_grad()
def _change_by_padding() -> float:
    """Encode a sentence beside another in training, with little padding and with much."""
    torch.manual_seed(1)
    model = Transformer.from_config(DIGITS.replace(norm={"kind": "batch"})).train()
    little = torch.tensor([[*SHORT, 0, 0, 0, 0], NEIGHBOUR])
    much = torch.nn.functional.pad(little, (0, 8))
    before, after = (model.encode(ids).states_BSM[0, :4] for ids in (little, much))
    return apart(before, after)


@torch.no_grad()
def _whitening(x_NM: Tensor) -> list[Measurement]:
    norm = nn.LayerNorm(FEATURES)
    normalised_NM = norm(x_NM)
    return [
        Measurement(
            Text(
                "correlation left between two features behind LN (whitening: 0)",
                "LN 之后两个特征的相关系数（白化应为 0）",
            ),
            float(torch.corrcoef(normalised_NM.T)[0, 1]),
            at_least(0.3),
        ),
        Measurement(
            Text("x̂ · β + γ as LN starts: spread of the output", "按 x̂·β + γ 初始化：输出的标准差"),
            float((normalised_NM * norm.bias + norm.weight).std()),
            equal(0.0),
        ),
    ]


def _learned(losses: dict[str, list[float]]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text("held-out loss, LayerNorm", "留出集损失，LayerNorm"), losses["layer"], at_most(1.0)
        ),
        Measurement.mean(
            Text("held-out loss, BatchNorm", "留出集损失，BatchNorm"),
            losses["batch"],
            at_most(1.25 * fmean(losses["layer"])),
        ),
        Measurement.mean(
            Text("held-out loss, no norm (a guess: 2.40)", "留出集损失，无归一化（瞎猜：2.40）"),
            losses["none"],
            at_most(1.2),
        ),
    ]


def _bars(losses: dict[str, list[float]]) -> Figure:
    return pictures.bars(
        Text(
            "Held-out loss behind 200 updates, mean and standard deviation of the seeds",
            "200 次更新后的留出集损失，各种子的均值与标准差",
        ),
        {NAMES[kind]: fmean(found) for kind, found in losses.items()},
        Text("loss", "损失"),
        [stdev(found) for found in losses.values()],
    )
