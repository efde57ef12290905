"""Tests of the recorder: it receives all records and does not change the results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from seq2see.model import (
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    LayerListener,
    ModelConfig,
    StackName,
    Transformer,
)

LAYERS, HEADS, SOURCE, TARGET = 2, 2, 5, 4
SRC = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 0, 0, 0]])
TGT = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])


class StoringRecorder:
    """Stores all records, or only those of the given sites."""

    def __init__(self, sites: set[AttentionModuleId] | None = None) -> None:
        self.sites = sites
        self.attentions: dict[AttentionModuleId, list[AttentionIntermediates]] = {}
        self.outputs: dict[tuple[str, int], Tensor] = {}

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener | None:
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
def test_all_attention_modules_and_layers_are_recorded(variant: str) -> None:
    net, recorder = model(**VARIANTS[variant]), StoringRecorder()
    recorded = net(SRC, TGT, recorder)
    torch.testing.assert_close(recorded, net(SRC, TGT), rtol=0, atol=1e-12)
    lengths = {
        ("encoder", "self"): (SOURCE, SOURCE),
        ("decoder", "self"): (TARGET, TARGET),
        ("decoder", "cross"): (TARGET, SOURCE),
    }
    assert len(recorder.attentions) == 3 * LAYERS
    for site, (record,) in recorder.attentions.items():
        queries, keys = lengths[site.stack, site.kind]
        assert record.weights_BHTS.shape == (2, HEADS, queries, keys)
        assert record.scores_BHTS.shape == record.weights_BHTS.shape
        assert record.values_BHSD.shape == (2, HEADS, keys, 4)
        assert record.scores_BHTS.isfinite().all()
        scores_BHTS, masked_BHTS = record.scores_BHTS, record.masked_BHTS
        if masked_BHTS is not None:
            scores_BHTS = scores_BHTS.masked_fill(masked_BHTS, -torch.inf)
        torch.testing.assert_close(scores_BHTS.softmax(-1), record.weights_BHTS)
        is_masked = scores_BHTS.isinf()
        assert record.weights_BHTS[is_masked].eq(0).all()
        torch.testing.assert_close(
            record.weights_BHTS.sum(-1), torch.ones(2, HEADS, queries).double()
        )
        if site.kind == "cross":
            assert torch.equal(is_masked, SRC.eq(0)[:, None, None, :].expand_as(is_masked))
    assert set(recorder.outputs) == {(s, i) for s in ("encoder", "decoder") for i in range(LAYERS)}
    torch.testing.assert_close(recorder.outputs["encoder", LAYERS - 1], net.encode(SRC).states_BSM)
    torch.testing.assert_close(net.output(recorder.outputs["decoder", LAYERS - 1]), recorded)


def test_only_the_requested_site_is_recorded() -> None:
    site = AttentionModuleId("decoder", 1, "cross")
    recorder = StoringRecorder({site})
    model()(SRC, TGT, recorder)
    assert set(recorder.attentions) == {site}


def test_linformer_records_mixtures_of_keys() -> None:
    recorder = StoringRecorder()
    model(encoder_attention={"kind": "linformer", "rank": 3})(SRC, TGT, recorder)
    (record,) = recorder.attentions[AttentionModuleId("encoder", 0, "self")]
    assert record.weights_BHTS.shape == (2, HEADS, SOURCE, 3)


def test_records_of_cached_steps_equal_full_decoding() -> None:
    net, full, steps = model(), StoringRecorder(), StoringRecorder()
    net.decode(TGT, net.encode(SRC), full)
    cache = net.init_cache(net.encode(SRC))
    for token in TGT.split(1, dim=1):
        net.step(token, cache, steps)
    site = AttentionModuleId("decoder", 1, "self")
    (record,) = full.attentions[site]
    for t, step in enumerate(steps.attentions[site]):
        torch.testing.assert_close(
            step.weights_BHTS[:, :, 0], record.weights_BHTS[:, :, t, : t + 1], rtol=0, atol=1e-12
        )


def test_model_stores_no_state() -> None:
    net = model()
    before = {name: set(vars(module)) for name, module in net.named_modules()}
    net(SRC, TGT, StoringRecorder())
    assert {name: set(vars(module)) for name, module in net.named_modules()} == before
    tensors = [v for m in net.modules() for v in vars(m).values() if isinstance(v, Tensor)]
    assert tensors == []


def test_encoder_output_is_projected_once() -> None:
    net = model()
    calls: list[str] = []
    for layer in net.decoder.layers:
        layer.cross_attention.key_value.register_forward_hook(lambda *_: calls.append("projected"))
    cache = net.init_cache(net.encode(SRC))
    for token in TGT.split(1, dim=1):
        net.step(token, cache)
    assert len(calls) == LAYERS
