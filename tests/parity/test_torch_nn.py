"""Compare attention and layers with those of `torch.nn`, with copied weights and padding."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from seq2see.model import (
    CAUSAL_MASK,
    AttentionModuleId,
    BatchLayout,
    ModelBuilder,
    ModelConfig,
    build_padded_key_mask,
)
from seq2see.model.attention import CrossAttention, SelfAttention
from seq2see.model.layers import DecoderLayer, EncoderLayer

BATCH, SOURCE, TARGET, D_MODEL, HEADS, D_FF = 4, 9, 7, 24, 3, 40
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}

precision = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
placement = pytest.mark.parametrize("placement", ["post", "pre"])
activation = pytest.mark.parametrize("activation", ["relu", "gelu"])


def config(**settings: object) -> ModelConfig:
    sizes = {"vocab_size": 11, "d_model": D_MODEL, "heads": HEADS, "d_ff": D_FF}
    return ModelConfig(**{**sizes, **settings})


def source(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return vectors and padding: none, one token, most tokens, all but one token."""
    padding = torch.zeros(BATCH, SOURCE, dtype=torch.bool)
    padding[1, -1:] = padding[2, 4:] = padding[3, 1:] = True
    return torch.randn(BATCH, SOURCE, D_MODEL, dtype=dtype), padding


def layouts(padding: Tensor) -> list[BatchLayout]:
    """Return the layouts with and without padding."""
    return [BatchLayout(*padding.shape), BatchLayout.from_padding(padding)]


def assert_close_at_tokens(actual: Tensor, expected: Tensor, padding: Tensor) -> None:
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual[~padding], expected[~padding], rtol=0, atol=tolerance)


