"""Experiments 21 and 22: how far and how fast information travels in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from seq2see.lab.old.attention.steps import self_attention
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import NOTED, at_most, equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves
from seq2see.lab.old.timing import seconds
from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AttentionFunctionConfig,
    AttentionModuleId,
    BatchLayout,
    ModelBuilder,
    ModelConfig,
)
from seq2see.model.cache import KeyValues

# T tokens, M features

WIDTH, LENGTH = 64, 64
Network = Callable[[Tensor], Tensor]
"""From the tokens of a sentence, [T, M], to their outputs."""


@experiment(
    number=21,
    title=Text("How far does a word reach?", "一个词能影响多远？"),
    notes="S2 S3",
    claim=Text(
        "A CNN sees n-grams only, an RNN forgets, gates help in part; attention reaches every "
        "position alike. A fully connected layer would too, but fixes the length; attention from "
        "source to target alone ignores links inside a sentence.",
        "CNN 只看 n-gram，RNN 会遗忘，门控只能部分缓解；自注意力对所有位置一视同仁。"
        "全连接也可以，但长度固定；源端–目标端注意力忽略句子内部的依赖。",
    ),
    prediction=Text(
        "|∂y_t/∂x_{t−k}| is exactly 0 beyond a CNN's window, falls exponentially with k in an RNN, "
        "more slowly or faster with gates, and does not fall in attention.",
        "|∂y_t/∂x_{t−k}|：CNN 在窗口外严格为 0；RNN 随 k 指数下降，门控改变其速度；"
        "自注意力不随 k 下降。",
    ),
)
def reach(bench: Bench) -> Finding:
    """Send a gradient from the last token back to each earlier one, at the start of training."""
    reached = {name: _mean_reach(make) for name, make in _NETWORKS.items()}
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "It holds if one speaks of reach: at the start of training attention passes as much "
            "gradient over 48 tokens as over one, where an RNN and its gated kin pass next to "
            "nothing and a CNN nothing at all. It does not say that the link is learned; a softmax "
            "over n keys also thins each of them out to about 1/n, and without positions attention "
            "cannot tell near from far.",
            "就“可达性”而言成立：训练开始时，自注意力跨 48 个 token 传递的梯度与跨 1 个时相当，"
            "而 RNN 及其门控变体几乎为零，CNN 则完全为零。但这不等于一定能学到这种联系；"
            "对 n 个键的 softmax 也会把每个键稀释到约 1/n，而且没有位置信息时注意力分不清远近。",
        ),
        (*_far_back(reached), *_other_ways(bench)),
        (_by_distance(reached),),
    )


def _far_back(reached: dict[str, list[float]]) -> list[Measurement]:
    wanted = {"CNN": equal(0), "RNN": at_most(1e-6), "GRU": at_most(1e-6), "LSTM": at_most(1e-6)}
    return [
        *(
            Measurement(
                Text(f"{name}, 48 tokens back over 0", f"{name}，相距 48 与 0 之比"),
                reached[name][48],
                expected,
            )
            for name, expected in wanted.items()
        ),
        Measurement(
            Text("attention, 48 tokens back over 1", "自注意力，相距 48 与 1 之比"),
            reached["attention"][48] / reached["attention"][1],
            near(1, 0.3),
        ),
    ]


def _other_ways(bench: Bench) -> list[Measurement]:
    """Try what else might link two words: a layer over all of them, and cross-attention."""
    return [
        Measurement(
            Text(
                "lengths that a layer fully connected over 64 tokens takes, of 63, 64, 65",
                "对 64 个 token 全连接的层能接受的长度数（63、64、65）",
            ),
            sum(_takes(nn.Linear(LENGTH, LENGTH), length) for length in (63, 64, 65)),
            equal(1),
        ),
        Measurement(
            Text(
                "gradient between target words through cross-attention alone",
                "仅有源端–目标端注意力时目标词之间的梯度",
            ),
            _between_targets(bench),
            equal(0),
        ),
    ]


def _by_distance(reached: dict[str, list[float]]) -> Figure:
    return curves(
        Text(
            "|∂y_t/∂x_{t−k}| over its value at k = 0, mean over 4 starts. A CNN is 0 "
            "beyond its window and has no line there.",
            "|∂y_t/∂x_{t−k}| 与 k = 0 时之比，对 4 次初始化取平均。CNN 在窗口外为 0，图中无线。",
        ),
        list(range(LENGTH)),
        {
            _LABELS.get(name, Text(name, name)): [value or math.nan for value in values]
            for name, values in reached.items()
        },
        (Text("k, tokens back", "k，向前的 token 数"), Text("gradient", "梯度")),
        y_scale="log",
    )


class _Convolution(nn.Module):
    """Two causal layers of width 3: a window of five tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(WIDTH, WIDTH, 3) for _ in range(2))

    def forward(self, x_TM: Tensor) -> Tensor:
        y_MT = x_TM.T
        for layer in self.layers:
            y_MT = torch.relu(layer(nn.functional.pad(y_MT, (2, 0))))
        return y_MT.T


