"""An intervention does what it says, nothing else, and leaves the model as it was."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

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
    ScaleScores,
    ShiftPositions,
    Trace,
    TraceOptions,
    interventions,
    list_head_ablations,
    patch_model,
    trace_translation,
)
from seq2see.explain.explainer import diff_words
from seq2see.explain.head_ablation import measure_head_importance
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair

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
    ScaleScores(stack="decoder", layer=0, attention="self", factor=0.5),
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


class Everywhere:
    """Listens, so that attention is plain."""

    def attention_listener(self, site: Any) -> Any:
        return lambda record: None

    def layer_listener(self, stack: Any, layer: int) -> None: ...


@pytest.mark.parametrize("variant", VARIANTS)
def test_none_is_the_baseline_to_the_bit(variant: str) -> None:
    net = model(variant)
    with torch.inference_mode():
        plain = net(SRC, TGT, Everywhere())
    assert torch.equal(logits(patch_model(net, [])), plain)
    close(plain, logits(net))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_original_stays_as_it_was(variant: str) -> None:
    net = model(variant)
    before, state, parts = logits(net), deepcopy(net.state_dict()), dict(net.named_modules())
    changed = patch_model(net, EVERYTHING)
    assert not torch.equal(logits(changed), before)
    assert torch.equal(logits(net), before)
    assert dict(net.named_modules()) == parts
    assert all(torch.equal(net.state_dict()[name], value) for name, value in state.items())
    ours, theirs = set(changed.parameters()), set(net.parameters())
    assert ours <= theirs, "weights are shared, never copied"


@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "linformer"])
@pytest.mark.parametrize("intervention", EVERYTHING, ids=lambda each: each.kind)
def test_steps_through_the_cache_are_the_whole(variant: str, intervention: Any) -> None:
    net = patch_model(model(variant), [intervention])
    with torch.inference_mode():
        memory = net.encode(SRC)
        whole = net.decode(TGT, memory)
        cache = net.init_cache(memory)
        steps = [net.step(token, cache) for token in TGT.split(1, dim=1)]
        close(torch.cat(steps, dim=1), whole)
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
def test_a_head_that_is_off_is_one_that_nobody_reads(
    variant: str, stack: Any, kind: Any, part: str
) -> None:
    net = model(variant)
    off = AblateHeads(stack=stack, layer=1, attention=kind, heads=(1,))
    deaf = deepcopy(net)
    output = getattr(getattr(deaf, stack).layers[1], part).output
    with torch.no_grad():
        output.weight[:, SIZE:] = 0
    close(logits(patch_model(net, [off])), logits(deaf))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_a_layer_that_is_off_is_one_that_is_not_there(variant: str, stack: Any) -> None:
    net = model(variant)
    shorter = deepcopy(net)
    del getattr(shorter, stack).layers[0]
    off = patch_model(net, [AblateLayer(stack=stack, layer=0)])
    close(logits(off), logits(shorter))


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_a_sublayer_that_is_off_is_one_that_gives_zeros(variant: str) -> None:
    net = model(variant)
    dead = deepcopy(net)
    with torch.no_grad():
        for weight in dead.decoder.layers[1].feed_forward.down.parameters():
            weight.zero_()
    off = AblateSublayer(stack="decoder", layer=1, sublayer="feed_forward")
    close(logits(patch_model(net, [off])), logits(dead))


@pytest.mark.parametrize("variant", ["paper", "relative"])
def test_a_scale_is_another_scale(variant: str) -> None:
    net = model(variant)
    scaled = deepcopy(net)
    scaled.encoder.layers[0].attention.attention.scale *= 3  # type: ignore[union-attr,operator]
    change = ScaleScores(stack="encoder", layer=0, attention="self", factor=3.0)
    close(logits(patch_model(net, [change])), logits(scaled))
    halves = [change.replace(factor=1.5), change.replace(factor=2.0)]
    close(logits(patch_model(net, halves)), logits(scaled))


@pytest.mark.parametrize("variant", ["paper", "linformer", "additive"])
def test_what_is_hidden_from_all_is_padding(variant: str) -> None:
    net, padded = model(variant), SRC.clone()
    padded[0, 3] = 0
    hidden: list[Intervention] = [
        MaskKeys(stack="encoder", attention="self", keys=(3,)),
        MaskKeys(stack="decoder", attention="cross", keys=(3,)),
    ]
    with torch.inference_mode():
        close(patch_model(net, hidden)(SRC[:1], TGT[:1]), net(padded[:1], TGT[:1]))


@pytest.mark.parametrize("variant", ["paper", "relative", "learned"])
def test_without_positions_order_does_not_matter(variant: str) -> None:
    net = patch_model(model(variant), [AblatePositions(stack="encoder")])
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.inference_mode():
        states = net.encode(SRC[:1]).states_BSM
        close(net.encode(SRC[:1, order]).states_BSM, states[:, order])
        known = model(variant)
        moved = known.encode(SRC[:1, order]).states_BSM - known.encode(SRC[:1]).states_BSM[:, order]
    assert moved.abs().max() > 1e-3


def test_a_shift_is_a_later_beginning() -> None:
    net = model("learned")
    by = ShiftPositions(stack="encoder", offset=2)
    shifted = deepcopy(net)
    with torch.no_grad():
        table = shifted.encoder.embeddings.positions.weight_NM
        table.copy_(table.roll(-2, 0))
    close(logits(patch_model(net, [by])), logits(shifted))
    assert torch.equal(
        logits(patch_model(net, [by.replace(offset=0)])), logits(patch_model(net, []))
    )
    relative = model("relative")
    assert torch.equal(logits(patch_model(relative, [by])), logits(patch_model(relative, [])))


@pytest.mark.parametrize(
    ("intervention", "problem"),
    [
        (
            AblateLayer(stack="encoder", layer=2),
            "`layer` must be from 0 to 1 in the encoder, but is 2",
        ),
        (
            AblateHeads(stack="decoder", layer=0, attention="self", heads=(5,)),
            "`heads` must be from",
        ),
        (
            ScaleScores(stack="encoder", layer=0, attention="cross", factor=1.0),
            "must be in the decoder",
        ),
        (AblateSublayer(stack="encoder", layer=0, sublayer="cross"), "must be in the decoder"),
    ],
)
def test_what_the_model_does_not_have(intervention: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        patch_model(model(), [intervention])


def test_every_head_is_named_once() -> None:
    heads = list_head_ablations(model())
    assert len(heads) == len(set(heads)) == 3 * 2 * HEADS


# With words.

LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "le chat dort .", "l'eau coule !"]
SENTENCE = "the dog sleeps and a cat runs ."
SHORT = SearchConfig(beam_size=3, length=LengthConfig(max_ratio=1.0, max_extra=3))


@cache
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))


def subject(**settings: Any) -> ExplainedModel:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(5)
    table = {"vocab_size": tokenizers().source.vocab_size, **sizes, **settings}
    model = Transformer.from_config(ModelConfig(**table))
    with torch.no_grad():  # livelier than at the start: attention that has made up its mind
        for weight in model.parameters():
            weight.mul_(2.0)
    return ExplainedModel(model.eval(), tokenizers(), ("en", "fr"))


def changed(*interventions: Intervention, search: SearchConfig = SHORT) -> Trace:
    detail = TraceOptions(layers="all")
    return trace_translation(subject(), SENTENCE, None, search, interventions, detail)


def same_numbers(ours: Trace, theirs: Trace) -> None:
    for a, b in zip(ours.attention, theirs.attention, strict=True):
        assert np.array_equal(a.weights, b.weights)
        assert np.array_equal(a.scores, b.scores)
    assert ours.translation == theirs.translation
    assert ours.steps == theirs.steps
    assert ours.beam.nodes == theirs.beam.nodes


def test_a_trace_without_interventions_is_the_plain_form_to_the_bit() -> None:
    plain = trace_translation(
        subject().with_interventions([]), SENTENCE, search=SHORT, options=TraceOptions(layers="all")
    )
    same_numbers(changed(), plain)
    nothing = changed(ScaleScores(stack="decoder", layer=0, attention="cross", factor=1.0))
    same_numbers(nothing, plain)
    assert nothing.intervention_effect is not None
    assert (
        nothing.intervention_effect.baseline_log_prob_after
        == nothing.intervention_effect.baseline.log_prob
    )
    assert {kind for kind, _ in nothing.intervention_effect.word_diff} == {"same"}


def test_the_change_is_told() -> None:
    off = AblateHeads(stack="decoder", layer=1, attention="cross", heads=(0, 1))
    made = changed(off)
    assert made.interventions == (off,)
    assert made.attention_map("decoder", 1, "cross").ablated_heads == (0, 1)
    assert made.attention_map("decoder", 0, "cross").ablated_heads == ()
    assert made.intervention_effect is not None
    assert made.intervention_effect.baseline.text == changed().translation.text
    of, plain = subject(), changed()
    tokens = [token.id for token in plain.target.tokens]
    forced = of.with_interventions([off]).search(
        of.encode_source(SENTENCE), SHORT, forced_tokens=tokens
    )
    assert made.intervention_effect.baseline_log_prob_after == pytest.approx(
        forced.log_prob, abs=1e-4
    )
    assert made.intervention_effect.baseline_log_prob_after != pytest.approx(
        plain.translation.log_prob, abs=1e-3
    )
    rest = [word for kind, word in made.intervention_effect.word_diff if kind != "removed"]
    assert rest == [word.text for word in made.target.words]
    assert Trace.from_json(made.to_json()).interventions == (off,)


def test_scale_zero_looks_everywhere_alike() -> None:
    found = changed(
        ScaleScores(stack="decoder", layer=1, attention="cross", heads=(1,), factor=0.0)
    )
    weights = found.attention_map("decoder", 1, "cross").weights
    np.testing.assert_allclose(weights[1], 1 / weights.shape[2], rtol=1e-6)
    assert weights[0].std() > 1e-3


def test_hidden_keys_are_masked_in_the_trace() -> None:
    found = changed(MaskKeys(stack="decoder", layer=0, attention="cross", heads=(0,), keys=(2,)))
    cross = found.attention_map("decoder", 0, "cross")
    assert cross.mask is not None
    assert cross.mask.shape == cross.weights.shape
    assert (cross.mask.sum(axis=(1, 2)) == [len(found.steps), 0]).all()
    assert (cross.weights[0, :, 2] == 0).all()
    np.testing.assert_allclose(cross.weights.sum(-1), 1, atol=1e-5)


def test_a_layer_that_is_off_has_no_attention_to_show() -> None:
    found = changed(AblateLayer(stack="decoder", layer=0))
    names = [each.address for each in found.attention]
    assert names == ["encoder.0.self", "encoder.1.self", "decoder.1.self", "decoder.1.cross"]


def test_a_forced_word_stands_behind_those_that_are_kept() -> None:
    plain = changed()
    made = changed(ForceContinuation(num_prefix_words=2, text="chat"))
    words = [word.text for word in made.target.words]
    assert words[:2] == [word.text for word in plain.target.words[:2]]
    assert words[2].startswith("chat")
    with pytest.raises(InputError, match="`word` must be at most"):
        changed(ForceContinuation(num_prefix_words=999, text="chat"))
    with pytest.raises(InputError, match="at one place"):
        changed(
            ForceContinuation(num_prefix_words=0, text="a"),
            ForceContinuation(num_prefix_words=1, text="b"),
        )


def test_a_whole_translation_cannot_be_forced_in_its_middle_too() -> None:
    with pytest.raises(InputError, match="must be left out where a text is forced"):
        trace_translation(
            subject(),
            SENTENCE,
            "le chat",
            SHORT,
            [ForceContinuation(num_prefix_words=1, text="chat")],
        )


@pytest.mark.parametrize(("stack", "attention"), [("encoder", "self"), ("decoder", "cross")])
def test_what_the_source_does_not_have_cannot_be_hidden(stack: Any, attention: Any) -> None:
    count = len(changed().source.tokens)
    changed(MaskKeys(stack=stack, attention=attention, keys=(count - 1,)))
    with pytest.raises(InputError, match=f"`keys` must be below {count}"):
        changed(MaskKeys(stack=stack, attention=attention, keys=(count,)))
    changed(MaskKeys(stack="decoder", attention="self", keys=(400,)))  # it may come to that


def test_a_scale_that_differs_between_heads_is_not_told_as_one() -> None:
    made = changed(ScaleScores(stack="decoder", layer=1, attention="cross", heads=(1,), factor=0.5))
    assert made.attention_map("decoder", 1, "cross").scale is None
    assert made.attention_map("decoder", 0, "cross").scale == pytest.approx(8**-0.5)


def test_differences_by_hand() -> None:
    before, after = ["a", "b", "c"], ["a", "x", "c", "d"]
    told = [("same", "a"), ("removed", "b"), ("added", "x"), ("same", "c"), ("added", "d")]
    assert list(diff_words(before, after)) == told


def test_a_head_that_nobody_reads_changes_no_bleu() -> None:
    of = subject()
    with torch.no_grad():
        of.model.decoder.layers[1].cross_attention.output.weight[:, 8:] = 0
    greedy = SearchConfig(beam_size=1, length=LengthConfig(max_ratio=1.0, max_extra=2))
    asked: list[tuple[int, int]] = []
    report = measure_head_importance(of, LINES, LINES, greedy, lambda *told: asked.append(told))
    assert len(report.heads) == 12
    assert asked[-1] == (12, 12)
    (dead,) = [
        h
        for h in report.heads
        if (h.attention_name, h.layer, h.head) == ("decoder, cross-attention", 1, 1)
    ]
    assert dead.bleu_change == 0
    assert all(h.bleu_change == pytest.approx(h.bleu - report.baseline_bleu) for h in report.heads)
    assert "tok:13a" in report.signature
    assert [table.title for table in report.build_tables()] == [
        "encoder, self-attention",
        "decoder, self-attention",
        "decoder, cross-attention",
    ]


PLACES: Sequence[tuple[str, str, Intervention]] = [
    (
        "ablation",
        "decoder.1.cross.3",
        AblateHeads(stack="decoder", layer=1, attention="cross", heads=(3,)),
    ),
    ("ablation", "encoder.0.self", AblateSublayer(stack="encoder", layer=0, sublayer="self")),
    (
        "ablation",
        "decoder.1.feed_forward",
        AblateSublayer(stack="decoder", layer=1, sublayer="feed_forward"),
    ),
    ("ablation", "encoder.4", AblateLayer(stack="encoder", layer=4)),
    ("ablation", "encoder.positions", AblatePositions(stack="encoder")),
    (
        "scale_scores",
        "decoder.1.cross=0.5",
        ScaleScores(stack="decoder", layer=1, attention="cross", factor=0.5),
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


@pytest.mark.parametrize(("name", "text", "intervention"), PLACES)
def test_places_on_the_command_line(name: str, text: str, intervention: Intervention) -> None:
    assert getattr(interventions, f"parse_{name}")(text) == intervention


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ablation", "decoder"),
        ("ablation", "middle.1"),
        ("ablation", "decoder.1.2"),
        ("ablation", "decoder.1.feed_forward.2"),
        ("scale_scores", "decoder.1.cross"),
        ("scale_scores", "decoder.cross=2"),
        ("scale_scores", "decoder.1.cross=much"),
        ("mask_keys", "decoder.cross=a"),
        ("mask_keys", "decoder.1=3"),
        ("shift_positions", "encoder=-1"),
        ("force_continuation", "elle"),
        ("force_continuation", "1="),
        ("attention_address", "decoder.cross"),
    ],
)
def test_places_that_are_none(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match="must be .* instead"):
        getattr(interventions, f"parse_{name}")(text)
