"""Experiments 53 and 54: encoder and decoder layers, and what connects them."""

import torch
from torch import Tensor

from seq2see.engines.batching import collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.lab.core import (
    Context,
    Numbers,
    Part,
    at_least,
    at_most,
    experiment,
    false,
    holds,
    holds_if,
    near,
    undecided,
)
from seq2see.lab.figures import Bars
from seq2see.lab.models import max_abs_diff, record_model
from seq2see.lab.training import DECODED_SOURCES, REVERSE, to_batch
from seq2see.model import (
    AttentionModuleId,
    DecoderCache,
    KeyValues,
    ModelBuilder,
    ModelConfig,
    Transformer,
    count_parameters,
)
from seq2see.model.cache import LayerCache
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, PAD_ID

# B batch, H heads, S source tokens, T target tokens, D features of a head

BERT = ModelConfig(
    vocab_size=30_522, d_model=768, heads=12, d_ff=3072, encoder_layers=12, activation="gelu"
).replace(
    positions={"kind": "learned"}, embeddings={"scale": False, "norm": True, "token_types": 2}
)
"""The encoder of BERT base."""
BERT_PARAMETERS = 108_891_648
"""Parameters of BERT base without its pooler: 109,482,240 − (768 + 1) · 768."""


def describe(layer: torch.nn.Module) -> str:
    """Return the modules of a layer and the shapes of its parameters."""
    return f"{layer} {[(name, tuple(each.shape)) for name, each in layer.named_parameters()]}"


# Counts are exact.
@experiment(
    53,
    Part(
        "alike",
        holds(near("encoder_structures", 1, 0), near("decoder_structures", 1, 0)),
        false(at_least("encoder_structures", 2)),
    ),
    Part("weights", holds(at_most("shared", 0)), false(at_least("shared", 1))),
    Part(
        "bert",
        undecided(near("bert_difference", 0, 0)),
        false(at_least("bert_difference", 1)),
    ),
)
def encoder_and_decoder_layers(context: Context) -> Numbers:
    """Compare the structure and count the parameters of layers without allocating them."""
    del context
    with torch.device("meta"):
        model = Transformer.from_config(ModelConfig.from_preset("base", vocab_size=1000))
        bert = ModelBuilder(BERT).build_encoder()
    layers = [*model.encoder.layers, *model.decoder.layers]
    return {
        "encoder_structures": len({describe(layer) for layer in model.encoder.layers}),
        "decoder_structures": len({describe(layer) for layer in model.decoder.layers}),
        "shared": sum(map(count_parameters, layers)) - count_parameters(*layers),
        "encoder_layer": count_parameters(layers[0]),
        "decoder_layer": count_parameters(layers[-1]),
        "bert_difference": abs(count_parameters(bert) - BERT_PARAMETERS),
    }


# Sums of 64 products in float32 agree to 1e-5; keys of different matrices differ by their own size
# (about 1). A loss of 0.05 is far above what a
# layer without effect gives, 0; a search that does not stop ends at the maximum length.
@experiment(
    54,
    Part(
        "keys",
        holds_if(at_most("projection_error", 1e-5), at_least("keys_difference", 0.1)),
        holds(at_most("keys_difference", 1e-5)),
    ),
    Part(
        "layers",
        holds(at_least("loss_increase_1", 0.05), at_least("loss_increase_2", 0.05)),
        false(at_most("loss_increase_1", 0.01)),
    ),
    Part("stop", holds(at_least("stopped", 0.99)), false(at_most("stopped", 0.9))),
    trainings={"reverse": REVERSE},
    figures=[Bars("increase", ["loss_increase_1", "loss_increase_2"], "loss")],
)
@torch.no_grad()
def encoder_output_in_the_decoder(context: Context) -> Numbers:
    """Compute keys from the encoder output by hand, remove them by layer, and decode."""
    model, batch = context.trained["reverse"].model, to_batch(REVERSE.load_pairs("test")[:200])
    memory = model.encode(batch.source_BS)
    record = record_model(model, batch.source_BS, batch.decoder_input_BT).attention
    keys = [record[AttentionModuleId("decoder", layer, "cross")].keys_BHSD for layer in (0, 1)]
    real_BS = ~memory.padding_BS
    errors = []
    for layer, keys_BHSD in zip(model.decoder.layers, keys, strict=True):
        projection = layer.cross_attention.key_value
        bias_M = 0.0 if projection.bias is None else projection.bias.chunk(2)[0]
        by_hand_BSM = memory.states_BSM @ projection.weight.chunk(2)[0].T + bias_M
        keys_BSM = keys_BHSD.transpose(1, 2).flatten(2)
        errors.append(max_abs_diff(by_hand_BSM[real_BS], keys_BSM[real_BS]))
    usual = _loss(model, batch.labels_BT, batch.decoder_input_BT, model.init_cache(memory))
    increases = []
    for index in (0, 1):
        cache = model.init_cache(memory)
        kept = cache.layers[index].memory
        zeros = KeyValues(torch.zeros_like(kept.keys_BHSD), torch.zeros_like(kept.values_BHSD))
        cache.layers = [
            LayerCache(zeros) if i == index else layer for i, layer in enumerate(cache.layers)
        ]
        increases.append(_loss(model, batch.labels_BT, batch.decoder_input_BT, cache) - usual)
    inputs = [
        SentenceSearchInput([*source, EOS_ID])
        for source, _ in REVERSE.load_pairs("test")[:DECODED_SOURCES]
    ]
    found = collect_in_order(TorchEngine(model).search(inputs, SearchConfig(beam_size=1)))
    difference_BHSD = (keys[0] - keys[1]).abs()
    return {
        "projection_error": max(errors),
        "keys_difference": float(difference_BHSD.mean(dim=(1, 3))[real_BS].mean()),
        "loss_increase_1": increases[0],
        "loss_increase_2": increases[1],
        "stopped": sum(best.is_finished for best, *_ in found) / len(found),
    }


def _loss(
    model: Transformer, labels_BT: Tensor, decoder_input_BT: Tensor, cache: DecoderCache
) -> float:
    logits_BTV = model.output(model.step(decoder_input_BT, cache))
    losses = torch.nn.functional.cross_entropy(
        logits_BTV.flatten(0, 1), labels_BT.flatten(), ignore_index=PAD_ID
    )
    return float(losses)
