"""The gradient of every attention, against finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    CAUSAL_MASK,
    AdditiveAttention,
    Attention,
    AttentionMask,
    AttentionSite,
    BatchLayout,
    DotProductAttention,
    LinformerAttention,
    ModelBuilder,
    ModelConfig,
    QKNormAttention,
    RelativeAttention,
    RelativePositionEmbeddings,
    build_padding_mask,
)
from seq2see.model.modules import Dropout

HEADS, LENGTH, D_HEAD = 2, 4, 3
STILL = Dropout(0.0)
KINDS: dict[str, Callable[[], Attention]] = {
    "scaled": lambda: DotProductAttention(D_HEAD**-0.5, STILL),
    "unscaled": lambda: DotProductAttention(1.0, STILL),
    "additive": lambda: AdditiveAttention(HEADS, D_HEAD, STILL),
    "qk norm": lambda: QKNormAttention(D_HEAD, 1.0, 1e-6, STILL),
    "relative": lambda: RelativeAttention(0.5, RelativePositionEmbeddings(D_HEAD, 2), STILL),
    "linformer": lambda: LinformerAttention(6, 2, 0.5, STILL),
}
HIDDEN = torch.tensor([[False] * LENGTH, [False, False, True, True], [True] * LENGTH])


def ignore(record: object) -> None:
    """Listen, so that the plain form runs."""


@pytest.mark.parametrize("listener", [None, ignore], ids=["fused", "plain"])
@pytest.mark.parametrize("masked", ["padding", "causal"])
@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind: str, masked: str, listener: Callable[[object], None] | None) -> None:
    if kind == "linformer" and masked == "causal":
        pytest.skip("linformer cannot be causal, and the config refuses it")
    mask: AttentionMask = build_padding_mask(HIDDEN) if masked == "padding" else CAUSAL_MASK
    attention = KINDS[kind]().double()
    weights = list(attention.parameters())
    shape = (len(HIDDEN), HEADS, LENGTH, D_HEAD)
    q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in "qkv")

    def attend(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        return attention(q, k, v, mask, listener)

    assert torch.autograd.gradcheck(attend, (q, k, v, *weights))


def test_a_row_without_padding() -> None:
    layout = BatchLayout.from_padding(HIDDEN)
    x = torch.randn(*HIDDEN.shape, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.flatten, x)
    assert torch.autograd.gradcheck(layout.unflatten, layout.flatten(x))
    assert torch.autograd.gradgradcheck(lambda x: layout.unflatten(layout.flatten(x).square()), x)


@pytest.mark.parametrize("shared_qk", [False, True])
def test_multi_head(shared_qk: bool) -> None:
    config = ModelConfig(
        vocab_size=3, d_model=HEADS * 2, heads=HEADS, attention={"shared_qk": shared_qk}
    )
    builder = ModelBuilder(config)
    own = builder.build_self_attention(
        config.attention, AttentionSite("encoder", 0, "self")
    ).double()
    cross = builder.build_cross_attention(
        config.attention, AttentionSite("decoder", 0, "cross")
    ).double()
    x, memory = (
        torch.randn(len(HIDDEN), LENGTH, config.d_model, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    weights = [*own.parameters(), *cross.parameters()]

    def attend(x: Tensor, memory: Tensor, *_: Tensor) -> Tensor:
        whole, ragged = BatchLayout(*x.shape[:2]), BatchLayout.from_padding(HIDDEN)
        mixed, _past = own(whole.flatten(x), whole, CAUSAL_MASK)
        past = cross.project_memory(ragged.flatten(memory), ragged)
        return cross(mixed, past, whole, build_padding_mask(HIDDEN))

    assert torch.autograd.gradcheck(attend, (x, memory, *weights))
