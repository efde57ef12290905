"""Experiments 13, 14 and 20: the six steps, the roles of Q, K and V, the graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from seq2see.lab.old.bench import Bench
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import Sketch, grids, sketch
from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionFunctionConfig,
    AttentionIntermediates,
    AttentionMask,
    AttentionModuleId,
    BatchLayout,
    DotProductAttention,
    ModelBuilder,
    ModelConfig,
)
from seq2see.model.attention import SelfAttention
from seq2see.model.basic_modules import Dropout

# B batch, H heads, T tokens, D features of a head, M features of the model

SITE = AttentionModuleId("encoder", 0, "self")
WIDTH, HEADS = 512, 8
WORDS = tuple("我爱中国")


def self_attention(heads: int = HEADS, d_model: int = WIDTH, **settings: object) -> SelfAttention:
    """Make one self-attention as of a model, with fresh weights."""
    config = ModelConfig(vocab_size=1, d_model=d_model, heads=heads)
    return ModelBuilder(config).build_self_attention(
        AttentionFunctionConfig.model_validate(settings), SITE
    )


def heads_of(bench: Bench, seed: int = 1, **settings: object) -> SelfAttention:
    """Make one of the paper's size, always with the same weights, in float64."""
    del bench
    torch.manual_seed(seed)
    return self_attention(HEADS, WIDTH, **settings).double()


def sentence(bench: Bench, tokens: int, seed: int = 1) -> Tensor:
    """Draw vectors for the tokens of a sentence, [T, M]."""
    return torch.randn(tokens, WIDTH, dtype=torch.float64, generator=bench.generator(seed))


@torch.no_grad()
def attended(
    heads: SelfAttention, x_TM: Tensor, mask: AttentionMask = NO_MASK
) -> AttentionIntermediates:
    """Let a sentence attend to itself; return every step of it."""
    ear = Ear()
    heads(x_TM, BatchLayout(1, len(x_TM)), mask, ear)
    return ear.attention[SITE]


def dot_product(
    q: Tensor, k: Tensor, v: Tensor, scale: float
) -> tuple[Tensor, AttentionIntermediates]:
    """Attend with queries, keys and values as they are given; return also every step of it."""
    heard: list[AttentionIntermediates] = []
    output = DotProductAttention(scale, Dropout(0.0))(q, k, v, NO_MASK, heard.append)
    return output, heard[0]


@experiment(
    number=13,
    title=Text("Six steps, two words", "六个步骤，两个词"),
    notes="S2",
    claim=Text(
        'For "Thinking Machines" the six steps on vectors (project, score, divide, softmax, weigh, '
        "add up) give what the matrix form gives. The notes write the last step of the matrix form "
        "as Z = Σ softmax(QKᵀ/√d_k)·V.",
        "对 “Thinking Machines”，按向量进行的六步（投影、打分、缩放、softmax、加权、求和）"
        "与矩阵形式"
        "结果一致。笔记把矩阵形式的第六步写作 Z = Σ softmax(QKᵀ/√d_k)·V。",
    ),
    prediction=Text(
        "Equal to rounding. The matrix product has the sum in it already: another Σ would add up "
        "the words themselves and leave one vector for the whole sentence.",
        "除舍入外完全相等。矩阵乘法已包含求和：再加一个 Σ 会把各个词也加起来，整句只剩一个向量。",
    ),
)
def six_steps(bench: Bench) -> Finding:
    """Do head 1 of 8 by hand, word by word, and compare it with the model."""
    heads, words = heads_of(bench), sentence(bench, 2)
    record = attended(heads, words)
    matrix_form = (record.weights_BHTS @ record.values_BHSD)[0, 0]
    by_hand, weights = _by_hand(heads, words)
    summed = matrix_form.sum(dim=0)
    return Finding(
        Verdict.HOLDS,
        Text(
            "The steps on vectors and the matrix form are the same computation. The Σ in front of "
            "the matrix form is a slip: S·V has the sum over keys in it. With another one, two "
            "words become a single vector.",
            "按向量的步骤与矩阵形式是同一个计算。矩阵形式前的 Σ 是笔误：S·V 已经对键求和。"
            "再求和一次，两个词就变成了一个向量。",
        ),
        (
            Measurement(
                Text("largest difference, steps to matrix form", "逐步计算与矩阵形式的最大差"),
                float((by_hand - matrix_form).abs().max()),
                at_most(1e-13),
            ),
            Measurement(
                Text("vectors for two words, matrix form", "两个词得到的向量数，矩阵形式"),
                len(matrix_form),
                equal(2),
            ),
            Measurement(
                Text("… with the notes' Σ", "……加上笔记的 Σ"), summed.dim() * 1.0, equal(1)
            ),
            Measurement(
                Text("features of q, k and v in a head", "每个头中 q、k、v 的维数"),
                record.queries_BHTD.size(-1),
                equal(64),
            ),
        ),
        (
            grids(
                Text(
                    "The weights of the two words, head 1: a query a row.",
                    "两个词在第 1 个头中的权重：每行一个查询。",
                ),
                {"softmax(q·k/8)": weights.tolist()},
                ["Thinking", "Machines"],
                ["Thinking", "Machines"],
                numbers=True,
            ),
        ),
    )