def randomize(module: nn.Module) -> None:
    """Set all parameters to random values; new norms and biases are ones and zeros."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)


def torch_layer(kind: type, dtype: torch.dtype, placement: str, activation: str) -> nn.Module:
    layer: nn.Module = kind(
        D_MODEL,
        HEADS,
        D_FF,
        dropout=0.0,
        activation=activation,
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=placement == "pre",
        dtype=dtype,
    )
    randomize(layer)
    return layer


def copy_attention(theirs: nn.MultiheadAttention, ours: SelfAttention | CrossAttention) -> None:
    stacked, bias = theirs.in_proj_weight, theirs.in_proj_bias
    pairs = [(theirs.out_proj.weight, ours.output.weight), (theirs.out_proj.bias, ours.output.bias)]
    if isinstance(ours, SelfAttention):
        pairs += [(stacked, ours.qkv.weight), (bias, ours.qkv.bias)]
    else:
        pairs += [(stacked[:D_MODEL], ours.query.weight), (bias[:D_MODEL], ours.query.bias)]
        pairs += [(stacked[D_MODEL:], ours.key_value.weight), (bias[D_MODEL:], ours.key_value.bias)]
    copy_pairs(pairs)


def copy_pairs(pairs: list[tuple[Tensor, Tensor]]) -> None:
    with torch.no_grad():
        for theirs, ours in pairs:
            ours.copy_(theirs)


def copy_layer(
    theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer,
    ours: EncoderLayer | DecoderLayer,
) -> None:
    residuals = [ours.attention_residual]
    copy_attention(theirs.self_attn, ours.attention)
    if isinstance(ours, DecoderLayer):
        copy_attention(theirs.multihead_attn, ours.cross_attention)
        residuals.append(ours.cross_attention_residual)
    residuals.append(ours.feed_forward_residual)
    pairs = [
        (theirs.linear1.weight, ours.feed_forward.up.weight),
        (theirs.linear1.bias, ours.feed_forward.up.bias),
        (theirs.linear2.weight, ours.feed_forward.down.weight),
        (theirs.linear2.bias, ours.feed_forward.down.bias),
    ]
    for i, residual in enumerate(residuals, 1):
        norm = getattr(theirs, f"norm{i}")
        pairs += [(norm.weight, residual.norm.weight), (norm.bias, residual.norm.bias)]
    copy_pairs(pairs)


@precision
def test_self_attention_equals_torch(dtype: torch.dtype) -> None:
    x, padding = source(dtype)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=dtype)
    randomize(theirs)
    site = AttentionModuleId("encoder", 0, "self")
    ours = ModelBuilder(config()).build_self_attention(config().attention, site).to(dtype)
    copy_attention(theirs, ours)
    expected, _ = theirs(x, x, x, key_padding_mask=padding)
    for layout in layouts(padding):
        actual, _ = ours(layout.flatten(x), layout, build_padded_key_mask(padding))
        assert_close_at_tokens(layout.unflatten(actual), expected, padding)


@precision
def test_cross_attention_and_its_weights_equal_torch(dtype: torch.dtype) -> None:
    memory, padding = source(dtype)
    x = torch.randn(BATCH, TARGET, D_MODEL, dtype=dtype)
    theirs = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True, dtype=dtype)
    randomize(theirs)
    site = AttentionModuleId("decoder", 0, "cross")
    ours = ModelBuilder(config()).build_cross_attention(config().attention, site).to(dtype)
    copy_attention(theirs, ours)
    expected, expected_weights = theirs(
        x, memory, memory, key_padding_mask=padding, average_attn_weights=False
    )
    weights = []

    class WeightsRecorder:
        def attention_listener(self, site: AttentionModuleId) -> object:
            return lambda record: weights.append(record.weights_BHTS)

    target_layout = BatchLayout(BATCH, TARGET)
    for recorder in ({}, {"recorder": WeightsRecorder()}):  # fused, then plain
        for layout in layouts(padding):
            key_values = ours.project_memory(layout.flatten(memory), layout)
            actual = ours(
                target_layout.flatten(x),
                key_values,
                target_layout,
                build_padded_key_mask(padding),
                **recorder,
            )
            torch.testing.assert_close(
                actual, expected.flatten(0, 1), rtol=0, atol=TOLERANCE[dtype]
            )
    torch.testing.assert_close(weights[0], expected_weights, rtol=0, atol=TOLERANCE[dtype])


@precision
@placement
@activation
def test_encoder_layer_equals_torch(dtype: torch.dtype, placement: str, activation: str) -> None:
    x, padding = source(dtype)
    theirs = torch_layer(nn.TransformerEncoderLayer, dtype, placement, activation)
    builder = ModelBuilder(config(norm={"placement": placement}, activation=activation))
    ours = builder.build_encoder_layer(0).to(dtype).eval()
    copy_layer(theirs, ours)
    expected = theirs(x, src_key_padding_mask=padding)
    for layout in layouts(padding):
        actual = ours(layout.flatten(x), layout, build_padded_key_mask(padding))
        assert_close_at_tokens(layout.unflatten(actual), expected, padding)


@precision
@placement
@activation
def test_decoder_layer_equals_torch(dtype: torch.dtype, placement: str, activation: str) -> None:
    memory, padding = source(dtype)
    x = torch.randn(BATCH, TARGET, D_MODEL, dtype=dtype)
    theirs = torch_layer(nn.TransformerDecoderLayer, dtype, placement, activation)
    builder = ModelBuilder(config(norm={"placement": placement}, activation=activation))
    ours = builder.build_decoder_layer(0).to(dtype).eval()
    copy_layer(theirs, ours)
    causal_mask = nn.Transformer.generate_square_subsequent_mask(TARGET, dtype=dtype)
    expected = theirs(x, memory, tgt_mask=causal_mask, memory_key_padding_mask=padding)
    source_layout, layout = BatchLayout.from_padding(padding), BatchLayout(BATCH, TARGET)
    cache = ours.init_cache(source_layout.flatten(memory), source_layout)
    actual, _ = ours(layout.flatten(x), layout, cache, build_padded_key_mask(padding))
    expected = expected.flatten(0, 1)
    torch.testing.assert_close(actual, expected, rtol=0, atol=TOLERANCE[dtype])


@precision
@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_equals_plain_attention(dtype: torch.dtype, causal: bool) -> None:
    _, padding = source(dtype)
    q, k, v = (torch.randn(BATCH, HEADS, SOURCE, 8, dtype=dtype, requires_grad=True) for _ in "qkv")
    attention = ModelBuilder(config()).build_attention_function(
        config().attention, AttentionModuleId("decoder", 0, "self")
    )
    mask = (
        build_padded_key_mask(padding) | CAUSAL_MASK if causal else build_padded_key_mask(padding)
    )
    fused = attention(q, k, v, mask)
    plain = attention(q, k, v, mask, listener=lambda record: None)
    torch.testing.assert_close(fused, plain, rtol=0, atol=TOLERANCE[dtype])
    direction = torch.randn_like(plain)
    for a, b in zip(
        torch.autograd.grad(fused, (q, k, v), direction),
        torch.autograd.grad(plain, (q, k, v), direction),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE[dtype])
