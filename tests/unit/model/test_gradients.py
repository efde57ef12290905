"""Compare the gradients of attention with finite differences in float64."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    CAUSAL_MASK,
    AdditiveAttention,
    AttentionFunction,
    AttentionMask,
    AttentionModuleId,
    BatchLayout,
    DotProductAttention,
    LinformerAttention,
    ModelBuilder,
    ModelConfig,
    QKNormAttention,
    RelativeAttention,
    RelativePositionEmbeddings,
    build_padded_key_mask,
)
from seq2see.model.basic_modules import Dropout

HEADS, LENGTH, D_HEAD = 2, 4, 3
NO_DROPOUT = Dropout(0.0)
KINDS: dict[str, Callable[[], AttentionFunction]] = {
    "scaled": lambda: DotProductAttention(D_HEAD**-0.5, NO_DROPOUT),
    "unscaled": lambda: DotProductAttention(1.0, NO_DROPOUT),
    "additive": lambda: AdditiveAttention(HEADS, D_HEAD, NO_DROPOUT),
    "qk norm": lambda: QKNormAttention(D_HEAD, 1.0, 1e-6, NO_DROPOUT),
    "relative": lambda: RelativeAttention(0.5, RelativePositionEmbeddings(D_HEAD, 2), NO_DROPOUT),
    "linformer": lambda: LinformerAttention(6, 2, 0.5, NO_DROPOUT),
}
PADDING = torch.tensor([[False] * LENGTH, [False, False, True, True], [True] * LENGTH])


def ignore(record: object) -> None:
    """Listener that selects the plain implementation."""


@pytest.mark.parametrize("listener", [None, ignore], ids=["fused", "plain"])
@pytest.mark.parametrize("masked", ["padding", "causal"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_attention_functions(
    kind: str, masked: str, listener: Callable[[object], None] | None
) -> None:
    if kind == "linformer" and masked == "causal":
        pytest.skip("linformer attention cannot be causal")
    mask: AttentionMask = build_padded_key_mask(PADDING) if masked == "padding" else CAUSAL_MASK
    attention = KINDS[kind]().double()
    weights = list(attention.parameters())
    shape = (len(PADDING), HEADS, LENGTH, D_HEAD)
    q, k, v = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in "qkv")

    def attend(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
        return attention(q, k, v, mask, listener)

    assert torch.autograd.gradcheck(attend, (q, k, v, *weights))


def test_gradients_of_layout_without_padding() -> None:
    layout = BatchLayout.from_padding(PADDING)
    x = torch.randn(*PADDING.shape, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layout.flatten, x)
    assert torch.autograd.gradcheck(layout.unflatten, layout.flatten(x))
    assert torch.autograd.gradgradcheck(lambda x: layout.unflatten(layout.flatten(x).square()), x)


@pytest.mark.parametrize("shared_qk", [False, True])
def test_gradients_of_multi_head_attention(shared_qk: bool) -> None:
    config = ModelConfig(
        vocab_size=3, d_model=HEADS * 2, heads=HEADS, attention={"shared_qk": shared_qk}
    )
    builder = ModelBuilder(config)
    self_attention = builder.build_self_attention(
        config.attention, AttentionModuleId("encoder", 0, "self")
    ).double()
    cross = builder.build_cross_attention(
        config.attention, AttentionModuleId("decoder", 0, "cross")
    ).double()
    x, memory = (
        torch.randn(len(PADDING), LENGTH, config.d_model, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )
    weights = [*self_attention.parameters(), *cross.parameters()]

    def attend(x: Tensor, memory: Tensor, *_: Tensor) -> Tensor:
        layout, unpadded = BatchLayout(*x.shape[:2]), BatchLayout.from_padding(PADDING)
        output, _ = self_attention(layout.flatten(x), layout, CAUSAL_MASK)
        key_values = cross.project_memory(unpadded.flatten(memory), unpadded)
        return cross(output, key_values, layout, build_padded_key_mask(PADDING))

    assert torch.autograd.gradcheck(attend, (x, memory, *weights))
