"""Interventions: their effect, their checks, and that the original model does not change."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.explain import (
    AblateHeads,
    AblateLayer,
    AblatePositions,
    AblateSublayer,
    ExplainedModel,
    ForceContinuation,
    Intervention,
    MaskKeys,
    ScaleAttentionScores,
    ShiftPositions,
    Trace,
    TraceOptions,
    copy_model_with_interventions,
    list_head_ablations,
    trace_translation,
)
from seq2see.explain.head_ablation import measure_head_importance
from seq2see.explain.interventions import parse_attention_address, parse_intervention
from seq2see.explain.source_attribution import compute_attention_rollout
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translator

SRC = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 0, 0]])
TGT = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
HEADS, SIZE = 2, 4
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "relative": {"positions": {"kind": "relative", "max_distance": 3}},
    "learned": {"positions": {"kind": "learned", "max_length": 20}},
    "additive": {"attention": {"kind": "additive"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "pre-norm": {"norm": {"placement": "pre"}},
    "linformer": {"encoder_attention": {"kind": "linformer", "rank": 3}},
}
EVERYTHING: list[Intervention] = [
    AblateHeads(stack="encoder", layer=0, attention="self", heads=(1,)),
    AblateSublayer(stack="decoder", layer=0, sublayer="cross"),
    AblateLayer(stack="decoder", layer=1),
    ScaleAttentionScores(stack="decoder", layer=0, attention="self", factor=0.5),
    MaskKeys(stack="decoder", attention="self", keys=(1,)),
    AblatePositions(stack="encoder"),
]


def model(variant: str = "paper") -> Transformer:
    sizes = {"d_model": HEADS * SIZE, "d_ff": 8, "encoder_layers": 2, "decoder_layers": 2}
    config = ModelConfig(**{"vocab_size": 10, "heads": HEADS, **sizes, **VARIANTS[variant]})
    return Transformer.from_config(config).double().eval()


def logits(net: Transformer) -> Tensor:
    with torch.inference_mode():
        return net(SRC, TGT)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


class NoOpRecorder:
    """Records unchanged, but makes attention run in its plain form."""

    def attention_listener(self, site: Any) -> Any:
        return lambda record: None

    def layer_listener(self, stack: Any, layer: int) -> None: ...


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_interventions_equal_plain_attention_exactly(variant: str) -> None:
    net = model(variant)
    with torch.inference_mode():
        plain = net(SRC, TGT, NoOpRecorder())
    assert torch.equal(logits(copy_model_with_interventions(net, [])), plain)
    close(plain, logits(net))


@pytest.mark.parametrize("variant", VARIANTS)
def test_patching_does_not_change_the_original(variant: str) -> None:
    net = model(variant)
    before, state, modules = logits(net), deepcopy(net.state_dict()), dict(net.named_modules())
    changed = copy_model_with_interventions(net, EVERYTHING)
    assert not torch.equal(logits(changed), before)
    assert torch.equal(logits(net), before)
    assert dict(net.named_modules()) == modules
    assert all(torch.equal(net.state_dict()[name], value) for name, value in state.items())
    ours, theirs = set(changed.parameters()), set(net.parameters())
    assert ours <= theirs, "weights are shared, never copied"


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "linformer"])
@pytest.mark.parametrize("intervention", EVERYTHING, ids=lambda each: each.kind)
def test_cached_decoding_equals_full_decoding(variant: str, intervention: Any) -> None:
    net = copy_model_with_interventions(model(variant), [intervention])
    with torch.inference_mode():
        encoder_output = net.encode(SRC)
        full = net.decode(TGT, encoder_output)
        cache = net.init_cache(encoder_output)
        steps = [net.step(token, cache) for token in TGT.split(1, dim=1)]
        close(torch.cat(steps, dim=1), full)
        index = torch.tensor([1, 0, 1])
        cache.reorder(index, torch.zeros(3, 1, dtype=torch.long))
        reordered = net.step(TGT[index, :1], cache)
        expected = net.decode(torch.cat((TGT, TGT[:, :1]), 1)[index], net.encode(SRC[index]))
    close(reordered[:, 0], expected[:, -1])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("stack", "kind", "part"),
    [
        ("encoder", "self", "attention"),
        ("decoder", "self", "attention"),
        ("decoder", "cross", "cross_attention"),
    ],
)
def test_ablated_head_equals_zeroed_output_weights(
    variant: str, stack: Any, kind: Any, part: str
) -> None:
    net = model(variant)
    ablation = AblateHeads(stack=stack, layer=1, attention=kind, heads=(1,))
    zeroed = deepcopy(net)
    output = getattr(getattr(zeroed, stack).layers[1], part).output
    with torch.no_grad():
        output.weight[:, SIZE:] = 0
    close(logits(copy_model_with_interventions(net, [ablation])), logits(zeroed))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_ablated_layer_equals_removed_layer(variant: str, stack: Any) -> None:
    net = model(variant)
    shorter = deepcopy(net)
    del getattr(shorter, stack).layers[0]
    patched = copy_model_with_interventions(net, [AblateLayer(stack=stack, layer=0)])
    close(logits(patched), logits(shorter))


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_ablated_sublayer_equals_zero_output(variant: str) -> None:
    net = model(variant)
    zeroed = deepcopy(net)
    with torch.no_grad():
        for weight in zeroed.decoder.layers[1].feed_forward.down.parameters():
            weight.zero_()
    ablation = AblateSublayer(stack="decoder", layer=1, sublayer="feed_forward")
    close(logits(copy_model_with_interventions(net, [ablation])), logits(zeroed))


@pytest.mark.parametrize("variant", ["paper", "relative"])
def test_scaled_scores_equal_another_scale(variant: str) -> None:
    net = model(variant)
    scaled = deepcopy(net)
    scaled.encoder.layers[0].attention.attention.scale *= 3  # type: ignore[union-attr,operator]
    scaling = ScaleAttentionScores(stack="encoder", layer=0, attention="self", factor=3.0)
    close(logits(copy_model_with_interventions(net, [scaling])), logits(scaled))
    halves = [scaling.replace(factor=1.5), scaling.replace(factor=2.0)]
    close(logits(copy_model_with_interventions(net, halves)), logits(scaled))


@pytest.mark.parametrize("variant", ["paper", "linformer", "additive"])
def test_masked_keys_equal_padding(variant: str) -> None:
    net, padded = model(variant), SRC.clone()
    padded[0, 3] = 0
    masks: list[Intervention] = [
        MaskKeys(stack="encoder", attention="self", keys=(3,)),
        MaskKeys(stack="decoder", attention="cross", keys=(3,)),
    ]
    with torch.inference_mode():
        close(copy_model_with_interventions(net, masks)(SRC[:1], TGT[:1]), net(padded[:1], TGT[:1]))


@pytest.mark.parametrize("variant", ["paper", "relative", "learned"])
def test_encoder_without_positions_ignores_token_order(variant: str) -> None:
    net = copy_model_with_interventions(model(variant), [AblatePositions(stack="encoder")])
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.inference_mode():
        states = net.encode(SRC[:1]).states_BSM
        close(net.encode(SRC[:1, order]).states_BSM, states[:, order])
        original = model(variant)
        moved = (
            original.encode(SRC[:1, order]).states_BSM
            - original.encode(SRC[:1]).states_BSM[:, order]
        )
    assert moved.abs().max() > 1e-3


def test_shifted_positions_equal_shifted_position_table() -> None:
    net = model("learned")
    shift = ShiftPositions(stack="encoder", offset=2)
    shifted = deepcopy(net)
    with torch.no_grad():
        table = shifted.encoder.embeddings.positions.weight_NM
        table.copy_(table.roll(-2, 0))
    close(logits(copy_model_with_interventions(net, [shift])), logits(shifted))
    assert torch.equal(
        logits(copy_model_with_interventions(net, [shift.replace(offset=0)])),
        logits(copy_model_with_interventions(net, [])),
    )
    relative = model("relative")
    assert torch.equal(
        logits(copy_model_with_interventions(relative, [shift])),
        logits(copy_model_with_interventions(relative, [])),
    )


def test_interventions_on_the_same_module_are_combined() -> None:
    net = model()
    shifts = [ShiftPositions(stack="encoder", offset=offset) for offset in (2, 3)]
    sum_of_both = ShiftPositions(stack="encoder", offset=5)
    assert torch.equal(
        logits(copy_model_with_interventions(net, shifts)),
        logits(copy_model_with_interventions(net, [sum_of_both])),
    )
    ablation = AblatePositions(stack="encoder")
    without = logits(copy_model_with_interventions(net, [ablation]))
    for both in ([ablation, sum_of_both], [sum_of_both, ablation]):
        assert torch.equal(logits(copy_model_with_interventions(net, both)), without)
    layer = AblateLayer(stack="decoder", layer=1)
    assert torch.equal(
        logits(copy_model_with_interventions(net, [layer, layer])),
        logits(copy_model_with_interventions(net, [layer])),
    )


@pytest.mark.parametrize(
    ("intervention", "problem"),
    [
        (
            AblateLayer(stack="encoder", layer=2),
            "`interventions.0.layer` must be from 0 to 1 in the encoder, but is 2",
        ),
        (
            AblateHeads(stack="decoder", layer=0, attention="self", heads=(5,)),
            "`interventions.0.heads` must be from",
        ),
        (
            ScaleAttentionScores(stack="encoder", layer=0, attention="cross", factor=1.0),
            "`interventions.0.attention` must be self in the encoder",
        ),
        (
            AblateSublayer(stack="encoder", layer=0, sublayer="cross"),
            "`interventions.0.sublayer` must be self in the encoder",
        ),
    ],
)
def test_missing_layers_and_heads_are_rejected(intervention: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        copy_model_with_interventions(model(), [intervention])


def test_problems_of_all_interventions_are_reported() -> None:
    layers = [AblateLayer(stack="encoder", layer=layer) for layer in (7, 1, 8)]
    with pytest.raises(ConfigError) as caught:
        copy_model_with_interventions(model(), layers)
    fields = [problem.field for problem in caught.value.problems]
    assert fields == ["interventions.0.layer", "interventions.2.layer"]


def test_each_head_is_listed_once() -> None:
    heads = list_head_ablations(model())
    assert len(heads) == len(set(heads)) == 3 * 2 * HEADS


# Interventions on a model with tokenizers.

LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "le chat dort .", "l'eau coule !"]
SENTENCE = "the dog sleeps and a cat runs ."
SHORT = SearchConfig(beam_size=3, length=LengthConfig(max_ratio=1.0, max_extra=3))


@cache
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))


def explained_model(**settings: Any) -> ExplainedModel:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(5)
    table = {"vocab_size": tokenizers().source.vocab_size, **sizes, **settings}
    model = Transformer.from_config(ModelConfig(**table))
    with torch.no_grad():  # larger weights make attention less uniform than at initialization
        for weight in model.parameters():
            weight.mul_(2.0)
    return ExplainedModel(Translator(TorchEngine(model.eval()), tokenizers(), ("en", "fr")))


def trace_with(*interventions: Intervention, search: SearchConfig = SHORT) -> Trace:
    options = TraceOptions(layers="all")
    return trace_translation(explained_model(), SENTENCE, None, search, interventions, options)


def assert_same_numbers(ours: Trace, theirs: Trace) -> None:
    for a, b in zip(ours.attention, theirs.attention, strict=True):
        assert np.array_equal(a.weights, b.weights)
        assert np.array_equal(a.scores, b.scores)
    assert ours.translation == theirs.translation
    assert ours.steps == theirs.steps
    assert ours.beam.nodes == theirs.beam.nodes


def test_trace_without_interventions_equals_plain_attention_exactly() -> None:
    plain = trace_translation(
        explained_model().with_interventions([]),
        SENTENCE,
        search=SHORT,
        options=TraceOptions(layers="all"),
    )
    assert_same_numbers(trace_with(), plain)
    unchanged = trace_with(
        ScaleAttentionScores(stack="decoder", layer=0, attention="cross", factor=1.0)
    )
    assert_same_numbers(unchanged, plain)
    assert unchanged.intervention_effect is not None
    assert (
        unchanged.intervention_effect.baseline_log_prob_after
        == unchanged.intervention_effect.baseline.log_prob
    )
    assert {kind for kind, _ in unchanged.intervention_effect.word_diff} == {"same"}


def test_trace_contains_effect_of_interventions() -> None:
    ablation = AblateHeads(stack="decoder", layer=1, attention="cross", heads=(0, 1))
    trace = trace_with(ablation)
    assert trace.interventions == (ablation,)
    assert trace.attention_map("decoder", 1, "cross").ablated_heads == (0, 1)
    assert trace.attention_map("decoder", 0, "cross").ablated_heads == ()
    assert trace.intervention_effect is not None
    assert trace.intervention_effect.baseline.text == trace_with().translation.text
    explained, plain = explained_model(), trace_with()
    tokens = [token.id for token in plain.target.tokens]
    forced = explained.with_interventions([ablation]).search(
        explained.encode_source(SENTENCE), SHORT, forced_tokens=tokens
    )
    assert trace.intervention_effect.baseline_log_prob_after == pytest.approx(
        forced.log_prob, abs=1e-4
    )
    assert trace.intervention_effect.baseline_log_prob_after != pytest.approx(
        plain.translation.log_prob, abs=1e-3
    )
    for other, target in (("removed", trace.target), ("added", plain.target)):
        words = [word for kind, word in trace.intervention_effect.word_diff if kind != other]
        assert words == [word.text for word in target.words]
    assert Trace.from_json(trace.to_json()).interventions == (ablation,)


@pytest.mark.parametrize(
    "ablation",
    [
        AblateHeads(stack="decoder", layer=1, attention="cross", heads=(0,)),
        AblateSublayer(stack="decoder", layer=1, sublayer="cross"),
    ],
    ids=["head", "sublayer"],
)
def test_ablated_heads_do_not_count_in_attention_attributions(ablation: Any) -> None:
    trace = trace_with(ablation)
    maps = [trace.attention_map("decoder", layer, "cross") for layer in (0, 1)]
    if isinstance(ablation, AblateHeads):
        expected = (maps[0].weights.mean(0) + maps[1].weights[1]) / 2
    else:
        assert maps[1].ablated_heads == (0, 1)
        expected = maps[0].weights.mean(0)
    np.testing.assert_allclose(trace.mean_cross_attention(), expected, rtol=1e-6)


def test_rollout_skips_ablated_sublayers() -> None:
    layers = (0, 1)
    ablations = [AblateSublayer(stack="encoder", layer=i, sublayer="self") for i in layers]
    ablations += [AblateSublayer(stack="decoder", layer=1, sublayer="cross")]
    trace = trace_with(*ablations)
    own = [trace.attention_map("decoder", i, "self").weights.mean(0) for i in layers]
    cross = trace.attention_map("decoder", 0, "cross").weights.mean(0)
    expected = (cross / 2 + own[1] @ cross / 2) / 2
    np.testing.assert_allclose(compute_attention_rollout(trace), expected, atol=1e-6)


@pytest.mark.parametrize("requires_grad", [True, False], ids=["trainable", "frozen"])
def test_attributions_are_zero_without_decoder_layers(requires_grad: bool) -> None:
    ablations = [AblateLayer(stack="decoder", layer=layer) for layer in (0, 1)]
    explained = explained_model()
    explained.model.requires_grad_(requires_grad)
    methods = ("attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion")
    options = TraceOptions(attributions=methods)
    trace = trace_translation(explained, SENTENCE, None, SHORT, ablations, options)
    for attribution in trace.attributions:
        assert not attribution.word_scores.any(), attribution.method


def test_scale_zero_gives_uniform_weights() -> None:
    trace = trace_with(
        ScaleAttentionScores(stack="decoder", layer=1, attention="cross", heads=(1,), factor=0.0)
    )
    weights = trace.attention_map("decoder", 1, "cross").weights
    np.testing.assert_allclose(weights[1], 1 / weights.shape[2], rtol=1e-6)
    assert weights[0].std() > 1e-3


def test_masked_keys_are_in_the_mask_of_the_trace() -> None:
    trace = trace_with(MaskKeys(stack="decoder", layer=0, attention="cross", heads=(0,), keys=(2,)))
    cross = trace.attention_map("decoder", 0, "cross")
    assert cross.mask is not None
    assert cross.mask.shape == cross.weights.shape
    assert (cross.mask.sum(axis=(1, 2)) == [len(trace.steps), 0]).all()
    assert (cross.weights[0, :, 2] == 0).all()
    np.testing.assert_allclose(cross.weights.sum(-1), 1, atol=1e-5)


def test_ablated_layer_has_no_attention_map() -> None:
    trace = trace_with(AblateLayer(stack="decoder", layer=0))
    names = [each.address for each in trace.attention]
    assert names == ["encoder.0.self", "encoder.1.self", "decoder.1.self", "decoder.1.cross"]


def test_forced_word_follows_the_prefix_words() -> None:
    plain = trace_with()
    trace = trace_with(ForceContinuation(num_prefix_words=2, text="chat"))
    words = [word.text for word in trace.target.words]
    assert words[:2] == [word.text for word in plain.target.words[:2]]
    assert words[2].startswith("chat")
    with pytest.raises(ConfigError, match="num_prefix_words` must be at most"):
        trace_with(ForceContinuation(num_prefix_words=999, text="chat"))
    with pytest.raises(InputError, match="only one continuation"):
        trace_with(
            ForceContinuation(num_prefix_words=0, text="a"),
            ForceContinuation(num_prefix_words=1, text="b"),
        )


def test_target_and_forced_continuation_are_rejected() -> None:
    with pytest.raises(InputError, match="cannot be combined"):
        trace_translation(
            explained_model(),
            SENTENCE,
            "le chat",
            SHORT,
            [ForceContinuation(num_prefix_words=1, text="chat")],
        )


@pytest.mark.parametrize(("stack", "attention"), [("encoder", "self"), ("decoder", "cross")])
def test_masked_keys_beyond_the_source_are_rejected(stack: Any, attention: Any) -> None:
    count = len(trace_with().source.tokens)
    trace_with(MaskKeys(stack=stack, attention=attention, keys=(count - 1,)))
    with pytest.raises(ConfigError, match=f"keys` must be below {count}"):
        trace_with(MaskKeys(stack=stack, attention=attention, keys=(count,)))
    trace_with(
        MaskKeys(stack="decoder", attention="self", keys=(400,))
    )  # the target may become that long


def test_trace_has_no_scale_if_heads_differ() -> None:
    trace = trace_with(
        ScaleAttentionScores(stack="decoder", layer=1, attention="cross", heads=(1,), factor=0.5)
    )
    assert trace.attention_map("decoder", 1, "cross").scale is None
    assert trace.attention_map("decoder", 0, "cross").scale == pytest.approx(8**-0.5)


def test_head_without_effect_does_not_change_bleu() -> None:
    explained = explained_model()
    with torch.no_grad():
        explained.model.decoder.layers[1].cross_attention.output.weight[:, 8:] = 0
    greedy = SearchConfig(beam_size=1, length=LengthConfig(max_ratio=1.0, max_extra=2))
    progress: list[tuple[int, int]] = []
    report = measure_head_importance(
        explained, LINES, LINES, greedy, lambda *numbers: progress.append(numbers)
    )
    assert len(report.heads) == 12
    assert progress[-1] == (12, 12)
    (unused,) = [h for h in report.heads if (h.attention_address, h.head) == ("decoder.1.cross", 1)]
    assert unused.bleu_change == 0
    assert all(h.bleu_change == pytest.approx(h.bleu - report.baseline_bleu) for h in report.heads)
    assert "tok:13a" in report.signature
    assert report.build_table().row_labels == [
        *("encoder.0.self", "encoder.1.self"),
        *("decoder.0.self", "decoder.0.cross", "decoder.1.self", "decoder.1.cross"),
    ]


ADDRESSES: Sequence[tuple[str, str, Intervention]] = [
    (
        "ablate",
        "decoder.1.cross.3",
        AblateHeads(stack="decoder", layer=1, attention="cross", heads=(3,)),
    ),
    ("ablate", "encoder.0.self", AblateSublayer(stack="encoder", layer=0, sublayer="self")),
    (
        "ablate",
        "decoder.1.feed_forward",
        AblateSublayer(stack="decoder", layer=1, sublayer="feed_forward"),
    ),
    ("ablate", "encoder.4", AblateLayer(stack="encoder", layer=4)),
    ("ablate", "encoder.positions", AblatePositions(stack="encoder")),
    (
        "scale_scores",
        "decoder.1.cross=0.5",
        ScaleAttentionScores(stack="decoder", layer=1, attention="cross", factor=0.5),
    ),
    ("mask_keys", "decoder.cross=4,5", MaskKeys(stack="decoder", attention="cross", keys=(4, 5))),
    (
        "mask_keys",
        "encoder.1.self.0=2",
        MaskKeys(stack="encoder", layer=1, attention="self", heads=(0,), keys=(2,)),
    ),
    ("shift_positions", "encoder=5", ShiftPositions(stack="encoder", offset=5)),
    ("force_continuation", "3=elle = il", ForceContinuation(num_prefix_words=3, text="elle = il")),
]


@pytest.mark.parametrize(("name", "text", "intervention"), ADDRESSES)
def test_addresses_are_parsed(name: str, text: str, intervention: Intervention) -> None:
    assert parse_intervention(name, text) == intervention


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ablate", "decoder"),
        ("ablate", "middle.1"),
        ("ablate", "decoder.1.2"),
        ("ablate", "decoder.1.feed_forward.2"),
        ("scale_scores", "decoder.1.cross"),
        ("scale_scores", "decoder.cross=2"),
        ("scale_scores", "decoder.1.cross=much"),
        ("mask_keys", "decoder.cross=a"),
        ("mask_keys", "decoder.1=3"),
        ("shift_positions", "encoder=-1"),
        ("force_continuation", "elle"),
        ("force_continuation", "1="),
    ],
)
def test_invalid_addresses_are_rejected(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=f"`{name}` must be .* instead"):
        parse_intervention(name, text)


def test_attention_address_is_parsed() -> None:
    assert parse_attention_address("decoder.1.cross.3") == ("decoder", 1, "cross", 3)
    assert parse_attention_address("encoder.0.self") == ("encoder", 0, "self", None)
    for invalid in ("decoder.cross", "decoder.1", "decoder.1.feed_forward"):
        with pytest.raises(ConfigError, match="`plot_attention` must be .* instead"):
            parse_attention_address(invalid)
