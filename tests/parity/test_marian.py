"""Parity with MarianMTModel of `transformers`: the same weights give the same logits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import MarianMTModel

from seq2see.model import ModelConfig, Transformer

VOCAB_SIZE, PAD = 31, 30
LAYERS = 2


@pytest.fixture
def marian_model(marian: Callable[..., MarianMTModel]) -> MarianMTModel:
    settings = {"activation_function": "swish", "scale_embedding": True, "init_std": 0.3}
    model = marian(
        VOCAB_SIZE, PAD, heads=4, max_position_embeddings=64, use_cache=False, **settings
    )
    torch.nn.init.normal_(model.final_logits_bias)
    return model


def compute_exact_positions(model: MarianMTModel) -> None:
    """Recompute the table of positions by its formula, because it is rounded to float32."""
    for stack in (model.model.encoder, model.model.decoder):
        table = stack.embed_positions.weight
        count, d_model = table.shape
        position = np.arange(count)[:, None]
        angles = position / np.power(10000, 2 * (np.arange(d_model)[None] // 2) / d_model)
        waves = np.concatenate((np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])), axis=1)
        with torch.no_grad():
            table.copy_(torch.from_numpy(waves))


def build_model() -> Transformer:
    config = ModelConfig(
        vocab_size=VOCAB_SIZE,
        pad_id=PAD,
        d_model=32,
        heads=4,
        d_ff=48,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        activation="silu",
        positions={"layout": "halves"},
        norm={"eps": 1e-5},
        embeddings={"output_bias": True},
    )
    return Transformer.from_config(config).eval()


def rename_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of Marian under the names of `Transformer`."""
    table = weights["model.shared.weight"]
    result = {f"{s}.embeddings.tokens.weight_VM": table for s in ("encoder", "decoder")}
    result["output.tokens.weight_VM"] = table
    result["output.bias_V"] = weights["final_logits_bias"][0]
    for stack in ("encoder", "decoder"):
        for i in range(LAYERS):
            layer, source = f"{stack}.layers.{i}", f"model.{stack}.layers.{i}"
            for kind in ("weight", "bias"):

                def concatenate(*names: str, source: str = source, kind: str = kind) -> Tensor:
                    return torch.cat([weights[f"{source}.{name}.{kind}"] for name in names])

                qkv = [f"self_attn.{x}_proj" for x in "qkv"]
                result |= {
                    f"{layer}.attention.qkv.{kind}": concatenate(*qkv),
                    f"{layer}.attention.output.{kind}": concatenate("self_attn.out_proj"),
                    f"{layer}.attention_residual.norm.{kind}": concatenate("self_attn_layer_norm"),
                    f"{layer}.feed_forward.up.{kind}": concatenate("fc1"),
                    f"{layer}.feed_forward.down.{kind}": concatenate("fc2"),
                    f"{layer}.feed_forward_residual.norm.{kind}": concatenate("final_layer_norm"),
                }
                if stack == "decoder":
                    cross = f"{layer}.cross_attention"
                    kv = [f"encoder_attn.{x}_proj" for x in "kv"]
                    result |= {
                        f"{cross}.query.{kind}": concatenate("encoder_attn.q_proj"),
                        f"{cross}.key_value.{kind}": concatenate(*kv),
                        f"{cross}.output.{kind}": concatenate("encoder_attn.out_proj"),
                        f"{cross}_residual.norm.{kind}": concatenate("encoder_attn_layer_norm"),
                    }
    return result


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)], ids=str
)
def test_logits_equal_those_of_transformers(
    marian_model: MarianMTModel, dtype: torch.dtype, tolerance: float
) -> None:
    expected_model, model = marian_model.to(dtype), build_model().to(dtype)
    compute_exact_positions(expected_model)
    model.load_state_dict(rename_weights(expected_model.state_dict()))
    src = torch.randint(0, PAD, (3, 11))
    src[1, 8:] = src[2, 3:] = PAD
    tgt = torch.randint(0, PAD, (3, 9))
    tgt[:, 0] = PAD  # the start token of Marian is the padding token
    tgt[2, 6:] = PAD
    expected = expected_model(
        input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt
    ).logits
    torch.testing.assert_close(model(src, tgt), expected, rtol=0, atol=tolerance)
