"""Items 31 and 32: the sinusoid, and its other form."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import DIGITS, Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import sketch
from seq2see.model import ModelBuilder, compute_sinusoids, count_parameters

# T positions, M features of the model

WIDE = 512


@experiment(
    31,
    Text("The sinusoid", "正弦位置编码"),
    "S2 S3",
    Text(
        "The position vector follows a pattern that the model learns, with values in [−1, 1]; "
        "even positions use the sine and odd positions the cosine.",
        "位置向量服从模型学习的特定模式，值域为 [−1, 1]；偶数位置用 sine，奇数位置用 cosine。",
    ),
    Text(
        "The range is right. Nothing is learned: the part has no parameters. Sine and cosine take "
        "turns over the dimensions, so every position has both.",
        "值域正确。但没有任何东西是学出来的：该部件没有参数。"
        "正弦与余弦是沿维度交替的，每个位置两者都有。",
    ),
)
def waves(_: Bench) -> Finding:
    """Look at the values and count the parameters."""
    table_TM = compute_sinusoids(torch.arange(20), WIDE)
    odd_position_M = table_TM[1]
    far_TM = compute_sinusoids(torch.arange(10_000), WIDE)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "even and odd are said of dimensions, not of positions. The pattern is computed, not "
            "learned (learned tables are another choice, item 34).",
            "“偶数、奇数”指的是维度而不是位置。模式是算出来的，不是学出来的"
            "（可学习的见第 34 项）。",
        ),
        (
            Measurement(
                Text("largest |value| of 10,000 positions", "一万个位置的最大绝对值"),
                float(far_TM.abs().max()),
                at_most(1.0),
            ),
            Measurement(
                Text("parameters of the part", "该部件的参数个数"),
                count_parameters(ModelBuilder(DIGITS).build_positions()),
                equal(0),
            ),
            Measurement(
                Text("position 1 (odd), dimension 0: sin 1", "位置 1（奇数）的第 0 维：sin 1"),
                float(odd_position_M[0]),
                near(0.8414709848078965, 1e-12),
            ),
            Measurement(
                Text("position 1 (odd), dimension 1: cos 1", "位置 1（奇数）的第 1 维：cos 1"),
                float(odd_position_M[1]),
                near(0.5403023058681398, 1e-12),
            ),
            Measurement(
                Text("length of every vector: √(d/2) = 16", "每个向量的长度：√(d/2) = 16"),
                float(far_TM.norm(dim=1).mean()),
                near(16.0, 1e-9),
            ),
        ),
        (twenty_positions(), four_dimensions()),
    )


def twenty_positions() -> Figure:
    """Draw the famous picture: 20 positions, 512 dimensions."""
    return position_tables(
        Text(
            "20 positions of 512 dimensions, as the paper interleaves them",
            "20 个位置、512 维，按论文的交错方式",
        ),
        {Text("interleaved", "交错"): compute_sinusoids(torch.arange(20), WIDE)},
    )


def halves() -> Figure:
    """Draw the same with the sines in the left half, as Tensor2Tensor has them."""
    return position_tables(
        Text(
            "20 positions of 512 dimensions in Tensor2Tensor's form: sines left, cosines right",
            "20 个位置、512 维，Tensor2Tensor 的形式：左半正弦，右半余弦",
        ),
        {
            Text("halves", "前后两半"): compute_sinusoids(
                torch.arange(20), WIDE, "halves", "tensor2tensor"
            )
        },
    )


def position_tables(caption: Text, tables: dict[Text, Tensor]) -> Figure:
    """Draw tables one below the other, dimensions to the right."""
    with sketch(caption, 7.5, 0.5 + 1.9 * len(tables)) as made:
        for place, (name, table_TM) in enumerate(tables.items(), 1):
            axes = made.canvas.add_subplot(len(tables), 1, place)
            image = axes.imshow(table_TM.numpy(), cmap="RdBu", vmin=-1, vmax=1, aspect="auto")
            axes.set_title(made.word(name))
            axes.set_ylabel(made.word(Text("position", "位置")))
        axes.set_xlabel(made.word(Text("dimension", "维度")))
        made.canvas.colorbar(image, ax=made.canvas.axes, shrink=0.8)
    return made.figure


def four_dimensions() -> Figure:
    """Draw the table of d = 4 with its numbers."""
    table_TM = compute_sinusoids(torch.arange(6), 4)
    return pictures.grids(
        Text("d = 4: the vector of each position is a row", "d = 4：每行是一个位置的向量"),
        {"PE": table_TM.tolist()},
        [str(position) for position in range(6)],
        ["sin pos", "cos pos", "sin pos/100", "cos pos/100"],
        limits=(-1.0, 1.0),
        colours="RdBu",
        numbers=True,
        size=3.4,
    )


@experiment(
    32,
    Text("Tensor2Tensor's sinusoid", "Tensor2Tensor 的正弦编码"),
    "S2",
    Text(
        "Tensor2Tensor concatenates the sines and the cosines where the paper interleaves them: "
        "that is the difference.",
        "Tensor2Tensor 的实现是拼接 sine 和 cosine，论文是交叉使用两种信号：区别就在于此。",
    ),
    Text(
        "With the same layout they still differ: its frequencies end at 1/10000 exactly, the "
        "paper's at 10000^(−510/512).",
        "排列相同后仍不相同：它的最低频率恰为 1/10000，论文的是 10000^(−510/512)。",
    ),
)
def tensor2tensor(_: Bench) -> Finding:
    """Take the layout away and see what is left."""
    positions_T = torch.arange(200)
    interleaved_TM = compute_sinusoids(positions_T, WIDE)
    halves_TM = compute_sinusoids(positions_T, WIDE, "halves")
    theirs_TM = compute_sinusoids(positions_T, WIDE, "halves", "tensor2tensor")
    sorted_TM = torch.cat((interleaved_TM[:, 0::2], interleaved_TM[:, 1::2]), dim=1)
    return Finding(
        Verdict.FALSE,
        Text(
            "the frequencies differ too. A layout is only a renaming of dimensions, which a "
            "trained matrix cannot notice; other frequencies are other numbers.",
            "频率也不同。排列方式只是给维度改名，训练出的矩阵察觉不到；频率不同则数值就不同。",
        ),
        (
            Measurement(
                Text("layouts: difference once sorted alike", "仅排列不同：同样排序后的差"),
                apart(sorted_TM, halves_TM),
                equal(0.0),
            ),
            Measurement(
                Text(
                    "frequencies: largest difference in 200 positions, d = 512",
                    "频率不同：前 200 个位置的最大差（d = 512）",
                ),
                apart(theirs_TM, halves_TM),
                near(0.284, 5e-4),
            ),
            Measurement(
                Text("the same at d = 4, 20 positions", "同上，d = 4、20 个位置"),
                apart(
                    compute_sinusoids(positions_T[:20], 4, "halves", "tensor2tensor"),
                    compute_sinusoids(positions_T[:20], 4, "halves"),
                ),
                at_least(0.1),
            ),
        ),
        (
            position_tables(
                Text(
                    "200 positions: the paper, Tensor2Tensor, and the difference that a layout "
                    "cannot explain",
                    "200 个位置：论文、Tensor2Tensor，以及排列方式无法解释的差",
                ),
                {
                    Text("the paper, halves", "论文的频率，前后两半"): halves_TM,
                    Text("Tensor2Tensor", "Tensor2Tensor"): theirs_TM,
                    Text("difference", "差"): theirs_TM - halves_TM,
                },
            ),
        ),
    )
