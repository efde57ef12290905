"""Experiments 25 to 27 and 29: how heads are made, what they cost, and how code loses them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from seq2see.lab.old.attention.steps import (
    HEADS,
    WIDTH,
    attended,
    heads_of,
    self_attention,
    sentence,
)
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import NOTED, at_least, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import grids
from seq2see.lab.old.timing import cpu_seconds
from seq2see.model import NO_MASK, BatchLayout, count_parameters
from seq2see.model.attention import SelfAttention

# B batch, H heads, T tokens, D features of a head, M features of the model


@experiment(
    number=25,
    title=Text("Eight sets of Q, K and V", "八组 Q、K、V"),
    notes="S2 S3",
    claim=Text(
        "Multi-head attention is N sets of matrices Q, K, V, each for an attention of its own; the "
        "results are concatenated and multiplied by W^O.",
        "多头注意力是 N 组 Q、K、V 矩阵，各自进行一次自注意力；把各个 Z 拼接后再乘以 W^O。",
    ),
    prediction=Text(
        "Eight separate attentions with slices of our fused matrices give what our fused code "
        "gives. Concatenating and multiplying equals adding up Z_i·W_i^O: heads are added.",
        "用我们合并矩阵的切片分别计算八次注意力，与合并的代码结果一致。"
        "拼接后相乘等于把各个 Z_i·W_i^O 相加：头与头是相加的关系。",
    ),
)
@torch.no_grad()
def sets_of_matrices(bench: Bench) -> Finding:
    """Do each head with matrices of its own, and join them in both ways."""
    heads, x_TM = heads_of(bench), sentence(bench, 5)
    ours, _ = heads(x_TM, BatchLayout(1, 5), NO_MASK)
    outputs = [_one_head(heads, x_TM, head) for head in range(HEADS)]
    joined = torch.cat(outputs, dim=-1) @ heads.output.weight.T + heads.output.bias
    slices = heads.output.weight.T.chunk(HEADS)
    added = sum((z @ w for z, w in zip(outputs, slices, strict=True)), heads.output.bias)
    return Finding(
        Verdict.HOLDS,
        Text(
            "One product with stacked matrices is eight products with single ones. W^O makes the "
            "concatenation a sum: each head writes into all features, and a head can be switched "
            "off by leaving its term out.",
            "与堆叠矩阵的一次乘法就是与各单独矩阵的八次乘法。W^O 使拼接成为求和："
            "每个头都写入所有特征，去掉其中一项即可关掉一个头。",
        ),
        (
            Measurement(
                Text("largest difference, eight attentions to ours", "八次单独计算与我们的最大差"),
                float((joined - ours).abs().max()),
                at_most(1e-13),
            ),
            Measurement(
                Text("largest difference, sum of the heads to ours", "各头之和与我们的最大差"),
                float((added - ours).abs().max()),
                at_most(1e-13),
            ),
            Measurement(
                Text("features of a head's output", "每个头输出的维数"),
                outputs[0].size(-1),
                equal(64),
            ),
        ),
    )


def _one_head(heads: SelfAttention, x_TM: Tensor, head: int) -> Tensor:
    """Attend with the matrices of one head alone."""
    d = WIDTH // HEADS
    matrices = (w[head * d : (head + 1) * d] for w in heads.qkv.weight.chunk(3))
    q, k, v = ((x_TM @ matrix.T)[None, None] for matrix in matrices)
    output: Tensor = heads.attention(q, k, v)[0, 0]
    return output


@experiment(
    number=26,
    title=Text("Parameters do not depend on the heads", "参数量与头数无关"),
    notes="S2",
    claim=Text(
        "Multi-head attention has 4·d_model² parameters, whatever the number of heads.",
        "多头注意力的参数数量为 4·d_model²，与 head 数量无关。",
    ),
    prediction=Text(
        "1,048,576 at d_model = 512, and 1,050,624 with biases, for 1 to 512 heads.",
        "d_model = 512 时为 1,048,576，含偏置为 1,050,624，头数从 1 到 512 皆然。",
    ),
)
def parameters(bench: Bench) -> Finding:
    """Count the parameters of attentions with 1 to 512 heads."""
    del bench
    numbers = [2**power for power in range(10)]
    without = {count_parameters(self_attention(n, bias=False)) for n in numbers}
    with_bias = {count_parameters(self_attention(n)) for n in numbers}
    return Finding(
        Verdict.HOLDS,
        Text(
            "More heads are narrower heads: h matrices of d × d/h are one of d × d. The biases add "
            "4·d_model.",
            "头越多，每个头越窄：h 个 d × d/h 的矩阵合起来就是一个 d × d 的矩阵。偏置另加 "
            "4·d_model。",
        ),
        (
            Measurement(
                Text("parameters without biases", "参数量，不含偏置"),
                min(without),
                equal(1_048_576),
            ),
            Measurement(
                Text("different counts over 1 to 512 heads", "1 到 512 个头得到的不同参数量个数"),
                len(without),
                equal(1),
            ),
            Measurement(
                Text("parameters with biases", "参数量，含偏置"), min(with_bias), equal(1_050_624)
            ),
            Measurement(Text("… different counts", "……不同参数量个数"), len(with_bias), equal(1)),
        ),
    )


@experiment(
    number=27,
    title=Text("Heads cost nothing, wide heads do", "分头不增加计算，全宽的头则会"),
    notes="S1 S3",
    claim=Text(
        "Splitting d features into h heads leaves the cost at O(n²d); heads as wide as the model "
        "would cost far more.",
        "把 d 维分成 h 个头，复杂度仍为 O(n²d)；若每个头都用全部维度，计算量将大得多。",
    ),
    prediction=Text(
        "The same floating-point operations for 1 and 8 heads, and 8 times as many for 8 heads of "
        "full width. In time 8 heads cost a little more than 1: there are 8 times as many weights "
        "to exponentiate.",
        "1 个头与 8 个头的浮点运算数相同，8 个全宽的头为 8 倍。就时间而言，8 个头略多于 1 个头："
        "需要取指数的权重是 8 倍。",
    ),
)
@torch.no_grad()
def cost_of_heads(bench: Bench) -> Finding:
    """Count and time attention with one head, with eight, and with eight of full width."""
    length = 512 if bench.full else 256
    q = torch.randn(1, 1, length, WIDTH, generator=bench.generator(1))
    one, eight, wide = q, _split(q), q.expand(1, HEADS, -1, -1)
    works = {"one": _attends(one), "eight": _attends(eight), "wide": _attends(wide)}
    flops = {name: _flops(work) for name, work in works.items()}
    times = {name: cpu_seconds(work) for name, work in works.items()}
    slower = times["eight"] / times["one"]
    return Finding(
        Verdict.HOLDS,
        Text(
            "Scores and mixing take 4·n²·d operations whatever the number of heads; eight heads of "
            "full width take eight times as many. Counting products alone hides the softmax, which "
            f"has n²·h exponentials: on this machine 8 heads took {slower:.2g} times as long as 1.",
            "无论多少个头，打分与加权都需要 4·n²·d 次运算；8 个全宽的头则为 8 倍。"
            "只数乘法会忽略 softmax 的 n²·h 次指数运算：在这台机器上，"
            f"8 个头的用时是 1 个头的 {slower:.2g} 倍。",
        ),
        (
            Measurement(
                Text("operations of 1 head over 4·n²·d", "1 个头的运算数与 4·n²·d 之比"),
                flops["one"] / (4 * length**2 * WIDTH),
                equal(1),
            ),
            Measurement(
                Text("operations, 8 heads over 1", "运算数，8 个头与 1 个头之比"),
                flops["eight"] / flops["one"],
                equal(1),
            ),
            Measurement(
                Text("operations, 8 heads of full width over 1", "运算数，8 个全宽头与 1 个头之比"),
                flops["wide"] / flops["one"],
                equal(8),
            ),
            Measurement(Text("time, 8 heads over 1", "时间，8 个头与 1 个头之比"), slower, NOTED),
            Measurement(
                Text("time, 8 heads of full width over 1", "时间，8 个全宽头与 1 个头之比"),
                times["wide"] / times["one"],
                NOTED,
            ),
        ),
    )


def _split(x: Tensor) -> Tensor:
    return self_attention(HEADS).split_heads(x[:, 0])


def _attends(x_BHTD: Tensor) -> Callable[[], Tensor]:
    """Return what attends in the plain form, in which every product can be counted.

    The part is made beforehand: to draw the weights around it would take longer than to attend.
    """
    attention = self_attention(1, x_BHTD.size(-1)).attention

    def work() -> Tensor:
        output: Tensor = attention(x_BHTD, x_BHTD, x_BHTD, NO_MASK, lambda _: None)
        return output

    return work


def _flops(work: Callable[[], Tensor]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


@experiment(
    number=29,
    title=Text("A transpose lost to a misspelt name", "拼错变量名而丢失的转置"),
    notes="S3",
    claim=Text(
        "S3's multi-head code transposes the heads back before it reshapes them: but it stores the "
        "result as `racaled_attention` and reshapes `scaled_attention`.",
        "S3 的多头代码在 reshape 之前把头转置回来；但结果存入了 `racaled_attention`，"
        "随后 reshape 的却是 `scaled_attention`。",
    ),
    prediction=Text(
        "The shape is right and so are the numbers, but not their places: tokens and heads are "
        "mixed up. With a single token nothing shows.",
        "形状正确，数值也都在，但位置错了：token 与头被混在一起。只有一个 token 时看不出问题。",
    ),
)
def lost_transpose(bench: Bench) -> Finding:
    """Join heads as written and as meant; then try three tests on both."""
    record = attended(heads_of(bench), sentence(bench, 6))
    mixed_BHTD = record.weights_BHTS @ record.values_BHSD
    meant, written = joined(mixed_BHTD), joined_as_written(mixed_BHTD)
    moved = (written != meant).double().mean()
    single = mixed_BHTD[:, :, :1]
    return Finding(
        Verdict.FALSE,
        Text(
            "As written, each output token is made of pieces of other tokens. Shapes, sums and a "
            "test with one token pass. A test with two tokens catches it: change one token's "
            "vector and see which rows of the output move.",
            "照原样运行，每个输出 token 都由其他 token 的片段拼成。检查形状、检查总和、"
            "只用一个 token 的测试都能通过。用两个以上的 token 就能发现：改变一个 token，"
            "看输出的哪些行发生变化。",
        ),
        (
            Measurement(
                Text("the shapes are equal", "形状相同"), meant.shape == written.shape, equal(1)
            ),
            Measurement(
                Text("difference of the sorted numbers", "排序后数值的差"),
                float((meant.flatten().sort()[0] - written.flatten().sort()[0]).abs().max()),
                equal(0),
            ),
            Measurement(
                Text("share of the numbers in a wrong place", "位置错误的数值比例"),
                float(moved),
                near(0.9, 0.1),
            ),
            Measurement(
                Text("difference with a single token", "只有一个 token 时的差"),
                float((joined(single) - joined_as_written(single)).abs().max()),
                equal(0),
            ),
            Measurement(
                Text("rows moved by one token, ours", "改变一个 token 后变化的行数，我们的"),
                _rows_moved(joined, mixed_BHTD),
                equal(1),
            ),
            Measurement(
                Text(
                    "rows moved by one token, as written", "改变一个 token 后变化的行数，照原代码"
                ),
                _rows_moved(joined_as_written, mixed_BHTD),
                at_least(2),
            ),
        ),
        (_origins(),),
    )


def joined(mixed_BHTD: Tensor) -> Tensor:
    """Put heads side by side, as our model does."""
    return mixed_BHTD.transpose(1, 2).flatten(2)


def joined_as_written(mixed_BHTD: Tensor) -> Tensor:
    """Do what the notes' code does: the transposed tensor gets a name that nobody reads."""
    batch, heads, tokens, d = mixed_BHTD.shape
    return mixed_BHTD.reshape(batch, tokens, heads * d)


def _rows_moved(join: Callable[[Tensor], Tensor], mixed_BHTD: Tensor) -> int:
    """Return how many output tokens move when one token's vectors change in every head."""
    other = mixed_BHTD.clone()
    other[:, :, 2] += 1.0
    return int((join(other) != join(mixed_BHTD)).any(dim=-1).sum())


def _origins() -> Figure:
    """Draw which token each number of the output comes from: four tokens, four heads."""
    tokens = torch.arange(4.0)[None, None, :, None].expand(1, 4, 4, 2)
    numbers = [str(token + 1) for token in range(4)]
    return grids(
        Text(
            "Which token each feature of the output comes from, for four tokens and four heads of "
            "two features: a row should have one colour.",
            "输出的每个特征来自哪个 token（四个 token，四个头，每头两维）：一行应当只有一种颜色。",
        ),
        {
            Text("as meant", "应有的"): joined(tokens)[0].tolist(),
            Text("as written", "照原代码"): joined_as_written(tokens)[0].tolist(),
        },
        [Text(f"token {n}", f"token {n}") for n in numbers],
        limits=(0, 3),
        colours="viridis",
        size=2.6,
    )
