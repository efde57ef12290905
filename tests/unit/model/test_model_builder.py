"""Tests that the builder creates the modules that the config describes."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seq2see.model import (
    NO_MASK,
    AdditiveAttention,
    AttentionIntermediates,
    AttentionModuleId,
    BatchLayout,
    DotProductAttention,
    LinformerAttention,
    ModelBuilder,
    ModelConfig,
    QKNormAttention,
    RelativeAttention,
    StackName,
    Transformer,
)
from seq2see.model.basic_modules import ACTIVATIONS, Dropout

SRC, TGT = torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 6], [2, 7]])
SELF, CROSS = AttentionModuleId("encoder", 0, "self"), AttentionModuleId("decoder", 0, "cross")
SIZES: dict[str, Any] = {
    "vocab_size": 10,
    "d_model": 8,
    "heads": 2,
    "d_ff": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
}


def config(**settings: Any) -> ModelConfig:
    return ModelConfig(**{**SIZES, **settings})


@pytest.mark.parametrize(
    ("attention", "expected_type", "scale"),
    [
        ({"kind": "scaled_dot"}, DotProductAttention, 0.5),
        ({"kind": "scaled_dot", "scale": 0.3}, DotProductAttention, 0.3),
        ({"kind": "dot"}, DotProductAttention, 1.0),
        ({"kind": "dot", "scale": 0.3}, DotProductAttention, 0.3),
        ({"kind": "qk_norm"}, QKNormAttention, 1.0),
        ({"kind": "qk_norm", "scale": 2.0}, QKNormAttention, 2.0),
        ({"kind": "linformer"}, LinformerAttention, 0.5),
        ({"kind": "linformer", "scale": 0.3}, LinformerAttention, 0.3),
        ({"kind": "additive"}, AdditiveAttention, None),
    ],
)
def test_builder_selects_attention_and_scale(
    attention: dict[str, Any], expected_type: type, scale: float | None
) -> None:
    settings = config(encoder_attention=attention)
    built = ModelBuilder(settings).build_attention_function(
        settings.resolve_attention("encoder_attention"), SELF
    )
    assert type(built) is expected_type
    assert getattr(built, "scale", None) == scale


@pytest.mark.parametrize(
    ("attention", "scale"),
    [({}, 0.5), ({"kind": "dot"}, 1.0), ({"scale": 0.3}, 0.3)],
)
def test_relative_positions_are_only_in_self_attention(
    attention: dict[str, Any], scale: float
) -> None:
    settings = config(positions={"kind": "relative"}, attention=attention)
    built = [
        ModelBuilder(settings).build_attention_function(settings.attention, site)
        for site in (SELF, CROSS)
    ]
    assert [type(a) for a in built] == [RelativeAttention, DotProductAttention]
    assert [a.scale for a in built] == [scale, scale]


def test_activations_equal_their_formulas() -> None:
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    cube = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    expected = {
        "relu": x.clamp(min=0),
        "gelu": x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "gelu_tanh": 0.5 * x * (1 + cube.tanh()),
        "silu": x / (1 + (-x).exp()),
    }
    for name, activation in ACTIVATIONS.items():
        torch.testing.assert_close(activation(x), expected[name], rtol=0, atol=1e-12)
    assert set(ACTIVATIONS) == set(expected)


def test_each_dropout_module_has_its_configured_rate() -> None:
    rates = {"embedding": 0.1, "residual": 0.2, "attention": 0.3, "activation": 0.4}
    model = Transformer.from_config(config(dropout=rates))
    settings = {
        "embeddings.dropout": "embedding",
        "attention.attention.dropout": "attention",
        "feed_forward.dropout": "activation",
        "residual.dropout": "residual",
    }
    modules = [(name, m.rate) for name, m in model.named_modules() if isinstance(m, Dropout)]
    assert len(modules) == 2 + 4 + 6
    for name, rate in modules:
        (setting,) = (setting for end, setting in settings.items() if name.endswith(end))
        assert rate == rates[setting], name


class DropAll(Dropout):
    """Sets all elements to zero."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_residual_dropout_is_applied_before_addition(placement: str) -> None:
    """If all sublayer outputs are dropped, the output is the input, with norms in post-norm."""
    builder = ModelBuilder(config(norm={"placement": placement}))
    layer = builder.build_encoder_layer(0)
    layer.attention_residual.dropout = layer.feed_forward_residual.dropout = DropAll(0.5)
    x = torch.randn(3, 8)
    norm = nn.LayerNorm(8, 1e-6)
    expected = norm(norm(x)) if placement == "post" else x
    layout = BatchLayout(1, 3)
    torch.testing.assert_close(layer(x, layout, NO_MASK), expected)


