"""Fast CPU steps equal the steps of the model, and are used only for supported models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seq2see.engines.torch_decoder import (
    INITIAL_CACHE_LENGTH,
    FastCpuHiddenStateStepper,
    ModelHiddenStateStepper,
    create_hidden_state_stepper,
    supports_fast_cpu_step,
)
from seq2see.explain.interventions import copy_with_replaced_modules
from seq2see.model import (
    NULL_RECORDER,
    AttentionFunctionConfig,
    AttentionModuleId,
    ModelBuilder,
    ModelConfig,
    Transformer,
)
from seq2see.model.attention import CrossAttention
from seq2see.model.basic_modules import (
    Dropout,
    PostNormResidual,
    PreNormResidual,
    Residual,
)

VOCAB, LAYERS = 12, 2
SOURCES = torch.tensor([[3, 4, 5, 6, 7, 2], [8, 9, 2, 0, 0, 0], [3, 3, 10, 11, 2, 0]])

KNOWN: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": {"placement": "pre"}},
    "no norm": {"norm": {"kind": "none"}},
    "unscaled": {"attention": {"kind": "dot"}},
    "another scale": {"attention": {"scale": 0.3}},
    "no bias": {"attention": {"bias": False}},
    "gelu": {"activation": "gelu"},
    "one head": {"heads": 1},
    "learned positions": {"positions": {"kind": "learned", "max_length": 64}},
    "no positions": {"positions": {"kind": "none"}},
    "untied": {"embeddings": {"tie": "none", "norm": True}},
}
OTHERS: dict[str, dict[str, Any]] = {
    "additive": {"attention": {"kind": "additive"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "shared queries and keys": {"attention": {"shared_qk": True}},
    "relative": {"positions": {"kind": "relative"}},
    "batch norm": {"norm": {"kind": "batch"}},
}


def config(**settings: Any) -> ModelConfig:
    sizes = {"d_model": 8, "d_ff": 16, "encoder_layers": 1, "decoder_layers": LAYERS}
    return ModelConfig(**{"vocab_size": VOCAB, "heads": 2, **sizes, **settings})


def model(**settings: Any) -> Transformer:
    torch.manual_seed(1)
    net = Transformer.from_config(config(**settings)).double().eval()
    for weight in net.parameters():  # biases too, which start as zeros
        nn.init.normal_(weight, std=0.4)
    return net


def run(
    taken: ModelHiddenStateStepper | FastCpuHiddenStateStepper,
    turns: Sequence[tuple[Tensor, Tensor] | None],
) -> list[Tensor]:
    """Take one step per turn, and reorder the hypotheses after it if the turn says so."""
    rows, generator, states = len(SOURCES), torch.Generator().manual_seed(2), []
    for turn in turns:
        tokens_R = torch.randint(1, VOCAB, (rows,), generator=generator)
        states.append(taken.step(tokens_R))
        if turn is not None:
            taken.reorder(*turn)
            rows = turn[1].numel()
    return states


def follows(sources: list[int], parents: list[list[int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor(sources), torch.tensor(parents)


SEARCH = [
    follows([0, 1, 2], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    follows([0, 1, 2], [[2, 0, 0], [1, 1, 2], [0, 2, 1]]),
    None,
    follows([0, 2], [[1, 0, 2], [2, 2, 0]]),
    follows([1], [[2, 1, 0]]),
    follows([0], [[1]]),
    None,
]


def same(net: Transformer, turns: Sequence[tuple[Tensor, Tensor] | None]) -> None:
    """Decode with both step decoders, and compare each state."""
    with torch.inference_mode():
        memory = net.encode(SOURCES)
        lean = create_hidden_state_stepper(net, memory)
        assert isinstance(lean, FastCpuHiddenStateStepper)
        wanted, found = run(ModelHiddenStateStepper(net, memory), turns), run(lean, turns)
    for own, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(other, own, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KNOWN)
def test_fast_steps_equal_the_model_with_reordering(kind: str) -> None:
    same(model(**KNOWN[kind]), SEARCH)


def test_cache_grows_beyond_its_initial_length() -> None:
    same(model(), [None] * (2 * INITIAL_CACHE_LENGTH + 3))


def test_reordering_before_the_first_step() -> None:
    net, states = model(), []
    tokens_R = torch.tensor([1, 5, 6, 7])
    with torch.inference_mode():
        memory = net.encode(SOURCES[:2])
        for kind in (ModelHiddenStateStepper, FastCpuHiddenStateStepper):
            taken = kind(net, memory)
            taken.reorder(torch.tensor([0, 0, 1, 1]), torch.zeros(4, 1, dtype=torch.long))
            states.append(taken.step(tokens_R))
    torch.testing.assert_close(*states, rtol=1e-10, atol=1e-10)


def test_fast_steps_compute_no_gradients() -> None:
    net = model()
    taken = FastCpuHiddenStateStepper(net, net.encode(SOURCES))
    assert not taken.step(torch.tensor([1, 2, 3])).requires_grad


@pytest.mark.parametrize("kind", OTHERS)
def test_unsupported_models_use_the_model_step(kind: str) -> None:
    net = model(**OTHERS[kind])
    with torch.inference_mode():
        assert isinstance(
            create_hidden_state_stepper(net, net.encode(SOURCES)), ModelHiddenStateStepper
        )


class Louder(nn.Module):
    """A module that replaces another one."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x_NM: Tensor) -> Tensor:
        louder_NM: Tensor = 2 * self.part(x_NM)
        return louder_NM


