"""Item 48: how two masks become one, and a row in which everything is hidden."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.lab.old import pictures
from seq2see.lab.old.bench import Bench
from seq2see.lab.old.expectation import equal, near
from seq2see.lab.old.experiment import Figure, Finding, Measurement, Text, Verdict, experiment
from seq2see.lab.old.masks.places import added_mask_softmax
from seq2see.model import CAUSAL_MASK, build_padded_key_mask, masked_softmax

# T queries, S keys

PADDING_S = torch.tensor([True, True, False, False, False])
"""Padding on the left: the first queries see nothing but it."""
LATER_TS = torch.ones(5, 5, dtype=torch.bool).triu(1)
HIDDEN_TS = LATER_TS | PADDING_S


@experiment(
    48,
    Text("Two masks, one row", "两个掩码与全被遮住的行"),
    "S3",
    Text(
        "In the decoder attn_mask = padding mask + sequence mask.",
        "在 decoder 中，attn_mask = padding mask + sequence mask。",
    ),
    Text(
        "They must be joined by OR. Added as numbers, a key hidden twice gets −2e9: where all keys "
        "are hidden, the weight flows to those hidden once. Then −1e9 gives uniform weights, −inf "
        "gives NaN, and in half precision 0 · −1e9 is NaN. Ours gives zeros.",
        "两者必须取“或”。当作数字相加，被遮两次的得到 −2e9："
        "全被遮住的行里，权重会流向只被遮一次的键。"
        "此外 −1e9 使整行均匀，−inf 得到 NaN，半精度下 0 × −1e9 也是 NaN。我们的实现给出零。",
    ),
)
def joined(bench: Bench) -> Finding:
    """Hide a row whole, in four ways."""
    scores_TS = torch.randn(5, 5, generator=bench.generator())
    weights = _Weights.of(scores_TS)
    return Finding(
        Verdict.HOLDS_IF,
        Text(
            "“+” is read as OR. As a sum it goes wrong in rows that are hidden whole; there "
            "neither −1e9 nor −inf is right, and only zeros add nothing.",
            "把“+”理解为“或”时成立。若真的相加，在整行被遮时会出错；"
            "那里 −1e9 和 −inf 都不对，只有零才什么也不加。",
        ),
        (_ours_is_or(), *_hidden_twice(weights), *_hidden_whole(weights), _in_half(scores_TS)),
        (_grids(weights),),
    )


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of five queries, by four ways to hide keys; the first two may see none."""

    by_sum_TS: Tensor
    by_or_TS: Tensor
    by_infinity_TS: Tensor
    ours_TS: Tensor

    @classmethod
    def of(cls, scores_TS: Tensor) -> _Weights:
        return cls(
            added_mask_softmax(scores_TS, LATER_TS.float() + PADDING_S.float()),
            added_mask_softmax(scores_TS, HIDDEN_TS.float()),
            scores_TS.masked_fill(HIDDEN_TS, -torch.inf).softmax(dim=-1),
            masked_softmax(scores_TS, _our_mask()),
        )


def _our_mask() -> Tensor:
    """Return the mask that our decoder would use."""
    mask = build_padded_key_mask(PADDING_S[None]) | CAUSAL_MASK
    dense = mask.to_tensor(5, 5, PADDING_S.device)
    assert dense is not None
    return dense[0, 0]


def _ours_is_or() -> Measurement:
    return Measurement(
        Text("our mask is the OR (1 = yes)", "我们的掩码就是“或”（1 = 是）"),
        torch.equal(_our_mask(), HIDDEN_TS),
        equal(1),
    )


def _hidden_twice(weights: _Weights) -> list[Measurement]:
    return [
        Measurement(
            Text(
                "sum: weight of query 1 on the future, whose keys are hidden once",
                "相加：查询 1 落在未来（只被遮一次）的权重",
            ),
            float(weights.by_sum_TS[0, 2:].sum()),
            near(0.75, 1e-6),
        ),
        Measurement(
            Text("sum: its weight on key 2, hidden twice", "相加：对键 2（被遮两次）的权重"),
            float(weights.by_sum_TS[0, 1]),
            equal(0.0),
        ),
    ]


def _hidden_whole(weights: _Weights) -> list[Measurement]:
    return [
        Measurement(
            Text("−1e9, whole row hidden: each weight", "−1e9，整行被遮：每个权重"),
            float(weights.by_or_TS[0, 0]),
            near(0.2, 1e-6),
        ),
        Measurement(
            Text("−inf, whole row hidden: NaN among 5", "−inf，整行被遮：5 个中的 NaN 数"),
            int(weights.by_infinity_TS[0].isnan().sum()),
            equal(5),
        ),
        Measurement(
            Text("ours, whole row hidden: sum of the weights", "我们的，整行被遮：权重之和"),
            float(weights.ours_TS[0].sum()),
            equal(0.0),
        ),
    ]


def _in_half(scores_TS: Tensor) -> Measurement:
    masked_TS = scores_TS.half() + HIDDEN_TS.half() * torch.tensor(-1e9).half()
    return Measurement(
        Text(
            "mask · −1e9 in half precision: NaN among the scores that are not hidden",
            "半精度下的 mask × −1e9：未被遮处的 NaN 比例",
        ),
        float(masked_TS[~HIDDEN_TS].isnan().double().mean()),
        equal(1.0),
    )


def _grids(weights: _Weights) -> Figure:
    numbers = [str(position + 1) for position in range(5)]
    return pictures.grids(
        Text(
            "Five queries, two places of padding on the left: rows 1 and 2 are hidden whole",
            "五个查询，左侧两处填充：第 1、2 行全被遮住",
        ),
        {
            Text("sum · −1e9", "相加 × −1e9"): weights.by_sum_TS.tolist(),
            Text("OR · −1e9", "“或” × −1e9"): weights.by_or_TS.tolist(),
            Text("−inf (NaN is blank)", "−inf（NaN 为空白）"): weights.by_infinity_TS.tolist(),
            Text("ours", "我们的"): weights.ours_TS.tolist(),
        },
        numbers,
        numbers,
        size=2.2,
    )
