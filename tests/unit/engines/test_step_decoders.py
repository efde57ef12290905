"""Lean steps are those of the model itself, wherever it is made of parts that they know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seq2see.engines.torch_decoder import (
    INITIAL_CACHE_LENGTH,
    FastCpuStepDecoder,
    ModelStepDecoder,
    StepDecoder,
    create_step_decoder,
    supports_fast_cpu_step,
)
from seq2see.explain.patched import replace_modules
from seq2see.model import (
    NULL_RECORDER,
    AttentionConfig,
    AttentionSite,
    ModelBuilder,
    ModelConfig,
    Transformer,
)
from seq2see.model.attention import CrossAttention
from seq2see.model.modules import Dropout, PostNormResidual, PreNormResidual, Residual

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


def run(taken: StepDecoder, turns: Sequence[tuple[Tensor, Tensor] | None]) -> list[Tensor]:
    """Take a step for each turn, and let the hypotheses follow behind it where it says so."""
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
    """Let a model go on in both ways, and compare each state."""
    with torch.inference_mode():
        memory = net.encode(SOURCES)
        lean = create_step_decoder(net, memory)
        assert isinstance(lean, FastCpuStepDecoder)
        wanted, found = run(ModelStepDecoder(net, memory), turns), run(lean, turns)
    for own, other in zip(wanted, found, strict=True):
        torch.testing.assert_close(other, own, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", KNOWN)
def test_hypotheses_that_multiply_change_places_and_leave(kind: str) -> None:
    same(model(**KNOWN[kind]), SEARCH)


def test_there_is_room_for_any_number_of_tokens() -> None:
    same(model(), [None] * (2 * INITIAL_CACHE_LENGTH + 3))


def test_beams_may_be_made_before_the_first_step() -> None:
    net, states = model(), []
    tokens_R = torch.tensor([1, 5, 6, 7])
    with torch.inference_mode():
        memory = net.encode(SOURCES[:2])
        for kind in (ModelStepDecoder, FastCpuStepDecoder):
            taken = kind(net, memory)
            taken.reorder(torch.tensor([0, 0, 1, 1]), torch.zeros(4, 1, dtype=torch.long))
            states.append(taken.step(tokens_R))
    torch.testing.assert_close(*states, rtol=1e-10, atol=1e-10)


def test_gradients_are_not_asked_for() -> None:
    net = model()
    taken = FastCpuStepDecoder(net, net.encode(SOURCES))
    assert not taken.step(torch.tensor([1, 2, 3])).requires_grad


@pytest.mark.parametrize("kind", OTHERS)
def test_other_models_take_their_own_steps(kind: str) -> None:
    net = model(**OTHERS[kind])
    with torch.inference_mode():
        assert isinstance(create_step_decoder(net, net.encode(SOURCES)), ModelStepDecoder)


class Louder(nn.Module):
    """A part that somebody put in the place of another."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, x_NM: Tensor) -> Tensor:
        louder_NM: Tensor = 2 * self.part(x_NM)
        return louder_NM


def test_a_part_of_somebody_else_takes_its_own_steps() -> None:
    net = model(norm={"placement": "pre"})
    assert supports_fast_cpu_step(net)
    for name in ("decoder.layers.1.feed_forward", "decoder.norm"):
        assert not supports_fast_cpu_step(replace_modules(net, {name: Louder}))


PLACES = ["decoder", "decoder.norm", "decoder.layers.0", "decoder.layers.1.feed_forward.up"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_is_called(place: str, hook: str) -> None:
    net = model(norm={"placement": "pre"})
    handle = getattr(net.get_submodule(place), hook)(lambda *_: None)
    assert not supports_fast_cpu_step(net)
    handle.remove()
    assert supports_fast_cpu_step(net)


def test_a_forward_of_its_own_is_called() -> None:
    net = model()
    part = net.decoder.layers[0].feed_forward
    part.forward = lambda x_NM: 2 * x_NM  # type: ignore[method-assign]
    assert not supports_fast_cpu_step(net)


def test_a_model_of_its_own_kind_takes_its_own_steps() -> None:
    class Other(Transformer):
        pass

    net = model()
    assert not supports_fast_cpu_step(Other(net.encoder, net.decoder, net.output).eval())


def test_dropout_that_is_on_is_heard() -> None:
    net = model()
    net.decoder.layers[1].attention.attention.dropout.train()
    assert not supports_fast_cpu_step(net)


def test_norms_before_and_behind_may_be_mixed() -> None:
    class Mixed(ModelBuilder):
        def build_residual(self) -> Residual:
            self.made = getattr(self, "made", 0) + 1
            kind = PreNormResidual if self.made % 2 else PostNormResidual
            return kind(self.build_norm(), Dropout(0.0))

    net = Mixed(config()).build_transformer().double().eval()
    assert supports_fast_cpu_step(net)
    same(net, SEARCH)


def test_different_numbers_of_heads_take_their_own_steps() -> None:
    class Mixed(ModelBuilder):
        def build_cross_attention(
            self, attention: AttentionConfig, site: AttentionSite
        ) -> CrossAttention:
            inside = self.build_attention(attention, site)
            return CrossAttention(self.config.d_model, 1, inside, site)

    assert not supports_fast_cpu_step(Mixed(config()).build_transformer().eval())


def test_autocast_is_the_models_own_matter() -> None:
    net = model()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert isinstance(create_step_decoder(net, net.encode(SOURCES)), ModelStepDecoder)


def test_whoever_listens_hears_the_model_itself() -> None:
    class Ear:
        def attention_listener(self, site: AttentionSite) -> None: ...
        def layer_listener(self, stack: str, layer: int) -> None: ...

    net = model()
    with torch.inference_mode():
        assert isinstance(create_step_decoder(net, net.encode(SOURCES), Ear()), ModelStepDecoder)
        assert isinstance(
            create_step_decoder(net, net.encode(SOURCES), NULL_RECORDER), FastCpuStepDecoder
        )


def test_a_model_in_training_keeps_its_dropout() -> None:
    net = model().train()
    with torch.inference_mode():
        assert isinstance(create_step_decoder(net, net.encode(SOURCES)), ModelStepDecoder)


def test_a_source_of_padding_alone_gives_no_nan() -> None:
    net = model()
    with torch.inference_mode():
        taken = create_step_decoder(net, net.encode(torch.tensor([[3, 4, 2], [0, 0, 0]])))
        assert taken.step(torch.tensor([1, 1])).isfinite().all()