def test_replaced_module_uses_the_model_step() -> None:
    net = model(norm={"placement": "pre"})
    assert supports_fast_cpu_step(net)
    for name in ("decoder.layers.1.feed_forward", "decoder.norm"):
        assert not supports_fast_cpu_step(copy_with_replaced_modules(net, [(name, Louder)]))


PLACES = ["decoder", "decoder.norm", "decoder.layers.0", "decoder.layers.1.feed_forward.up"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_hooks_are_called(place: str, hook: str) -> None:
    net = model(norm={"placement": "pre"})
    handle = getattr(net.get_submodule(place), hook)(lambda *_: None)
    assert not supports_fast_cpu_step(net)
    handle.remove()
    assert supports_fast_cpu_step(net)


def test_replaced_forward_is_called() -> None:
    net = model()
    part = net.decoder.layers[0].feed_forward
    part.forward = lambda x_NM: 2 * x_NM  # type: ignore[method-assign]
    assert not supports_fast_cpu_step(net)


def test_subclass_of_the_model_uses_the_model_step() -> None:
    class Other(Transformer):
        pass

    net = model()
    assert not supports_fast_cpu_step(Other(net.encoder, net.decoder, net.output).eval())


def test_active_dropout_is_applied() -> None:
    net = model()
    net.decoder.layers[1].attention.attention.dropout.train()
    assert not supports_fast_cpu_step(net)


def test_pre_norm_and_post_norm_can_be_mixed() -> None:
    class Mixed(ModelBuilder):
        def build_residual(self) -> Residual:
            self.made = getattr(self, "made", 0) + 1
            kind = PreNormResidual if self.made % 2 else PostNormResidual
            return kind(self.build_norm(), Dropout(0.0))

    net = Mixed(config()).build_transformer().double().eval()
    assert supports_fast_cpu_step(net)
    same(net, SEARCH)


def test_different_numbers_of_heads_are_not_supported() -> None:
    class Mixed(ModelBuilder):
        def build_cross_attention(
            self, attention: AttentionFunctionConfig, site: AttentionModuleId
        ) -> CrossAttention:
            inside = self.build_attention_function(attention, site)
            return CrossAttention(self.config.d_model, 1, inside, site)

    assert not supports_fast_cpu_step(Mixed(config()).build_transformer().eval())


def test_autocast_uses_the_model_step() -> None:
    net = model()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert isinstance(
            create_hidden_state_stepper(net, net.encode(SOURCES)), ModelHiddenStateStepper
        )


def test_recorder_uses_the_model_step() -> None:
    class Ear:
        def attention_listener(self, site: AttentionModuleId) -> None: ...
        def layer_listener(self, stack: str, layer: int) -> None: ...

    net = model()
    with torch.inference_mode():
        assert isinstance(
            create_hidden_state_stepper(net, net.encode(SOURCES), Ear()), ModelHiddenStateStepper
        )
        assert isinstance(
            create_hidden_state_stepper(net, net.encode(SOURCES), NULL_RECORDER),
            FastCpuHiddenStateStepper,
        )


def test_model_in_training_mode_uses_the_model_step() -> None:
    net = model().train()
    with torch.inference_mode():
        assert isinstance(
            create_hidden_state_stepper(net, net.encode(SOURCES)), ModelHiddenStateStepper
        )


def test_source_of_only_padding_gives_no_nan() -> None:
    net = model()
    with torch.inference_mode():
        taken = create_hidden_state_stepper(net, net.encode(torch.tensor([[3, 4, 2], [0, 0, 0]])))
        assert taken.step(torch.tensor([1, 1])).isfinite().all()
