"""Experiment 18: additive attention against the dot product."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from seq2see.lab.old.bench import Bench, Lesson
from seq2see.lab.old.expectation import at_least
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.pictures import curves
from seq2see.lab.old.timing import cpu_seconds
from seq2see.model import NO_MASK, AdditiveAttention, AttentionFunction, DotProductAttention
from seq2see.model.basic_modules import Dropout

LENGTH = 64
WIDTHS = [8, 16, 32, 64]
KINDS = {
    "scaled_dot": Text("scaled dot product", "缩放点积"),
    "dot": Text("dot product, unscaled", "未缩放点积"),
    "additive": Text("additive", "加性"),
}


@experiment(
    number=18,
    title=Text("Additive attention or the dot product?", "加性注意力还是点积注意力？"),
    notes="S1 S3",
    claim=Text(
        "Both cost about the same in theory, but the dot product uses fast matrix products. For "
        "large d_k additive attention is better, S3 says because it is non-linear.",
        "两者理论复杂度相近，但点积能利用快速的矩阵乘法。d_k 较大时加性模型效果更好，"
        "S3 认为原因是它含有非线性。",
    ),
    prediction=Text(
        "Additive attention keeps a tensor of n²·d_k numbers where the product keeps n². In "
        "learning, only the unscaled product loses at large d_k; the scaled one does not.",
        "加性注意力要保存 n²·d_k 个数，点积只需 n²。就学习效果而言，d_k 较大时只有“未缩放”"
        "的点积变差。",
    ),
    trains=True,
)
def additive_or_product(bench: Bench) -> Finding:
    """Let each kind learn with narrow and wide heads; weigh and time them alone."""
    losses = {(kind, d): _losses(bench, kind, d) for kind in KINDS for d in _widths(bench)}
    memory = {kind: [_kept(make(d), d) for d in WIDTHS] for kind, make in _MAKERS.items()}
    time = {kind: cpu_seconds(_worked(make(64), 64)) for kind, make in _MAKERS.items()}
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "It holds if the dot product is not scaled: then wide heads learn worse than additive "
            "ones. Scaled, nearly all of the gap is gone, so the missing scale is the reason, and "
            "non-linearity at most a small part of it. Time and memory are not alike: additive "
            "attention holds a number for each feature of each pair of tokens.",
            "仅当点积未缩放时成立：此时宽头的学习效果不如加性模型。缩放之后差距几乎消失，"
            "因此原因是缺少缩放，非线性至多起很小的作用。时间与内存并不相近：加性注意力要为每对 "
            "token 的每个特征保存一个数。",
        ),
        (*_learned(losses), *_gaps(losses, max(_widths(bench))), *_costs(memory, time)),
        (_memory_by_width(memory),),
    )


def _learned(losses: dict[tuple[str, int], list[float]]) -> list[Measurement]:
    return [
        Measurement.mean(
            Text(
                f"held-out loss, {KINDS[kind].en}, d_k = {d}",
                f"验证损失，{KINDS[kind].zh}，d_k = {d}",
            ),
            found,
        )
        for (kind, d), found in losses.items()
    ]


def _gaps(losses: dict[tuple[str, int], list[float]], wide: int) -> list[Measurement]:
    """Compare the kinds where heads are widest."""
    scaled, unscaled, additive = (_mean(losses[kind, wide]) for kind in KINDS)
    return [
        Measurement(
            Text(
                f"loss at d_k = {wide}, unscaled over scaled",
                f"d_k = {wide} 时未缩放与缩放的损失之比",
            ),
            unscaled / scaled,
            at_least(3),
        ),
        Measurement(
            Text(
                f"share of the gap to additive that the scale closes, d_k = {wide}",
                f"缩放所弥补的与加性之间差距的比例，d_k = {wide}",
            ),
            (unscaled - scaled) / (unscaled - additive),
            at_least(0.9),
        ),
    ]


def _costs(memory: dict[str, list[int]], time: dict[str, float]) -> list[Measurement]:
    return [
        Measurement(
            Text(
                "memory kept for the gradients, additive over dot product, d_k = 64, n = 64",
                "为梯度保存的内存，加性与点积之比，d_k = 64，n = 64",
            ),
            memory["additive"][-1] / memory["product"][-1],
            at_least(10),
        ),
        Measurement(
            Text(
                "time forward and back, additive over dot product, d_k = 64, n = 64",
                "前向加反向的时间，加性与点积之比，d_k = 64，n = 64",
            ),
            time["additive"] / time["product"],
            at_least(2),
        ),
    ]


def _memory_by_width(memory: dict[str, list[int]]) -> Figure:
    names = {"additive": Text("additive", "加性"), "product": Text("dot product", "点积")}
    return curves(
        Text(
            f"Memory that is kept for the gradients, 8 sentences of {LENGTH} tokens.",
            f"为梯度保存的内存，8 个长度为 {LENGTH} 的句子。",
        ),
        WIDTHS,
        {names[kind]: [size / 2**20 for size in sizes] for kind, sizes in memory.items()},
        ("d_k", "MB"),
        y_scale="log",
        marker="o",
    )


def _widths(bench: Bench) -> tuple[int, ...]:
    return (8, 64, 256) if bench.full else (64,)


def _losses(bench: Bench, kind: str, d: int) -> list[float]:
    """Learn with heads of this width: the model is 64 wide, or one head if that is wider."""
    width = max(64, d)
    settings = {"attention": {"kind": kind}, "d_model": width, "heads": width // d}
    return bench.losses(Lesson().with_model(**settings))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _additive(d: int) -> AttentionFunction:
    return AdditiveAttention(1, d, Dropout(0.0))


def _product(d: int) -> AttentionFunction:
    return DotProductAttention(d**-0.5, Dropout(0.0))


_MAKERS: dict[str, Callable[[int], AttentionFunction]] = {
    "additive": _additive,
    "product": _product,
}


def _worked(attention: AttentionFunction, d: int) -> Callable[[], object]:
    """Return a forward and a backward pass; the plain form of both, so that like meets like."""
    q, k, v = (torch.randn(8, 1, LENGTH, d, requires_grad=True) for _ in range(3))
    return lambda: attention(q, k, v, NO_MASK, lambda _: None).sum().backward()


def _kept(attention: AttentionFunction, d: int) -> int:
    """Count the bytes that a forward pass keeps for the gradients."""
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    q, k, v = (torch.randn(8, 1, LENGTH, d, requires_grad=True) for _ in range(3))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = attention(q, k, v, NO_MASK, lambda _: None)
        del output
    return sum(sizes.values())
