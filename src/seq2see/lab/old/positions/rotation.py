"""Item 33: what is linear in the sinusoid."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.closeness import apart
from seq2see.lab.old.expectation import at_least, at_most, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.model import compute_sinusoids

# T positions, M features of the model, F frequencies

WIDE = 512


@experiment(
    33,
    Text("A shift is a rotation", "平移就是旋转"),
    "S2",
    Text(
        "PE(pos + k) is a linear function of PE(pos), so distances are easy to read.",
        "任意位置的 PE(pos+k) 都可以被 PE(pos) 的线性函数表示，因而容易得到相对距离。",
    ),
    Text(
        "One rotation, written with PE(k) alone, shifts every position; PE·PE depends on the "
        "offset alone. It does not tell the direction, and random W_Q and W_K destroy it.",
        "仅用 PE(k) 写出的一个旋转矩阵即可平移所有位置；PE·PE 只依赖于间隔。"
        "但它分不出方向，而且随机的 W_Q、W_K 会破坏它。",
    ),
)
def rotation(bench: Bench) -> Finding:
    """Turn positions by one matrix, and compare their products."""
    table_TM = compute_sinusoids(torch.arange(300), WIDE)
    products_TT = table_TM @ table_TM.T
    query_MM, key_MM = torch.randn(2, WIDE, WIDE, generator=bench.generator()).double() / WIDE**0.5
    projected_TT = (table_TM @ query_MM) @ (table_TM @ key_MM).T
    return Finding(
        Verdict.HOLDS,
        Text(
            "the rotation fits to the last digits. But PE·PE is even in the offset, so it tells "
            "how far, not which way; and it is a property of the vectors: behind W_Q and W_K the "
            "model must learn it again.",
            "旋转在最后几位上吻合。但 PE·PE 是间隔的偶函数，只说多远，不说哪边；"
            "而且这只是向量本身的性质：经过 W_Q、W_K 之后，模型得重新学到它。",
        ),
        (_shift(table_TM), *_products(products_TT, projected_TT)),
        (_bands(products_TT, projected_TT),),
    )


def _shift(table_TM: Tensor) -> Measurement:
    shift = 37
    turned_TM = table_TM[:-shift] @ rotation_by(shift).T
    return Measurement(
        Text(
            "|R(37)·PE(pos) − PE(pos + 37)|, 263 positions",
            "|R(37)·PE(pos) − PE(pos+37)|，263 个位置",
        ),
        apart(turned_TM, table_TM[shift:]),
        at_most(1e-12),
    )


def _products(products_TT: Tensor, projected_TT: Tensor) -> list[Measurement]:
    return [
        Measurement(
            Text(
                "PE(a)·PE(b): spread among pairs at the same offset",
                "PE(a)·PE(b)：同一间隔内的差异",
            ),
            _spread_at_offsets(products_TT),
            at_most(1e-11),
        ),
        Measurement(
            Text("PE·PE at offset +10 minus at −10", "PE·PE：间隔 +10 减 −10"),
            float(products_TT[100, 110] - products_TT[100, 90]),
            near(0.0, 1e-11),
        ),
        Measurement(
            Text(
                "spread at the same offset behind random W_Q and W_K",
                "经随机 W_Q、W_K 后同一间隔内的差异",
            ),
            _spread_at_offsets(projected_TT),
            at_least(10.0),
        ),
    ]


def _bands(products_TT: Tensor, projected_TT: Tensor) -> Figure:
    return pictures.grids(
        Text(
            "Products of position vectors: bands by offset, and what random W_Q and W_K leave of "
            "them",
            "位置向量的内积：按间隔成带；以及随机 W_Q、W_K 之后剩下的样子",
        ),
        {
            "PE·PE": products_TT[:64, :64].tolist(),
            "PE·W_Q·W_Kᵀ·PE": projected_TT[:64, :64].tolist(),
        },
        limits=None,
        colours="viridis",
        size=3.2,
    )


def rotation_by(shift: int) -> Tensor:
    """Return the matrix that moves PE(pos) to PE(pos + shift): a rotation in each pair."""
    sines_F, cosines_F = compute_sinusoids(torch.tensor([shift]), WIDE)[0].view(-1, 2).T
    blocks_F22 = torch.stack((cosines_F, sines_F, -sines_F, cosines_F), dim=1).view(-1, 2, 2)
    turned: Tensor = torch.block_diag(*blocks_F22)
    return turned


def _spread_at_offsets(products_TT: Tensor) -> float:
    """Return the largest difference between pairs of positions that are equally far apart."""
    diagonals = [products_TT.diagonal(offset) for offset in range(1, 64)]
    return max(float(d.max() - d.min()) for d in diagonals)