@torch.no_grad()
def _by_hand(heads: SelfAttention, words: Tensor) -> tuple[Tensor, Tensor]:
    """Do the six steps for each word, with the matrices of the first head."""
    d = WIDTH // HEADS
    w_q, w_k, w_v = (matrix[:d] for matrix in heads.qkv.weight.chunk(3))
    queries, keys, values = (  # 1: three vectors for each word
        [matrix @ word for word in words] for matrix in (w_q, w_k, w_v)
    )
    outputs, weights = [], []
    for query in queries:
        scores = [float(query @ key) for key in keys]  # 2: a score for each word
        scores = [score / math.sqrt(d) for score in scores]  # 3: divided by 8
        powers = [math.exp(score) for score in scores]
        shares = [power / sum(powers) for power in powers]  # 4: softmax
        weighed = [share * value for share, value in zip(shares, values, strict=True)]  # 5
        outputs.append(torch.stack(weighed).sum(dim=0))  # 6: added up
        weights.append(torch.tensor(shares))
    return torch.stack(outputs), torch.stack(weights)


@experiment(
    number=14,
    title=Text("What Q, K and V are for", "Q、K、V 各自的作用"),
    notes="S2 S3",
    claim=Text(
        'Attention(Q, K, V) = softmax(QKᵀ/√d_k)V. In "我爱中国" the query of "我" asks, the keys '
        "of all words (its own too) answer, and the values are what is added up. 512 features "
        "become 64 in each of 8 heads.",
        "Attention(Q, K, V) = softmax(QKᵀ/√d_k)V。在“我爱中国”中，“我”的 Q 去询问，"
        "所有词（包括自己）的 "
        "K 作答，V 是被加权求和的内容。512 维在 8 个头中各为 64 维。",
    ),
    prediction=Text(
        "Another query for 我 changes its row alone; another key for 国 changes its column in "
        "every row; another value changes no weight at all, and the output in proportion.",
        "改变“我”的 Q 只改变它自己那一行；改变“国”的 K 会影响每一行；改变 V 不影响任何权重，"
        "输出则按比例变化。",
    ),
)
def roles(bench: Bench) -> Finding:
    """Change one of Q, K and V at a time and see which weights and outputs move."""
    record = attended(heads_of(bench), sentence(bench, len(WORDS)))
    return Finding(
        Verdict.HOLDS,
        Text(
            "A query decides one row, a key one column before softmax (and so all rows), a value "
            "no weight: it enters each output in proportion to its weight.",
            "Q 决定一行；K 在 softmax 之前决定一列（因而影响所有行）；V 不决定任何权重，"
            "它按权重进入每个输出。",
        ),
        (*_what_moves(record), *_one_head(record)),
        (_all_heads(record),),
    )


def _what_moves(record: AttentionIntermediates) -> list[Measurement]:
    q, k, v = (x[:, :1] for x in (record.queries_BHTD, record.keys_BHSD, record.values_BHSD))
    weights, output = _attend(q, k, v)
    other_query, _ = _attend(_changed(q, 0), k, v)
    other_key, _ = _attend(q, _changed(k, 3), v)
    same_weights, other_output = _attend(q, k, _changed(v, 3))
    share = (other_output - output).norm(dim=-1) / (_changed(v, 3) - v).norm()
    return [
        Measurement(
            Text("rows moved by another query of 我", "改变“我”的 Q 后变化的行数"),
            _rows_moved(weights, other_query),
            equal(1),
        ),
        Measurement(
            Text("rows moved by another key of 国", "改变“国”的 K 后变化的行数"),
            _rows_moved(weights, other_key),
            equal(4),
        ),
        Measurement(
            Text("weights moved by another value of 国", "改变“国”的 V 后权重的最大变化"),
            float((same_weights - weights).abs().max()),
            equal(0),
        ),
        Measurement(
            Text(
                "change of the outputs over change of the value, less the weights",
                "输出变化与 V 变化之比减去权重",
            ),
            float((share - weights[:, 3]).abs().max()),
            at_most(1e-13),
        ),
    ]


def _rows_moved(before: Tensor, after: Tensor) -> int:
    return int(((after - before).abs().amax(dim=-1) > 0).sum())


def _one_head(record: AttentionIntermediates) -> list[Measurement]:
    sums = record.weights_BHTS[0, 0].sum(dim=-1)
    return [
        Measurement(
            Text("features of a head", "每个头的维数"), record.keys_BHSD.size(-1), equal(64)
        ),
        Measurement(
            Text("largest |sum of a row − 1|", "行和与 1 的最大差"),
            float((sums - 1).abs().max()),
            at_most(1e-15),
        ),
    ]


