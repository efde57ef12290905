"""Experiments 23 and 24: the notes' way to split heads, and their attention code."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.errors import ConfigError
from seq2see.lab.old.attention.steps import HEADS, WIDTH, attended, heads_of, sentence
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import grids
from seq2see.model import NO_MASK, AttentionMask, DotProductAttention, ModelConfig
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T queries, S keys, D features of a head, M features of the model


@experiment(
    number=23,
    title=Text("Heads stacked on the first axis", "把多头堆叠在第 0 维"),
    notes="S3",
    claim=Text(
        "Q, K and V each pass a layer with ReLU; then they are cut into num_heads pieces on the "
        'last axis, which are stacked on axis 0. "num_heads must be divisible by matENC."',
        "Q、K、V 各经过一个带 ReLU 的单层网络；然后在最后一维切成 num_heads 段，并在 axis=0 "
        "上拼接。"
        "“num_heads 必须可以被 matENC 整除”。",
    ),
    prediction=Text(
        "Stacking equals our reshape and transpose to the last bit. ReLU is not in the paper: with "
        "it no score can be negative. And it is d_model that heads must divide.",
        "堆叠与我们的 reshape 加转置逐位相同。论文中没有 ReLU：加上它，分数就不可能为负。"
        "应当是 num_heads 整除 d_model。",
    ),
)
def stacked_heads(bench: Bench) -> Finding:
    """Split both ways; then look at scores with ReLU on the projections and without."""
    heads = heads_of(bench)
    x_BTM = torch.stack([sentence(bench, 7, seed) for seed in (1, 2, 3)])
    ours_BHTD = heads.split_heads(x_BTM)
    stacked = torch.cat(x_BTM.split(WIDTH // HEADS, dim=-1), dim=0)  # [H·B, T, D]
    stacked_BHTD = stacked.unflatten(0, (HEADS, -1)).transpose(0, 1)
    record = attended(heads, sentence(bench, 40))
    with_relu = heads.attention.compute_scores(record.queries_BHTD.relu(), record.keys_BHSD.relu())
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "The stacking holds: it is the same split, heads before sentences. The ReLU does not "
            "belong there: scores could then only be 0 or more, so that no query could turn away "
            "from a key. And the divisibility is the other way round: heads must divide d_model.",
            "堆叠是对的：只是把头放在句子之前的同一种切分。ReLU 则不应有：分数只能大于等于 0，"
            "查询无法排斥任何键。整除关系也写反了：应是 num_heads 整除 d_model。",
        ),
        (
            Measurement(
                Text("largest difference of the two splits", "两种切分的最大差"),
                float((ours_BHTD - stacked_BHTD).abs().max()),
                equal(0),
            ),
            Measurement(
                Text("negative scores, linear projections", "负分数的比例，线性投影"),
                float((record.scores_BHTS < 0).double().mean()),
                near(0.5, 0.05),
            ),
            Measurement(
                Text("negative scores, with ReLU", "负分数的比例，带 ReLU"),
                float((with_relu < 0).double().mean()),
                equal(0),
            ),
            Measurement(
                Text("512 features in 7 heads are refused", "512 维分成 7 个头被拒绝"),
                _refused(7),
                equal(1),
            ),
            Measurement(
                Text("512 features in 8 heads are refused", "512 维分成 8 个头被拒绝"),
                _refused(8),
                equal(0),
            ),
        ),
    )


def _refused(heads: int) -> bool:
    try:
        ModelConfig(vocab_size=1, d_model=WIDTH, heads=heads)
    except ConfigError:
        return True
    return False


@experiment(
    number=24,
    title=Text("The notes' attention code", "笔记中的注意力代码"),
    notes="S3",
    claim=Text(
        "S3's function: scores, divided by √d_k, plus mask × −1e9, softmax, times v. A comment "
        'beside the division says: "pushes softmax into regions of very small gradient".',
        "S3 的函数：打分、除以 √d_k、加上 mask × −1e9、softmax、乘以 v。除法旁的注释写着："
        "“将 Softmax 函数推入梯度极小的区域”。",
    ),
    prediction=Text(
        "Equal to ours where each query may see a key. The comment is the wrong way round: the "
        "division keeps softmax away from there.",
        "只要每个查询至少能看到一个键，就与我们的实现相同。注释说反了：除法使 softmax 远离该区域。",
    ),
)
def attention_code(bench: Bench) -> Finding:
    """Run the function as written, anew in torch, and ours; then compare gradients."""
    generator = bench.generator(1)
    q, k, v = (torch.randn(4, 2, 9, 64, dtype=torch.float64, generator=generator) for _ in range(3))
    hidden = torch.arange(9) >= 6  # three keys are padding
    ours = DotProductAttention(64**-0.5, Dropout(0.0))
    plain, masked = ours(q, k, v), ours(q, k, v, AttentionMask(hidden[None, None, None]))
    ratio = _median_gradient(64**-0.5, bench) / _median_gradient(1.0, bench)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "The code is right if each query may see at least one key and its mask says 1 where a "
            "key is hidden. The comment beside it is wrong: dividing keeps the gradient at the "
            "scores alive.",
            "只要每个查询至少能看到一个键，且掩码以 1 表示隐藏，代码就是正确的。"
            "旁边的注释是错的：除以 √d_k 正是为了保住分数处的梯度。",
        ),
        (
            Measurement(
                Text("largest difference, no mask", "最大差，无掩码"),
                float((plain - as_written(q, k, v, None)).abs().max()),
                at_most(1e-14),
            ),
            Measurement(
                Text("largest difference, padding hidden", "最大差，隐藏填充"),
                float((masked - as_written(q, k, v, hidden.double())).abs().max()),
                at_most(1e-14),
            ),
            Measurement(
                Text(
                    "median gradient at the scores, divided over not, d_k = 512",
                    "分数梯度的中位数，除与不除之比，d_k = 512",
                ),
                ratio,
                at_least(10),
            ),
        ),
        (_weights_as_written(q[0, 0], k[0, 0], hidden.double()),),
    )


def _weights_as_written(q: Tensor, k: Tensor, mask: Tensor) -> Figure:
    each = torch.eye(len(k), dtype=k.dtype)  # values that tell which key they are from
    names = [str(token) for token in range(1, len(k) + 1)]
    return grids(
        Text(
            "What S3's code weighs: rows are queries, columns are keys, the last three padding.",
            "S3 代码给出的权重：行为查询，列为键，末三个是填充。",
        ),
        {
            Text("no mask", "无掩码"): as_written(q, k, each, None).tolist(),
            Text("padding hidden", "隐藏填充"): as_written(q, k, each, mask).tolist(),
        },
        names,
        names,
        size=3.0,
    )


def as_written(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Do what the notes' TensorFlow function does; its mask has 1 where a key is hidden."""
    logits = q @ k.transpose(-2, -1) / k.size(-1) ** 0.5
    if mask is not None:
        logits += mask * -1e9
    weights: Tensor = logits.softmax(dim=-1)
    return weights @ v


def _median_gradient(scale: float, bench: Bench, d: int = 512) -> float:
    generator = bench.generator(2)
    q, k, v = (torch.randn(50, 1, 32, d, generator=generator) for _ in range(3))
    heard: list[Tensor] = []
    q.requires_grad_()
    mixed = DotProductAttention(scale, Dropout(0.0))(
        q, k, v, NO_MASK, lambda record: heard.append(record.scores_BHTS)
    )
    heard[0].retain_grad()
    mixed.backward(torch.randn(mixed.shape, generator=generator))
    assert heard[0].grad is not None
    return float(heard[0].grad.norm(dim=-1).median())