def _attention(length: int = LENGTH) -> Network:
    heads = self_attention(4, WIDTH)
    layout = BatchLayout(1, length)

    def attend(x_TM: Tensor) -> Tensor:
        mixed_TM: Tensor = heads(x_TM, layout, CAUSAL_MASK)[0]
        return mixed_TM

    return attend


def _recurrent(network: nn.RNNBase) -> Network:

    def read(x_TM: Tensor) -> Tensor:
        states_TM: Tensor = network(x_TM)[0]
        return states_TM

    return read


_NETWORKS: Mapping[str, Callable[[], Network]] = {
    "attention": _attention,
    "LSTM": lambda: _recurrent(nn.LSTM(WIDTH, WIDTH)),
    "GRU": lambda: _recurrent(nn.GRU(WIDTH, WIDTH)),
    "RNN": lambda: _recurrent(nn.RNN(WIDTH, WIDTH)),
    "CNN": _Convolution,
}


_LABELS = {"attention": Text("attention", "自注意力")}


def _mean_reach(make: Callable[[], Network]) -> list[float]:
    """Return what reaches each token, the mean of four starts, over what reaches the last."""
    reached_T = torch.stack([_reach(make, seed) for seed in range(4)]).mean(dim=0)
    relative: list[float] = (reached_T / reached_T[0]).tolist()
    return relative


def _reach(make: Callable[[], Network], seed: int) -> Tensor:
    """Return the norm of the gradient that reaches each token from the last, nearest first."""
    torch.manual_seed(seed)
    network = make()
    x_TM = torch.randn(LENGTH, WIDTH, requires_grad=True)
    network(x_TM)[-1].backward(torch.randn(WIDTH))
    assert x_TM.grad is not None
    reached_T: Tensor = x_TM.grad.norm(dim=1).flip(0)
    return reached_T


def _takes(layer: nn.Linear, length: int) -> bool:
    try:
        layer(torch.zeros(1, length))
    except RuntimeError:
        return False
    return True


def _between_targets(bench: Bench) -> float:
    """Return the gradient from the last target word to the others through the cross-attention."""
    config = ModelConfig(vocab_size=1, d_model=WIDTH, heads=4)
    heads = ModelBuilder(config).build_cross_attention(
        AttentionFunctionConfig(), AttentionModuleId("decoder", 0, "cross")
    )
    target_TM = torch.randn(6, WIDTH, generator=bench.generator(1), requires_grad=True)
    source_TM = torch.randn(6, WIDTH, generator=bench.generator(2))
    memory: KeyValues = heads.project_memory(source_TM, BatchLayout(1, 6))
    heads(target_TM, memory, BatchLayout(1, 6), NO_MASK)[-1].sum().backward()
    assert target_TM.grad is not None
    return float(target_TM.grad[:-1].abs().max())


