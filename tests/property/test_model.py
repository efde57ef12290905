"""Relations between computations that must agree, for all model variants and random shapes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from seq2see.model import (
    AttentionModuleId,
    ModelBuilder,
    ModelConfig,
    Transformer,
    count_parameters,
)

VOCABULARY = 13
PAD = 0

VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": {"placement": "pre"}},
    "no norm": {"norm": {"kind": "none"}},
    "batch norm": {"norm": {"kind": "batch"}},
    "unscaled": {"attention": {"kind": "dot"}},
    "scale": {"attention": {"scale": 0.3}},
    "additive": {"attention": {"kind": "additive"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "shared qk": {"attention": {"shared_qk": True}},
    "linformer": {"encoder_attention": {"kind": "linformer", "rank": 3}},
    "halves": {"positions": {"layout": "halves", "frequencies": "tensor2tensor"}},
    "learned": {"positions": {"kind": "learned", "max_length": 20}},
    "relative": {"positions": {"kind": "relative", "max_distance": 3}},
    "no positions": {"positions": {"kind": "none"}},
    "gelu, untied": {"activation": "gelu", "embeddings": {"tie": "none", "norm": True}},
}

variants = pytest.mark.parametrize("variant", VARIANTS)
shapes = st.fixed_dictionaries(
    {
        "batch": st.integers(1, 5),
        "source": st.integers(1, 9),
        "target": st.integers(1, 9),
        "heads": st.sampled_from([1, 2, 3, 6]),
        "seed": st.integers(0, 2**31),
    }
)


def model(variant: str, heads: int = 2, **settings: Any) -> Transformer:
    sizes = {"d_model": 12, "d_ff": 16, "encoder_layers": 2, "decoder_layers": 2, "heads": heads}
    config = ModelConfig(vocab_size=VOCABULARY, **{**sizes, **VARIANTS[variant], **settings})
    return Transformer.from_config(config).double().eval()


def sentences(batch: int, length: int) -> Tensor:
    """Return random sentences with at least one token, padded on the right."""
    ids = torch.randint(1, VOCABULARY, (batch, length))
    lengths = torch.randint(1, length + 1, (batch, 1))
    return ids.masked_fill(torch.arange(length) >= lengths, PAD)


def targets(batch: int, length: int) -> Tensor:
    """Return random sentences padded on the right, with the pad id also inside and at the start."""
    return sentences(batch, length).masked_fill(torch.rand(batch, length) < 0.2, PAD)


def is_token(tgt: Tensor) -> Tensor:
    """Return True up to the last token that is not padding; always for the first token."""
    last = [max([0, *row.nonzero().flatten().tolist()]) for row in tgt]
    return torch.arange(tgt.size(1)) <= torch.tensor(last)[:, None]


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-10)


@variants
@given(shapes)
def test_cached_decoding_equals_full_decoding(variant: str, shape: dict[str, int]) -> None:
    torch.manual_seed(shape["seed"])
    net = model(variant, shape["heads"])
    src = sentences(shape["batch"], shape["source"])
    tgt = torch.randint(0, VOCABULARY, (shape["batch"], shape["target"]))
    cache = net.init_cache(net.encode(src))
    widths = [1] * shape["target"]
    if shape["target"] > 2:  # several tokens in one step
        widths = [1, 2, *[1] * (shape["target"] - 3)]
    steps = [net.step(part, cache) for part in tgt.split(widths, dim=1)]
    close(torch.cat(steps, dim=1), net.decode(tgt, net.encode(src)))
    assert cache.length == shape["target"]


@variants
@given(shapes)
def test_reordered_cache_equals_reordered_batch(variant: str, shape: dict[str, int]) -> None:
    torch.manual_seed(shape["seed"])
    net = model(variant, shape["heads"])
    src = sentences(shape["batch"], shape["source"])
    tgt = torch.randint(0, VOCABULARY, (shape["batch"], shape["target"]))
    index = torch.randint(0, shape["batch"], (shape["batch"] + 2,))  # rows are repeated and removed
    last = torch.randint(0, VOCABULARY, (len(index), 1))
    cache = net.init_cache(net.encode(src))
    net.step(tgt, cache)
    cache.reorder(index, torch.zeros(len(index), 1, dtype=torch.long))
    full = torch.cat((tgt[index], last), dim=1)
    expected = net.decode(full, net.encode(src[index]))
    close(net.step(last, cache), expected[:, -1:])


@variants
@given(shapes)
def test_padded_batch_equals_single_sentences(variant: str, shape: dict[str, int]) -> None:
    torch.manual_seed(shape["seed"])
    net = model(variant, shape["heads"])
    src, tgt = (sentences(shape["batch"], shape[side]) for side in ("source", "target"))
    batched = net(src, tgt)
    for row in range(shape["batch"]):
        source, target = (ids[row][ids[row] != PAD][None] for ids in (src, tgt))
        close(batched[row, : target.size(1)], net(source, target)[0])


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "batch norm"])
@given(shapes)
def test_removal_of_padding_does_not_change_results(variant: str, shape: dict[str, int]) -> None:
    """The decoder removes padding only in training; logits and gradients must be the same."""
    torch.manual_seed(shape["seed"])
    no_dropout = dict.fromkeys(("embedding", "residual", "attention", "activation"), 0.0)
    net = model(variant, shape["heads"], dropout=no_dropout)
    src = sentences(shape["batch"], shape["source"])
    tgt = targets(shape["batch"], shape["target"])
    logits, gradients = [], []
    for training in (True, False):
        logits.append(net.train(training)(src, tgt)[is_token(tgt)])
        gradients.append(torch.autograd.grad(logits[-1].square().sum(), list(net.parameters())))
    close(*logits)
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


@variants
@given(shapes, st.data())
def test_later_tokens_change_no_bit_of_earlier_logits(
    variant: str, shape: dict[str, int], data: st.DataObject
) -> None:
    torch.manual_seed(shape["seed"])
    net = model(variant, shape["heads"]).float()
    src = sentences(shape["batch"], shape["source"])
    tgt = torch.randint(0, VOCABULARY, (shape["batch"], shape["target"]))
    known = data.draw(st.integers(1, shape["target"]))
    other = tgt.clone()
    other[:, known:] = torch.randint(0, VOCABULARY, other[:, known:].shape)
    assert torch.equal(net(src, tgt)[:, :known], net(src, other)[:, :known])


@given(shapes)
def test_encoder_without_positions_is_permutation_equivariant(shape: dict[str, int]) -> None:
    torch.manual_seed(shape["seed"])
    net = model("no positions", shape["heads"])
    src = torch.randint(1, VOCABULARY, (shape["batch"], shape["source"]))
    order = torch.randperm(shape["source"])
    close(net.encode(src[:, order]).states_BSM, net.encode(src).states_BSM[:, order])


@pytest.mark.parametrize("variant", ["paper", "learned", "relative"])
def test_encoder_with_positions_is_not_permutation_equivariant(variant: str) -> None:
    net = model(variant)
    src = torch.tensor([[1, 2, 3, 4]])
    order = torch.tensor([1, 0, 3, 2])
    permuted = net.encode(src[:, order]).states_BSM
    assert not torch.allclose(permuted, net.encode(src).states_BSM[:, order], atol=1e-3)


@variants
def test_source_of_only_padding_gives_finite_logits(variant: str) -> None:
    net = model(variant)
    src = torch.tensor([[1, 2, 3], [PAD, PAD, PAD]])
    assert net(src, torch.tensor([[1, 2], [1, 2]])).isfinite().all()


@variants
def test_gradients_are_finite_with_padding(variant: str) -> None:
    net = model(variant).train()
    src = torch.tensor([[1, 2, 3], [4, 5, PAD], [PAD, PAD, PAD]])
    net(src, torch.tensor([[1, 2], [3, PAD], [PAD, 5]])).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@given(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]))
def test_parameter_count_does_not_depend_on_heads(heads: int) -> None:
    config = ModelConfig(vocab_size=8, heads=heads, attention={"bias": False})
    builder = ModelBuilder(config)
    attentions = [
        builder.build_self_attention(config.attention, AttentionModuleId("encoder", 0, "self")),
        builder.build_cross_attention(config.attention, AttentionModuleId("decoder", 0, "cross")),
    ]
    assert [count_parameters(a) for a in attentions] == [1_048_576] * 2


@given(st.floats(-1e4, 1e4), st.integers(0, 2**31))
def test_log_probabilities_are_finite_at_any_magnitude(power: float, seed: int) -> None:
    torch.manual_seed(seed)
    net = model("paper").float()
    states = torch.randn(2, 3, 12) * (10.0 ** (abs(power) % 30))
    log_probabilities = net.output.log_probabilities(states)
    assert log_probabilities.isfinite().all()
    close(log_probabilities.double().exp().sum(-1).round(decimals=4), torch.ones(2, 3).double())
