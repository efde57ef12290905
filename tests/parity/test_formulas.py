"""Compare variants that no library has with direct implementations of their formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    CAUSAL_MASK,
    NO_MASK,
    AdditiveAttention,
    AttentionMask,
    DotProductAttention,
    LinformerAttention,
    QKNormAttention,
    RelativeAttention,
    RelativePositionEmbeddings,
    build_padded_key_mask,
    compute_sinusoids,
)
from seq2see.model.basic_modules import Dropout

BATCH, HEADS, LENGTH, D_HEAD = 2, 3, 6, 4


def heads(length: int = LENGTH) -> Tensor:
    return torch.randn(BATCH, HEADS, length, D_HEAD, dtype=torch.float64)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("mask", [NO_MASK, CAUSAL_MASK], ids=["no mask", "causal"])
def test_relative_attention_equals_formula_of_shaw(mask: AttentionMask) -> None:
    """e_ij = scale · q_i·(k_j + a^K_ij), z_i = Σ_j α_ij (v_j + a^V_ij), a clipped at ±2."""
    distances = RelativePositionEmbeddings(D_HEAD, max_distance=2).double()
    attention = RelativeAttention(0.5, distances, Dropout(0.0))
    q, k, v = heads(), heads(), heads()
    expected = torch.zeros_like(q)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                keys = range(i + 1 if mask.is_causal else LENGTH)
                rows = [min(max(j - i, -2), 2) + 2 for j in keys]
                scores = torch.stack(
                    [
                        0.5 * torch.dot(q[b, h, i], k[b, h, j] + distances.key_RD[row])
                        for j, row in zip(keys, rows, strict=True)
                    ]
                )
                for j, row in zip(keys, rows, strict=True):
                    weight = scores.softmax(0)[j]
                    expected[b, h, i] += weight * (v[b, h, j] + distances.value_RD[row])
    close(attention(q, k, v, mask), expected)


def test_linformer_equals_formula_without_padding() -> None:
    """softmax(scale · q (E k)ᵀ) (F v), without padded keys in the sums."""
    rank, max_length = 3, 9
    attention = LinformerAttention(max_length, rank, 0.5, Dropout(0.0)).double()
    q, k, v = heads(), heads(), heads()
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[1, 4:] = True
    expected = torch.zeros_like(q)
    for b in range(BATCH):
        length = LENGTH if b == 0 else 4
        for h in range(HEADS):
            keys = sum(torch.outer(attention.mix_keys_RS[:, j], k[b, h, j]) for j in range(length))
            values = sum(
                torch.outer(attention.mix_values_RS[:, j], v[b, h, j]) for j in range(length)
            )
            for i in range(LENGTH):
                weights = torch.stack([0.5 * q[b, h, i] @ keys[r] for r in range(rank)]).softmax(0)
                expected[b, h, i] = sum(weights[r] * values[r] for r in range(rank))
    close(attention(q, k, v, build_padded_key_mask(padding)), expected)


def test_additive_attention_equals_formula_of_bahdanau() -> None:
    """e_ij = v_h · tanh(q_i + k_j + b_h)."""
    attention = AdditiveAttention(HEADS, D_HEAD, Dropout(0.0)).double()
    torch.nn.init.normal_(attention.bias_HD)
    q, k = heads(), heads(5)
    scores = attention.compute_scores(q, k)
    for b, h, i, j in [(0, 0, 0, 0), (1, 2, 5, 4), (0, 1, 3, 2)]:
        state = (q[b, h, i] + k[b, h, j] + attention.bias_HD[h]).tanh()
        close(scores[b, h, i, j], torch.dot(attention.vector_HD[h], state))


@pytest.mark.parametrize("scale", [D_HEAD**-0.5, 1.0, 0.3])
def test_dot_product_attention_equals_formula_at_any_scale(scale: float) -> None:
    """softmax(scale · q kᵀ) v, for single queries."""
    q, k, v = heads(), heads(5), heads(5)
    actual = DotProductAttention(scale, Dropout(0.0))(q, k, v)
    for b, h, i in [(0, 0, 0), (1, 2, 5)]:
        weights = torch.stack(
            [scale * torch.dot(q[b, h, i], k[b, h, j]) for j in range(5)]
        ).softmax(0)
        close(actual[b, h, i], sum(weights[j] * v[b, h, j] for j in range(5)))


def test_qk_norm_attention_normalizes_each_head() -> None:
    """LayerNorm over the features of each head, then the unscaled product."""
    attention = QKNormAttention(D_HEAD, 1.0, 1e-6, Dropout(0.0)).double()
    q, k, v = heads(), heads(), heads()

    def norm(x: Tensor) -> Tensor:
        variance = x.var(-1, correction=0, keepdim=True)
        return (x - x.mean(-1, keepdim=True)) / (variance + 1e-6).sqrt()

    expected = (norm(q) @ norm(k).transpose(-1, -2)).softmax(-1) @ v
    close(attention(q, k, v), expected)


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("frequencies", ["paper", "tensor2tensor"])
def test_sinusoids_equal_formula(layout: str, frequencies: str) -> None:
    """Layout and frequencies are independent options."""
    d_model, length = 10, 40
    actual = compute_sinusoids(torch.arange(length), d_model, layout, frequencies)
    half = d_model // 2
    for position in range(length):
        for i in range(half):
            exponent = 2 * i / d_model if frequencies == "paper" else i / (half - 1)
            angle = position / 10000**exponent
            sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, half + i)
            assert actual[position, sine].item() == pytest.approx(math.sin(angle), abs=1e-12)
            assert actual[position, cosine].item() == pytest.approx(math.cos(angle), abs=1e-12)
