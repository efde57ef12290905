"""Matrices and curves: masks, softmax, one worked head, all heads, the input of the model."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import ZERO, Bench, Lesson
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.experiment import Figure, Text
from seq2see.lab.old.pictures import sketch
from seq2see.model import (
    CAUSAL_MASK,
    AttentionModuleId,
    DotProductAttention,
    build_padded_key_mask,
    masked_softmax,
)
from seq2see.model.basic_modules import Dropout
from seq2see.text import BOS_ID, EOS_ID

# B batch, H heads, T queries, S keys, D features of a head

PADDED = torch.tensor([[False, False, False, False, True, True]])
DIGITS_SHOWN = [3, 1, 4, 1, 5, 9]


def masks() -> Figure:
    """Draw both masks and their OR; dark is hidden."""
    padding = build_padded_key_mask(PADDED)

    def rows(mask: Tensor | None) -> list[list[float]]:
        assert mask is not None
        return mask.expand(1, 1, 6, 6)[0, 0].float().tolist()

    device = torch.device("cpu")
    return pictures.grids(
        Text(
            "Masks of six queries (rows) over six keys, the last two padding; dark is hidden",
            "六个查询（行）对六个键的掩码，末两个为填充；深色为被遮",
        ),
        {
            Text("padding", "填充"): rows(padding.to_tensor(6, 6, device)),
            Text("causal", "因果"): rows(CAUSAL_MASK.to_tensor(6, 6, device)),
            Text("padding OR causal", "填充 或 因果"): rows(
                (padding | CAUSAL_MASK).to_tensor(6, 6, device)
            ),
        },
        [str(place) for place in range(1, 7)],
        [str(place) for place in range(1, 7)],
        size=2.4,
    )


def softmax_curve() -> Figure:
    """Draw the third weight of [a, a, 2a]."""
    a = torch.linspace(0, 20, 201, dtype=torch.float64)
    scores_TS = torch.stack((a, a, 2 * a), dim=1)
    weights_TS = masked_softmax(scores_TS, None)
    return pictures.curves(
        Text("softmax([a, a, 2a]): the third weight", "softmax([a, a, 2a])：第三个权重"),
        a.tolist(),
        {"y₃": weights_TS[:, 2].tolist()},
        ("a", "y₃"),
    )


def softmax_jacobian() -> Figure:
    """Draw diag(y) − yyᵀ for scores that are close and scores that are far apart."""

    def jacobian(a: float) -> list[list[float]]:
        scores = torch.tensor([a, a, 2 * a], dtype=torch.float64)
        found = torch.autograd.functional.jacobian(lambda x: masked_softmax(x, None), scores)
        assert isinstance(found, Tensor)
        return [[round(value, 3) + 0.0 for value in row] for row in found.tolist()]  # no −0

    return pictures.grids(
        Text(
            "The Jacobian of softmax at [a, a, 2a]: once one weight is 1, nothing moves",
            "softmax 在 [a, a, 2a] 处的雅可比：一个权重到 1 之后，什么都不动了",
        ),
        {"a = 1": jacobian(1), "a = 3": jacobian(3), "a = 10": jacobian(10)},
        ["y₁", "y₂", "y₃"],
        ["x₁", "x₂", "x₃"],
        limits=(-0.25, 0.25),
        colours="RdBu",
        numbers=True,
        size=2.4,
    )


def worked_head() -> Figure:
    """Draw one head over two words, from x to z."""
    generator = torch.Generator().manual_seed(3)
    x_SM = torch.randn(2, 4, generator=generator)
    matrices = torch.randn(3, 4, 3, generator=generator) / 2
    queries, keys, values = (x_SM @ matrix for matrix in matrices)
    attention = DotProductAttention(3**-0.5, Dropout(0.0))
    scores_TS = attention.compute_scores(queries, keys)
    weights_TS = masked_softmax(scores_TS, None)
    return pictures.grids(
        Text(
            "One head over two words, four features in and three inside: x, its q, k and v, the "
            "scores, their softmax, and what each word takes, z",
            "两个词上的一个头，输入四维、头内三维：x，及其 q、k、v，分数，softmax，"
            "以及每个词取到的 z",
        ),
        {
            "X": x_SM.tolist(),
            "Q": queries.tolist(),
            "K": keys.tolist(),
            "V": values.tolist(),
            "QKᵀ/√3": scores_TS.tolist(),
            "softmax": weights_TS.tolist(),
            "Z": attention.weighted_sum(weights_TS, values).tolist(),
        },
        ["Thinking", "Machines"],
        limits=(-2.0, 2.0),
        colours="RdBu",
        numbers=True,
        size=1.7,
    )


def heads(bench: Bench) -> Figure:
    """Draw every head with which a trained decoder looks at the source, reversing digits."""
    model, ear = bench.learn(Lesson()).model, Ear()
    source = [ZERO + digit for digit in DIGITS_SHOWN]
    with torch.no_grad():
        model(torch.tensor([[*source, EOS_ID]]), torch.tensor([[BOS_ID, *source[::-1]]]), ear)
    shown = {
        Text(f"layer {layer + 1}, head {head + 1}", f"第 {layer + 1} 层，头 {head + 1}"): weights_TS
        for layer in range(2)
        for head, weights_TS in enumerate(
            ear.attention[AttentionModuleId("decoder", layer, "cross")].weights_BHTS[0].tolist()
        )
    }
    digits = [str(digit) for digit in DIGITS_SHOWN]
    return pictures.grids(
        Text(
            "A trained model reverses 3 1 4 1 5 9. Rows: the word about to be written; columns: "
            "the source. Layer 1 looks around, layer 2 at the digit that is wanted, with all heads",
            "训练好的模型反转 3 1 4 1 5 9。行：将要写出的词；列：源句。"
            "第 1 层四处看，第 2 层的各个头都看所要的那个数字",
        ),
        shown,
        [*digits[::-1], "</s>"],
        [*digits, "</s>"],
        size=2.0,
    )


def model_input(bench: Bench) -> Figure:
    """Draw embedding, position and their sum for some digits of a trained model."""
    embeddings = bench.learn(Lesson()).model.encoder.embeddings
    ids = torch.tensor([[ZERO + digit for digit in DIGITS_SHOWN]])
    with torch.no_grad():
        tokens_SM = embeddings.tokens(ids)[0] * embeddings.factor
        sum_SM = embeddings(ids)[0]
    caption = Text(
        "What enters the encoder: √d · embedding, plus position. The digit 1 comes twice: its "
        "embedding is the same, the sum is not",
        "进入编码器的向量：√d × 嵌入，加位置编码。数字 1 出现两次：嵌入相同，和不同",
    )
    parts = {
        Text("√d · embedding", "√d × 嵌入"): tokens_SM,
        Text("position", "位置编码"): sum_SM - tokens_SM,
        Text("sum", "和"): sum_SM,
    }
    with sketch(caption, 7.5, 4.6) as made:
        for place, (name, table_SM) in enumerate(parts.items(), 1):
            axes = made.canvas.add_subplot(3, 1, place)
            axes.imshow(table_SM.numpy(), cmap="RdBu", vmin=-3, vmax=3, aspect="auto")
            axes.set_title(made.word(name))
            axes.set_yticks(range(len(DIGITS_SHOWN)), [str(digit) for digit in DIGITS_SHOWN])
            axes.tick_params(length=0)
        axes.set_xlabel(made.word(Text("feature", "特征")))
    return made.figure