def test_activation_dropout_is_applied_after_activation() -> None:
    """With the activation x + 1, which is not 0 at 0, the order of the two matters."""
    network = ModelBuilder(config()).build_feed_forward()
    network.activation, network.dropout = (lambda x: x + 1), DropAll(0.5)
    torch.testing.assert_close(network(torch.randn(2, 8)), network.down.bias.expand(2, 8))


def test_shared_qk_gives_equal_queries_and_keys() -> None:
    settings = config(attention={"shared_qk": True})
    x, layout = torch.randn(6, 8), BatchLayout(2, 3)
    self_attention = ModelBuilder(settings).build_self_attention(settings.attention, SELF)
    queries, key_values = self_attention.project(x, layout)
    assert torch.equal(queries, key_values.keys_BHSD)
    cross = ModelBuilder(settings).build_cross_attention(settings.attention, CROSS)
    key_values = cross.project_memory(x, layout)
    queries = cross.split_heads(layout.unflatten(cross.query(x)))
    assert torch.equal(queries, key_values.keys_BHSD)
    assert not torch.equal(key_values.keys_BHSD, key_values.values_BHSD)


def test_recorded_weights_are_before_dropout() -> None:
    model = Transformer.from_config(config(dropout={"attention": 0.5})).train()
    records: list[AttentionIntermediates] = []

    class StoringRecorder:
        def attention_listener(self, site: AttentionModuleId) -> Any:
            return records.append

        def layer_listener(self, stack: StackName, layer: int) -> None: ...

    model(SRC, TGT, StoringRecorder())
    for record in records:
        sums = record.weights_BHTS.sum(-1)[0]  # the first sentence has no padding
        torch.testing.assert_close(sums, torch.ones_like(sums))


def test_interrupted_step_does_not_change_cache() -> None:
    model = Transformer.from_config(config(decoder_layers=2)).eval()

    class FailingRecorder:
        def attention_listener(self, site: AttentionModuleId) -> None:
            if site == AttentionModuleId("decoder", 1, "cross"):
                raise KeyboardInterrupt

        def layer_listener(self, stack: StackName, layer: int) -> None: ...

    cache = model.init_cache(model.encode(SRC))
    model.step(TGT[:, :1], cache)
    with pytest.raises(KeyboardInterrupt):
        model.step(TGT[:, 1:], cache, FailingRecorder())
    expected = model.decode(TGT, model.encode(SRC))[:, 1:]
    torch.testing.assert_close(model.step(TGT[:, 1:], cache), expected)


VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "gelu_tanh": {"activation": "gelu_tanh"},
    "relative": {"positions": {"kind": "relative"}},
    "learned": {"positions": {"kind": "learned"}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_copied_and_pickled_models_give_equal_logits(variant: str) -> None:
    model = Transformer.from_config(config(**VARIANTS[variant])).eval()
    expected = model(SRC, TGT)
    with torch.device("meta"):
        empty = Transformer.from_config(config(**VARIANTS[variant])).eval()
    filled = copy.deepcopy(empty).to_empty(device="cpu")
    filled.load_state_dict(model.state_dict())
    empty.load_state_dict(model.state_dict(), assign=True)
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), filled, empty]  # noqa: S301
    for other in copies:
        assert torch.equal(other(SRC, TGT), expected)


def test_positions_are_exact_after_change_of_precision() -> None:
    model = Transformer.from_config(config()).eval()
    expected = model(SRC, TGT)
    weights = copy.deepcopy(model.state_dict())
    model.bfloat16()(SRC, TGT)
    model.float().load_state_dict(weights)
    assert torch.equal(model(SRC, TGT), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_close_to_single_precision(dtype: torch.dtype) -> None:
    model = Transformer.from_config(config()).eval()
    expected = model(SRC, TGT)
    actual = model.to(dtype)(SRC.int(), TGT.int())
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.float(), expected, rtol=0.1, atol=0.2)


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap of the fused kernel
def test_functional_gradients_support_padding() -> None:
    """`torch.func` supports the custom gradients of `BatchLayout`."""
    model = Transformer.from_config(config()).double().eval()
    x = torch.randn(*SRC.shape, 8, dtype=torch.float64)

    def states(x: Tensor) -> Tensor:
        return model.encoder.encode_embeddings(x, SRC == 0).states_BSM.sum(dim=(0, 1))

    jacobian = torch.func.jacrev(states)(x)
    torch.testing.assert_close(jacobian, torch.autograd.functional.jacobian(states, x))
    assert jacobian[:, 1, 2].eq(0).all()  # the padding