@experiment(
    number=22,
    title=Text("Serial and parallel", "串行与并行"),
    notes="S3",
    claim=Text(
        "An RNN must read word by word; in attention the queries do not depend on each other, so "
        "all of them can be computed at once.",
        "RNN 必须逐词计算；自注意力中各个查询互不依赖，可以并行计算。",
    ),
    prediction=Text(
        "Each query alone gives the same row as all of them together. The longest chain of "
        "operations that wait for each other grows with the length in an RNN, and not in "
        "attention.",
        "单独计算每个查询与一起计算结果相同。互相等待的最长运算链在 RNN 中随长度增长，"
        "在自注意力中不变。",
    ),
)
def serial_or_parallel(bench: Bench) -> Finding:
    """Compute queries one by one and together; then time both kinds against the length."""
    lengths = [32, 128, 256] + ([512, 1024, 2048] if bench.full else [])
    rnn = {length: _rnn_seconds(length) for length in lengths}
    attention = {length: _attention_seconds(length) for length in lengths}
    slower = rnn[256] / attention[256]
    return Finding(
        Verdict.HOLDS,
        Text(
            "A query needs the keys and values, not the other queries: alone or together, the rows "
            "are the same. In an RNN each step waits for the one before, so the chain grows with "
            "the sentence, and no number of cores makes it shorter. Whether that costs time "
            "depends on the machine, for attention also computes more (n² of it): on this one the "
            f"RNN took {slower:.2g} times as long as attention for 256 words.",
            "查询只需要键与值，不需要其他查询：单独或一起计算，结果相同。RNN "
            "的每一步都要等待前一步，"
            "依赖链随句子增长，再多的核也不能缩短。这是否耗时取决于机器，"
            "因为自注意力的计算量也更大（n²）：在这台机器上，256 个词时 RNN 的用时是自注意力的 "
            f"{slower:.2g} 倍。",
        ),
        (
            Measurement(
                Text(
                    "largest difference, queries alone and together", "查询单独与一起计算的最大差"
                ),
                _alone_or_together(bench),
                at_most(1e-12),
            ),
            *_longest_chains(),
            Measurement(
                Text("time, RNN over attention, 256 words", "时间之比，RNN 与自注意力，256 个词"),
                slower,
                NOTED,
            ),
        ),
        (_by_length(rnn, attention),),
    )


def _longest_chains() -> list[Measurement]:
    return [
        Measurement(
            Text(
                "longest chain of operations, RNN, 256 words over 32",
                "最长的依赖链，RNN，256 个词与 32 个词之比",
            ),
            depth(_recurrent(nn.RNN(WIDTH, WIDTH)), 256)
            / depth(_recurrent(nn.RNN(WIDTH, WIDTH)), 32),
            near(8, 1),
        ),
        Measurement(
            Text(
                "longest chain of operations, attention, 256 words over 32",
                "最长的依赖链，自注意力，256 个词与 32 个词之比",
            ),
            depth(_attention(256), 256) / depth(_attention(32), 32),
            equal(1),
        ),
    ]


def _by_length(rnn: dict[int, float], attention: dict[int, float]) -> Figure:
    return curves(
        Text(
            "Milliseconds a sentence, one sentence at a time, width 512.",
            "每句耗时（毫秒），一次一句，宽度 512。",
        ),
        list(rnn),
        {
            Text("RNN", "RNN"): [1000 * s for s in rnn.values()],
            Text("attention, 8 heads", "自注意力，8 个头"): [1000 * s for s in attention.values()],
        },
        (Text("words", "词数"), "ms"),
        x_scale="log",
        y_scale="log",
        marker="o",
    )


def depth(network: Network, length: int) -> int:
    """Return the longest chain of operations that autograd recorded, each waiting for the last."""
    waits: dict[object, int] = {None: 0}
    stack: list[Any] = [network(torch.randn(length, WIDTH, requires_grad=True)).grad_fn]
    while stack:
        node = stack[-1]
        earlier = [each for each, _ in node.next_functions]
        if missing := [each for each in earlier if each not in waits]:
            stack.extend(missing)
        else:
            waits[stack.pop()] = 1 + max((waits[each] for each in earlier), default=0)
    return max(waits.values())


@torch.no_grad()
def _alone_or_together(bench: Bench) -> float:
    heads = self_attention(4, WIDTH).double()
    x_TM = torch.randn(20, WIDTH, dtype=torch.float64, generator=bench.generator(1))
    queries, memory = heads.project(x_TM, BatchLayout(1, 20))
    together = heads.attention(queries, memory.keys_BHSD, memory.values_BHSD)
    alone = [
        heads.attention(query, memory.keys_BHSD, memory.values_BHSD)
        for query in queries.split(1, dim=2)
    ]
    return float((torch.cat(alone, dim=2) - together).abs().max())


@torch.inference_mode()
def _rnn_seconds(length: int, width: int = 512) -> float:
    network, x_TM = nn.RNN(width, width), torch.randn(length, width)
    return seconds(lambda: network(x_TM), repeats=3)


@torch.inference_mode()
def _attention_seconds(length: int, width: int = 512) -> float:
    heads, x_TM, layout = (
        self_attention(8, width),
        torch.randn(length, width),
        BatchLayout(1, length),
    )
    return seconds(lambda: heads(x_TM, layout, NO_MASK), repeats=3)
