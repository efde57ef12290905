"""Item 59: what attention costs as sentences grow, and Linformer."""

from __future__ import annotations

import math
from statistics import linear_regression

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from seq2see.errors import ConfigError
from seq2see.lab.old import pictures
from seq2see.lab.old.bench import DIGITS, Bench
from seq2see.lab.old.ear import Ear
from seq2see.lab.old.expectation import at_least, at_most, between, equal
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.timing import cpu_seconds
from seq2see.model import (
    NO_MASK,
    NULL_RECORDER,
    AttentionFunctionConfig,
    AttentionModuleId,
    BatchLayout,
    ModelBuilder,
    Recorder,
    Transformer,
)

# N tokens in a row, M features of the model

LINFORMER = AttentionFunctionConfig(kind="linformer", max_length=4096, rank=64)
SITE = AttentionModuleId("encoder", 0, "self")
WAYS = {
    "plain": Text("attention, weights kept", "注意力，保留权重"),
    "fused": Text("attention, fused kernel", "注意力，融合核"),
    "linformer": Text("Linformer, rank 64", "Linformer，秩 64"),
}

GROWTH = {"plain": at_least(1.5), "fused": at_least(1.5), "linformer": at_most(1.4)}
"""The exponent of time that is expected: less than 2, for the projections grow as n."""


@experiment(
    59,
    Text("O(n²), and Linformer", "O(n²) 与 Linformer"),
    "S2",
    Text(
        "Attention's cost grows with the square of the length, which may be a bottleneck; "
        "improvements such as Linformer exist.",
        "注意力机制相对序列长度的复杂度是 O(n²)，对特别长的序列可能是瓶颈；"
        "有 Linformer 等改进方案。",
    ),
    Text(
        "With its weights kept, memory and time grow as n². A fused kernel never keeps the "
        "weights: memory grows as n, time still as n². Linformer is linear in both, at a price: a "
        "fixed greatest length, and no causal decoder.",
        "保留权重时，内存和时间都按 n² 增长。融合核从不保存权重：内存按 n，时间仍按 n²。"
        "Linformer 两者都是线性的，代价是固定的最大长度，且不能用于因果解码器。",
    ),
)
def square_or_linear(bench: Bench) -> Finding:
    """Measure what is kept for the way back, and time, as sentences double."""
    lengths = (256, 512, 1024, 2048, 4096) if bench.full else (256, 512, 1024, 2048)
    ways = {
        "plain": Way(DIGITS.attention, Ear()),  # somebody listens, so the weights exist
        "fused": Way(DIGITS.attention, NULL_RECORDER),
        "linformer": Way(LINFORMER, NULL_RECORDER),
    }
    memory = {name: [way.kept(length) for length in lengths] for name, way in ways.items()}
    times = {name: [way.time(length) for length in lengths] for name, way in ways.items()}
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "it is said of time. n² of memory is a matter of how it is computed, not of attention. "
            "Linformer is another function, not a faster form of the same: it mixes positions.",
            "指时间时成立。n² 的内存取决于怎么算，并非注意力固有。"
            "Linformer 是另一个函数，而不是同一函数的快速算法：它混合了各个位置。",
        ),
        (*_memory(lengths, memory), *_time(lengths, times), _refusal()),
        (
            _curves(
                Text("Memory kept for the way back", "为反向保留的内存"), lengths, memory, "MB", 1e6
            ),
            _curves(Text("Time of a forward pass", "一次前向的用时"), lengths, times, "ms", 1e-3),
        ),
    )


def _memory(lengths: tuple[int, ...], memory: dict[str, list[float]]) -> list[Measurement]:
    return [
        Measurement(
            Text("exponent of memory, weights kept", "内存的指数，保留权重"),
            _exponent(lengths, memory["plain"]),
            between(1.6, 2.1),
        ),
        Measurement(
            Text("exponent of memory, fused kernel", "内存的指数，融合核"),
            _exponent(lengths, memory["fused"]),
            between(0.9, 1.1),
        ),
        Measurement(
            Text("exponent of memory, Linformer", "内存的指数，Linformer"),
            _exponent(lengths, memory["linformer"]),
            between(0.9, 1.1),
        ),
        Measurement(
            Text(
                "2,048 tokens: memory, kept / Linformer", "2,048 词：内存之比，保留权重 / Linformer"
            ),
            memory["plain"][3] / memory["linformer"][3],
            at_least(5),
        ),
    ]


def _time(lengths: tuple[int, ...], times: dict[str, list[float]]) -> list[Measurement]:
    return [
        *(
            Measurement(
                Text(f"exponent of time, {WAYS[key].en}", f"时间的指数，{WAYS[key].zh}"),
                _exponent(lengths, times[key]),
                expected,
            )
            for key, expected in GROWTH.items()
        ),
        Measurement(
            Text(
                "2,048 tokens: time, kept / Linformer", "2,048 词：用时之比，保留权重 / Linformer"
            ),
            times["plain"][3] / times["linformer"][3],
            at_least(1.5),
        ),
    ]


def _refusal() -> Measurement:
    return Measurement(
        Text("a Linformer decoder is refused (1 = yes)", "Linformer 解码器被拒绝（1 = 是）"),
        _decoder_is_refused(),
        equal(1),
    )


class Way:
    """One way to attend over a sentence of any length."""

    def __init__(self, attention: AttentionFunctionConfig, recorder: Recorder) -> None:
        torch.manual_seed(1)
        self._heads = ModelBuilder(DIGITS).build_self_attention(attention, SITE)
        self._recorder = recorder

    def __call__(self, x_NM: Tensor) -> Tensor:
        """Attend over all tokens as one sentence."""
        mixed_NM: Tensor
        mixed_NM, _ = self._heads(x_NM, BatchLayout(1, len(x_NM)), NO_MASK, self._recorder)
        return mixed_NM

    def kept(self, length: int) -> float:
        """Return the bytes that a pass keeps for the way back, each once, weights left out."""
        found: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
            return tensor

        with saved_tensors_hooks(note, lambda tensor: tensor):
            self(torch.randn(length, DIGITS.d_model, requires_grad=True))
        weights = {p.untyped_storage().data_ptr() for p in self._heads.parameters()}
        return float(sum(size for place, size in found.items() if place not in weights))

    @torch.no_grad()
    def time(self, length: int) -> float:
        """Return the processor's seconds of a forward pass."""
        x_NM = torch.randn(length, DIGITS.d_model)
        return cpu_seconds(lambda: self(x_NM), 5)


def _exponent(lengths: tuple[int, ...], costs: list[float]) -> float:
    """Return the power of n by which the cost grows: the slope on logarithmic axes."""
    slope, _ = linear_regression([math.log(n) for n in lengths], [math.log(c) for c in costs])
    return slope


def _decoder_is_refused() -> bool:
    try:
        Transformer.from_config(DIGITS.replace(decoder_attention=LINFORMER))
    except ConfigError:
        return True
    return False


def _curves(
    caption: Text, lengths: tuple[int, ...], costs: dict[str, list[float]], unit: str, size: float
) -> Figure:
    return pictures.curves(
        caption,
        lengths,
        {name: [cost / size for cost in costs[key]] for key, name in WAYS.items()},
        (Text("tokens", "词数"), unit),
        x_scale="log",
        y_scale="log",
        marker="o",
    )
