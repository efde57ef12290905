"""The recorder gets every step of every attention, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    AttentionListener,
    AttentionRecord,
    AttentionSite,
    LayerListener,
    ModelConfig,
    StackName,
    Transformer,
)

LAYERS, HEADS, SOURCE, TARGET = 2, 2, 5, 4
SRC = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 0, 0, 0]])
TGT = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


class Everything:
    """Listens everywhere, or at the sites that it is given."""

    def __init__(self, sites: set[AttentionSite] | None = None) -> None:
        self.sites = sites
        self.attentions: dict[AttentionSite, list[AttentionRecord]] = {}
        self.outputs: dict[tuple[str, int], Tensor] = {}

    def attention_listener(self, site: AttentionSite) -> AttentionListener | None:
        if self.sites is not None and site not in self.sites:
            return None
        return self.attentions.setdefault(site, []).append

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        return lambda x_BTM: self.outputs.update({(stack, layer): x_BTM})


def model(**settings: Any) -> Transformer:
    sizes = {"d_model": 8, "d_ff": 8, "encoder_layers": LAYERS, "decoder_layers": LAYERS}
    config = ModelConfig(**{"vocab_size": 10, "heads": HEADS, **sizes, **settings})
    return Transformer.from_config(config).double().eval()


VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "additive": {"attention": {"kind": "additive"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "relative": {"positions": {"kind": "relative"}},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_all_three_attentions_of_every_layer_are_heard(variant: str) -> None:
    net, ear = model(**VARIANTS[variant]), Everything()
    listened = net(SRC, TGT, ear)
    torch.testing.assert_close(listened, net(SRC, TGT), rtol=0, atol=1e-12)
    lengths = {
        ("encoder", "self"): (SOURCE, SOURCE),
        ("decoder", "self"): (TARGET, TARGET),
        ("decoder", "cross"): (TARGET, SOURCE),
    }
    assert len(ear.attentions) == 3 * LAYERS
    for site, (record,) in ear.attentions.items():
        queries, keys = lengths[site.stack, site.kind]
        assert record.weights_BHTS.shape == (2, HEADS, queries, keys)
        assert record.scores_BHTS.shape == record.weights_BHTS.shape
        assert record.values_BHSD.shape == (2, HEADS, keys, 4)
        assert record.scores_BHTS.isfinite().all()
        masked = record.masked_scores_BHTS
        torch.testing.assert_close(masked.softmax(-1), record.weights_BHTS)
        hidden = masked.isinf()
        assert record.weights_BHTS[hidden].eq(0).all()
        torch.testing.assert_close(
            record.weights_BHTS.sum(-1), torch.ones(2, HEADS, queries).double()
        )
        padded = SRC.eq(0)[:, None, None, :].expand_as(hidden) if site.kind == "cross" else None
        if padded is not None:
            assert torch.equal(hidden, padded)
    assert set(ear.outputs) == {(s, i) for s in ("encoder", "decoder") for i in range(LAYERS)}
    torch.testing.assert_close(ear.outputs["encoder", LAYERS - 1], net.encode(SRC).states_BSM)
    torch.testing.assert_close(net.output(ear.outputs["decoder", LAYERS - 1]), listened)


def test_who_listens_to_one_site_gets_that_one_alone() -> None:
    site = AttentionSite("decoder", 1, "cross")
    ear = Everything({site})
    model()(SRC, TGT, ear)
    assert set(ear.attentions) == {site}


def test_linformer_shows_its_mixtures() -> None:
    ear = Everything()
    model(encoder_attention={"kind": "linformer", "rank": 3})(SRC, TGT, ear)
    (record,) = ear.attentions[AttentionSite("encoder", 0, "self")]
    assert record.weights_BHTS.shape == (2, HEADS, SOURCE, 3)


def test_steps_through_the_cache_are_heard_as_the_whole() -> None:
    net, whole, steps = model(), Everything(), Everything()
    net.decode(TGT, net.encode(SRC), whole)
    cache = net.init_cache(net.encode(SRC))
    for token in TGT.split(1, dim=1):
        net.step(token, cache, steps)
    site = AttentionSite("decoder", 1, "self")
    (record,) = whole.attentions[site]
    for t, step in enumerate(steps.attentions[site]):
        torch.testing.assert_close(
            step.weights_BHTS[:, :, 0], record.weights_BHTS[:, :, t, : t + 1], rtol=0, atol=1e-12
        )


def test_the_model_keeps_nothing() -> None:
    net = model()
    before = {name: set(vars(module)) for name, module in net.named_modules()}
    net(SRC, TGT, Everything())
    assert {name: set(vars(module)) for name, module in net.named_modules()} == before
    tensors = [v for m in net.modules() for v in vars(m).values() if isinstance(v, Tensor)]
    assert tensors == []


def test_the_memory_is_projected_once() -> None:
    net = model()
    calls: list[str] = []
    for layer in net.decoder.layers:
        layer.cross_attention.key_value.register_forward_hook(lambda *_: calls.append("projected"))
    cache = net.init_cache(net.encode(SRC))
    for token in TGT.split(1, dim=1):
        net.step(token, cache)
    assert len(calls) == LAYERS
