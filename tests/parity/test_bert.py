"""Compare the encoder with BertModel of `transformers`, with copied weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from seq2see.model import ModelBuilder, ModelConfig

VOCABULARY, MAX_LENGTH, LAYERS = 29, 16, 3

CONFIG = ModelConfig(
    vocab_size=VOCABULARY,
    d_model=32,
    heads=4,
    d_ff=48,
    encoder_layers=LAYERS,
    activation="gelu",
    positions={"kind": "learned", "max_length": MAX_LENGTH},
    norm={"eps": 1e-12},
    embeddings={"scale": False, "norm": True, "token_types": 2},
)


def make_bert() -> BertModel:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=48,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=MAX_LENGTH,
        type_vocab_size=2,
        initializer_range=0.3,
        layer_norm_eps=1e-12,
        pad_token_id=0,
    )
    return BertModel(config, add_pooling_layer=False).eval()


def convert_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of BERT under the names of `Encoder`."""
    result = {
        "embeddings.tokens.weight_VM": weights["embeddings.word_embeddings.weight"],
        "embeddings.types.weight_VM": weights["embeddings.token_type_embeddings.weight"],
        "embeddings.positions.weight_NM": weights["embeddings.position_embeddings.weight"],
    }
    for kind in ("weight", "bias"):
        result[f"embeddings.norm.{kind}"] = weights[f"embeddings.LayerNorm.{kind}"]
        for i in range(LAYERS):
            source, layer = f"encoder.layer.{i}", f"layers.{i}"
            qkv = [
                weights[f"{source}.attention.self.{x}.{kind}"] for x in ("query", "key", "value")
            ]
            result |= {
                f"{layer}.attention.qkv.{kind}": torch.cat(qkv),
                f"{layer}.attention.output.{kind}": weights[
                    f"{source}.attention.output.dense.{kind}"
                ],
                f"{layer}.attention_residual.norm.{kind}": weights[
                    f"{source}.attention.output.LayerNorm.{kind}"
                ],
                f"{layer}.feed_forward.up.{kind}": weights[f"{source}.intermediate.dense.{kind}"],
                f"{layer}.feed_forward.down.{kind}": weights[f"{source}.output.dense.{kind}"],
                f"{layer}.feed_forward_residual.norm.{kind}": weights[
                    f"{source}.output.LayerNorm.{kind}"
                ],
            }
    return result


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)], ids=str
)
def test_encoder_states_equal_those_of_bert(dtype: torch.dtype, tolerance: float) -> None:
    their_model, our_model = (
        make_bert().to(dtype),
        ModelBuilder(CONFIG).build_encoder().to(dtype).eval(),
    )
    our_model.load_state_dict(convert_weights(their_model.state_dict()))
    ids = torch.randint(1, VOCABULARY, (3, MAX_LENGTH))
    ids[1, 10:] = ids[2, 1:] = 0
    types = torch.randint(0, 2, ids.shape)
    is_token = ids != 0
    expected = their_model(
        input_ids=ids, attention_mask=is_token.long(), token_type_ids=types
    ).last_hidden_state
    actual = our_model(ids, types).states_BSM
    torch.testing.assert_close(actual[is_token], expected[is_token], rtol=0, atol=tolerance)