def _all_heads(record: AttentionIntermediates) -> Figure:
    return grids(
        Text(
            "Weights of the eight heads at the start: queries are rows, keys are columns.",
            "初始时八个头的权重：行为查询，列为键。",
        ),
        {
            Text(f"head {head + 1}", f"头 {head + 1}"): matrix.tolist()
            for head, matrix in enumerate(record.weights_BHTS[0])
        },
        WORDS,
        WORDS,
        size=1.7,
    )


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the weights and the output of one head."""
    output, record = dot_product(q, k, v, q.size(-1) ** -0.5)
    return record.weights_BHTS[0, 0], output[0, 0]


def _changed(x: Tensor, token: int) -> Tensor:
    """Return a copy in which one token's vector is another one."""
    other = x.clone()
    other[:, :, token] *= -2
    return other


@experiment(
    number=20,
    title=Text("Attention as a directed graph", "作为有向图的注意力"),
    notes="S2",
    claim=Text(
        "Self-attention is a way of communicating, in probabilities; one can see it as a directed "
        "graph.",
        "自注意力是一种以概率表达的通信机制，可以将其视为一个有向图。",
    ),
    prediction=Text(
        "The weights are the edges: what leaves each node sums to 1, and i→j differs from j→i. In "
        "the encoder every node reaches every other in one step; in the decoder the graph has no "
        "cycle but the loops at each node.",
        "权重即边：每个节点的出边之和为 1，i→j 与 j→i 不同。编码器中任意两点一步可达；"
        "解码器中除自环外没有环。",
    ),
)
def directed_graph(bench: Bench) -> Finding:
    """Read the weights as a graph, in the encoder and under the decoder's mask."""
    words = ["The", "animal", "crossed", "the", "street"]
    x = sentence(bench, len(words))
    open_graph = attended(heads_of(bench), x).weights_BHTS[0, 0]
    causal_graph = attended(heads_of(bench), x, CAUSAL_MASK).weights_BHTS[0, 0]
    without_loops = causal_graph - causal_graph.diag().diag()
    return Finding(
        Verdict.HOLDS,
        Text(
            "Each row is a distribution over edges, and the two directions between a pair differ. "
            "Under the causal mask, edges lead to earlier words only: the adjacency matrix without "
            "loops is nilpotent, so there is no cycle. What the picture cannot show is what is "
            "sent: an edge of weight 0.9 that carries a small value says little.",
            "每一行是出边上的分布，一对词之间的两个方向并不相同。在因果掩码下，边只指向更早的词："
            "去掉自环的邻接矩阵是幂零的，因此没有环。图没有表现的是传递的内容："
            "权重 0.9 的边若携带很小的 V，说明不了什么。",
        ),
        (
            Measurement(
                Text("largest |sum of edges that leave a node − 1|", "出边之和与 1 的最大差"),
                float((open_graph.sum(dim=-1) - 1).abs().max()),
                at_most(1e-15),
            ),
            Measurement(
                Text("largest difference of i→j and j→i", "i→j 与 j→i 的最大差"),
                float((open_graph - open_graph.T).abs().max()),
                at_least(0.01),
            ),
            Measurement(
                Text("edges, encoder", "编码器的边数"), int((open_graph > 0).sum()), equal(25)
            ),
            Measurement(
                Text("edges, decoder", "解码器的边数"), int((causal_graph > 0).sum()), equal(15)
            ),
            Measurement(
                Text("paths of five steps without loops, decoder", "解码器中不含自环的五步路径"),
                float(torch.linalg.matrix_power(without_loops, len(words)).abs().max()),
                equal(0),
            ),
        ),
        (_graphs(words, open_graph, causal_graph),),
    )


def _graphs(words: list[str], open_graph: Tensor, causal_graph: Tensor) -> Figure:
    caption = Text(
        "The weights of one head as arrows from a query to its keys, thicker for more; left the "
        "encoder, right the decoder.",
        "一个头的权重画成从查询指向键的箭头，越粗权重越大；左为编码器，右为解码器。",
    )
    with sketch(caption, height=3.6) as made:
        for place, graph in enumerate((open_graph, causal_graph), 1):
            _graph(made, place, words, graph)
    return made.figure


def _graph(made: Sketch, place: int, words: list[str], graph: Tensor) -> None:
    axes = made.canvas.add_subplot(1, 2, place)
    angles = [math.pi / 2 - 2 * math.pi * i / len(words) for i in range(len(words))]
    points = [(math.cos(angle), math.sin(angle)) for angle in angles]
    for i, start in enumerate(points):
        for j, end in enumerate(points):
            if i != j and graph[i, j] > 0:
                arrow = {
                    "arrowstyle": "-|>",
                    "alpha": 0.75,
                    "color": "#3b6ea5",
                    "linewidth": 6 * float(graph[i, j]),
                    "connectionstyle": "arc3,rad=0.14",
                    "shrinkA": 18,
                    "shrinkB": 18,
                }
                axes.annotate("", end, start, arrowprops=arrow)
        axes.text(*start, words[i], ha="center", va="center")
    axes.set(xlim=(-1.35, 1.35), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
