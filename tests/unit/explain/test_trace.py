"""A trace says what happened: its numbers are the model's, the search's, and each other's."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import seq2see
from seq2see.bundle import Bundle
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.explain import ExplainedModel, Trace, TraceOptions, explain, trace_translation
from seq2see.explain.trace_builder import summarize_heads
from seq2see.explain.words import mark_word_starts
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translator

LINES = ["the cat sleeps .", "a dog runs and the cat sleeps .", "le chat dort .", "l'eau coule !"]
SENTENCE = "the dog sleeps and a cat runs ."
SHORT = SearchConfig(beam_size=3, length=LengthConfig(max_ratio=1.0, max_extra=3))
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "relative": {"positions": {"kind": "relative", "max_distance": 3}},
    "additive": {"attention": {"kind": "additive"}},
    "qk norm": {"attention": {"kind": "qk_norm"}},
    "pre-norm": {"norm": {"placement": "pre"}},
    "linformer": {"encoder_attention": {"kind": "linformer", "rank": 3}},
}


@cache
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=300))


def config_of(variant: str = "paper", **settings: Any) -> ModelConfig:
    sizes = {"d_model": 16, "d_ff": 24, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    size = tokenizers().source.vocab_size
    return ModelConfig(**{"vocab_size": size, **sizes, **VARIANTS[variant], **settings})


def explained_model(variant: str = "paper", **settings: Any) -> ExplainedModel:
    torch.manual_seed(5)
    model = Transformer.from_config(config_of(variant, **settings))
    with torch.no_grad():  # larger weights make attention less uniform than at initialization
        for weight in model.parameters():
            weight.mul_(2.0)
    return ExplainedModel(Translator(TorchEngine(model.eval()), tokenizers(), ("en", "fr")))


@cache
def cached_trace(variant: str = "paper") -> Trace:
    return trace_translation(
        explained_model(variant), SENTENCE, search=SHORT, options=TraceOptions(layers="all")
    )


def translator(explained: ExplainedModel) -> Translator:
    return Translator(
        TorchEngine(explained.model, explained.special_tokens),
        explained.tokenizers,
        explained.languages,
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_sum_to_one_and_masked_weights_are_zero(variant: str) -> None:
    trace = cached_trace(variant)
    assert len(trace.attention) == 6
    for each in trace.attention:
        rows, columns = (
            len(trace.axis_labels(axis, each.weights.shape[2]))
            for axis in (each.query_axis, each.key_axis)
        )
        assert each.weights.shape == (2, rows, columns)
        np.testing.assert_allclose(each.weights.sum(-1), 1, atol=1e-5)
        if each.mask is not None:
            masked = np.broadcast_to(each.mask, each.weights.shape).astype(bool)
            assert (each.weights[masked] == 0).all()


def test_axis_labels_are_tokens_of_queries_and_keys() -> None:
    trace = cached_trace()
    cross, own = (
        trace.attention_map("decoder", 1, "cross"),
        trace.attention_map("decoder", 1, "self"),
    )
    target = [token.text for token in trace.target.tokens]
    assert trace.axis_labels(cross.query_axis) == target
    assert trace.axis_labels(cross.key_axis) == [token.text for token in trace.source.tokens]
    assert trace.axis_labels(cross.key_axis)[-1] == "⟨end⟩"
    assert (
        trace.axis_labels(own.query_axis)
        == trace.axis_labels(own.key_axis)
        == ["⟨start⟩", *target[:-1]]
    )
    assert own.mask is not None
    assert (own.mask == np.triu(np.ones_like(own.mask), 1)).all()


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_scores_and_weights_follow_from_queries_and_keys(variant: str) -> None:
    for each in cached_trace(variant).attention:
        assert each.scores is not None
        assert each.scale == pytest.approx(8**-0.5)
        products = each.scale * each.queries @ each.keys.transpose(0, 2, 1)
        masked = np.zeros_like(each.scores, bool) if each.mask is None else each.mask == 1
        masked = np.broadcast_to(masked, each.scores.shape)
        np.testing.assert_allclose(products[~masked], each.scores[~masked], atol=1e-4)
        scores = np.where(masked, -np.inf, each.scores)
        weights = torch.tensor(scores).softmax(-1).numpy()
        np.testing.assert_allclose(weights, each.weights, atol=1e-5)


def test_relative_attention_has_no_scale() -> None:
    trace = cached_trace("relative")
    assert trace.attention_map("encoder", 0, "self").scale is None
    assert trace.attention_map("decoder", 0, "cross").scale == pytest.approx(8**-0.5)


def test_coverage_penalty_uses_alignment_heads_of_engine() -> None:
    explained = explained_model()
    explained.model.double()  # so that both implementations agree up to rounding
    search = SHORT.replace(coverage_penalty=0.5)
    scores = set()
    for head in (0, 1):
        alignment = AlignmentConfig(layer=0, heads=(head,))
        engine = TorchEngine(explained.model, explained.special_tokens, alignment)
        other = Translator(engine, explained.tokenizers, explained.languages)
        trace = explain(other, SENTENCE, search=search)
        expected = other.translate(SENTENCE, **search.model_dump())
        assert trace.translation.score == pytest.approx(expected.score, abs=1e-5)
        scores.add(round(trace.translation.score, 4))
    assert len(scores) == 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_translation_equals_torch_engine(variant: str) -> None:
    explained = explained_model(variant)
    trace, expected = (
        cached_trace(variant),
        translator(explained).translate(SENTENCE, **SHORT.model_dump()),
    )
    assert trace.translation.text == expected.text
    assert trace.translation.log_prob == pytest.approx(expected.log_prob, abs=1e-4)
    assert trace.translation.score == pytest.approx(expected.score, abs=1e-5)


SEARCHES: dict[str, dict[str, Any]] = {
    "beam": {},
    "penalized": {"length_penalty": 0.6, "coverage_penalty": 0.3, "repetition_penalty": 1.3},
    "groups": {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "sampled": {"beam_size": 1, "sampling": {"seed": 3}, "n_best": 2},
    "greedy": {"beam_size": 1},
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_log_probs_of_beam_nodes_sum_along_paths(kind: str) -> None:
    search = SHORT.replace(**SEARCHES[kind])
    trace = trace_translation(explained_model(), SENTENCE, search=search)
    nodes = trace.beam.nodes
    for node in nodes:
        if node.parent is None:
            assert node.step == 0
            before = 0.0
        else:
            parent = nodes[node.parent]
            assert parent.step == node.step - 1
            assert parent.search_index == node.search_index
            assert parent.status == "alive"
            before = parent.log_prob
        assert node.log_prob == pytest.approx(before + node.token_log_prob, abs=1e-4)
        length = (node.step + 1) ** search.length_penalty
        assert node.score == pytest.approx(node.log_prob / length - node.penalty, abs=1e-5)
    path = [nodes[number] for number in trace.beam.best_path]
    assert [node.token_id for node in path] == [token.id for token in trace.target.tokens]
    assert path[-1].log_prob == pytest.approx(trace.translation.log_prob, abs=1e-5)
    assert path[-1].status == "finished"
    if kind == "beam":
        alive = [sum(n.status == "alive" for n in nodes if n.step == s) for s in range(3)]
        assert alive == [3, 3, 3]
        finished = [n.score for n in nodes if n.status == "finished"]
        assert trace.translation.score == pytest.approx(max(finished))


@pytest.mark.parametrize("kind", ["beam", "groups", "sampled"])
def test_attention_of_best_path_equals_forced_decoding(kind: str) -> None:
    """The hypothesis changes its row in the beam from step to step."""
    explained = explained_model()
    explained.model.double()  # so that both computations agree up to rounding
    search = SHORT.replace(**{"beam_size": 8, **SEARCHES[kind]})
    trace = trace_translation(explained, SENTENCE, search=search)
    expected = forced_cross_attention(explained, [token.id for token in trace.target.tokens])
    weights = trace.attention_map("decoder", 1, "cross").weights
    np.testing.assert_allclose(weights.swapaxes(0, 1), expected, atol=5e-5)


def test_log_prob_of_each_hypothesis_equals_forced_decoding() -> None:
    explained, trace = explained_model(), cached_trace()
    nodes = trace.beam.nodes
    ends = [node for node in nodes if node.status in {"finished", "stopped"}]
    assert len(ends) >= 3
    for end in ends:
        path = [end]
        while path[0].parent is not None:
            path.insert(0, nodes[path[0].parent])
        tokens = [node.token_id for node in path]
        forced = explained.search(explained.encode_source(SENTENCE), SHORT, forced_tokens=tokens)
        assert forced.tokens == tuple(tokens)
        assert forced.log_prob == pytest.approx(end.log_prob, abs=1e-4)


def forced_cross_attention(explained: ExplainedModel, tokens: list[int]) -> np.ndarray:
    """Return the cross-attention of the last layer with teacher forcing, [T, H, S]."""
    weights: list[torch.Tensor] = []

    class CrossAttentionRecorder:
        def attention_listener(self, site: Any) -> Any:
            is_last_cross = (site.layer, site.kind) == (1, "cross")
            return (lambda record: weights.append(record.weights_BHTS)) if is_last_cross else None

        def layer_listener(self, stack: Any, layer: int) -> None: ...

    decoder_input = torch.tensor([[explained.special_tokens.decoder_start_id, *tokens[:-1]]])
    source = explained.build_source_BS(explained.encode_source(SENTENCE))
    with torch.inference_mode():
        explained.model(source, decoder_input, CrossAttentionRecorder())
    return weights[0][0].transpose(0, 1).numpy()


def test_given_target_is_force_decoded() -> None:
    explained = explained_model()
    trace = explain(translator(explained), SENTENCE, "le chien dort .")
    assert trace.is_forced
    assert trace.translation.text == "le chien dort ."
    assert trace.target.tokens[-1].text == "⟨end⟩"
    assert len(trace.beam.nodes) == len(trace.steps)
    (scored,) = translator(explained).score([(SENTENCE, "le chien dort .")])
    assert trace.translation.log_prob == pytest.approx(scored.log_prob, abs=1e-4)


def test_empty_target_has_only_the_end_token() -> None:
    trace = explain(translator(explained_model()), SENTENCE, "")
    assert [token.text for token in trace.target.tokens] == ["⟨end⟩"]


def test_package_can_be_called() -> None:
    explained = explained_model()
    trace = seq2see.explain(translator(explained), SENTENCE, search=SHORT)
    assert trace.translation.text == cached_trace().translation.text


class OtherEngine:
    """An engine that is not a TorchEngine."""

    name = "other"

    def __init__(self, inner: TorchEngine) -> None:
        self.inner = inner
        self.special_tokens = inner.special_tokens

    def resolve_config(self, config: Any) -> Any:
        return self.inner.resolve_config(config)

    def search(self, *args: Any, **settings: Any) -> Any:
        return self.inner.search(*args, **settings)

    def score_targets(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.score_targets(*args, **kwargs)


@pytest.mark.parametrize("differs", [True, False])
def test_different_translation_of_other_engine_is_force_decoded(differs: bool) -> None:
    explained = explained_model()
    other_model = explained_model("pre-norm" if differs else "paper")

    bundle = Bundle(
        config_of(), explained.tokenizers, explained.languages, explained.model.state_dict()
    )
    engine = OtherEngine(TorchEngine(other_model.model))
    other = Translator(engine, explained.tokenizers, explained.languages, bundle=bundle)  # type: ignore[arg-type]
    trace = explain(other, SENTENCE, search=SHORT)
    assert trace.is_forced == differs
    text = translator(other_model).translate(SENTENCE, **SHORT.model_dump()).text
    assert trace.translation.text == explained.tokenizers.target.normalize(text)


def test_steps_have_probability_rank_and_entropy() -> None:
    trace = cached_trace()
    size = trace.model.vocab_size
    for t, (step, token) in enumerate(zip(trace.steps, trace.target.tokens, strict=True)):
        assert step.input_piece == (
            trace.target.tokens[t - 1].piece if t else trace.start_token.piece
        )
        log_probs = [candidate.log_prob for candidate in step.top_candidates]
        assert log_probs == sorted(log_probs, reverse=True)
        assert 0 <= step.entropy <= np.log(size)
        if step.rank < len(step.top_candidates):
            assert step.top_candidates[step.rank].id == token.id
            assert step.top_candidates[step.rank].probability == pytest.approx(
                step.probability, rel=1e-5
            )
    assert sum(step.log_prob for step in trace.steps) == pytest.approx(trace.translation.log_prob)


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_logit_lens_of_last_layer_equals_model(variant: str) -> None:
    trace = cached_trace(variant)
    last = trace.logit_lens[-1]
    assert last.layer == 1
    np.testing.assert_allclose(
        last.probability, [step.probability for step in trace.steps], rtol=1e-4
    )
    assert [top[0].id for top in last.top_candidates] == [
        step.top_candidates[0].id for step in trace.steps
    ]


def test_json_round_trip() -> None:
    text = cached_trace().to_json()
    restored = Trace.from_json(text)
    assert restored.to_json() == text
    assert restored.attention_map("encoder", 0, "self").weights.dtype == np.float32
    table = json.loads(text)
    assert (table["format"], table["version"]) == ("seq2see-trace", 2)
    assert Trace.from_json(json.dumps({**table, "future_field": 1})).to_json() == text
    with pytest.raises(ConfigError, match="`version` must be at most 2, but is 3"):
        Trace.from_json(json.dumps({**table, "version": 3}))
    table["attention"][0]["weights"]["data"] = "AAAAAA=="
    with pytest.raises(
        ConfigError, match="`attention.0.weights.data` must be numbers .* array of size 1 into"
    ):
        Trace.from_json(json.dumps(table))


def test_only_selected_layers_are_detailed() -> None:
    trace = trace_translation(
        explained_model(), SENTENCE, search=SHORT, options=TraceOptions(layers=("decoder.0",))
    )
    detailed = [each.address for each in trace.attention if each.scores is not None]
    assert detailed == ["decoder.0.self", "decoder.0.cross"]
    none = trace_translation(
        explained_model(), SENTENCE, search=SHORT, options=TraceOptions(layers="none")
    )
    assert all(each.scores is None for each in none.attention)
    assert len(none.to_json()) < len(trace.to_json()) < len(cached_trace().to_json())
    with pytest.raises(ConfigError, match="`layers` must be none, last, all or some of encoder.0"):
        trace_translation(explained_model(), SENTENCE, options=TraceOptions(layers=("decoder.7",)))


def test_empty_sentence_is_rejected() -> None:
    with pytest.raises(InputError, match="must contain text"):
        trace_translation(explained_model(), "  ")


def test_text_longer_than_one_segment_is_rejected() -> None:
    explained = explained_model()
    short = Translator(
        TorchEngine(explained.model), explained.tokenizers, explained.languages, max_tokens=3
    )
    with pytest.raises(InputError, match="at most 3 tokens .* enter one sentence"):
        explain(short, SENTENCE)


def test_more_sentences_than_in_training_are_rejected_with_a_hint() -> None:
    explained = explained_model()
    explained.translator.max_sentences_per_line = 2
    trace_translation(explained, "The dog sleeps. A cat runs.", search=SHORT)
    problem = "must have at most 2 sentences to be explained, but has 3: enter one sentence"
    with pytest.raises(InputError, match=problem):
        trace_translation(explained, "The dog sleeps. A cat runs. A fox sings.")
    with pytest.raises(InputError, match="must have at most 1 sentence to be explained"):
        explain(translator(explained), "The dog sleeps. A cat runs.")


@pytest.mark.parametrize(
    ("pieces", "language", "words"),
    [
        (["▁the", "▁d", "og", "."], "en", ["▁the", "▁dog", "."]),
        (["▁didn", "'", "t", "▁go"], "en", ["▁didn't", "▁go"]),
        (["▁L", "'", "animal", "▁n", "'", "a"], "fr", ["▁L'", "animal", "▁n'", "a"]),
        (["▁", "我", "喜欢", "猫", "。"], "zh", ["▁我", "喜欢", "猫", "。"]),
        (["▁<0xE4>", "<0xBD>", "<0xA0>"], "en", ["▁<0xE4><0xBD><0xA0>"]),
        (["▁wait", ".", ".", ".", "!"], "en", ["▁wait", "...", "!"]),
        (["▁well", "-", "known"], "en", ["▁well-known"]),
        ([], "en", []),
    ],
)
def test_pieces_are_grouped_into_words(pieces: list[str], language: str, words: list[str]) -> None:
    grouped: list[str] = []
    for piece, is_start in zip(pieces, mark_word_starts(pieces, language), strict=True):
        if is_start:
            grouped.append(piece)
        else:
            grouped[-1] += piece
    assert grouped == words


def test_tokens_refer_to_their_words() -> None:
    trace = cached_trace()
    for sentence in (trace.source, trace.target):
        for number, word in enumerate(sentence.words):
            assert {t.word for t in sentence.tokens[word.first_token : word.end_token]} == {number}
    assert trace.source.tokens[-1].word is None
    assert " ".join(word.text for word in trace.source.words) == SENTENCE


def test_head_summaries_of_known_weights() -> None:
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    focused, uniform = summarize_heads(weights, same_tokens=True)
    assert (focused.entropy, focused.max_weight, focused.distance) == (0, 1, 0)
    assert uniform.entropy == pytest.approx(np.log(2))
    assert (uniform.max_weight, uniform.distance) == (0.5, 0.5)
    assert next(iter(summarize_heads(weights, same_tokens=False))).distance is None


def test_word_alternatives_start_with_other_likely_tokens() -> None:
    trace = trace_translation(
        explained_model(), SENTENCE, search=SHORT, options=TraceOptions(word_alternatives=True)
    )
    assert [choice.word_index for choice in trace.word_alternatives] == list(
        range(len(trace.target.words))
    )
    for choice, word in zip(trace.word_alternatives, trace.target.words, strict=True):
        own = [step.log_prob for step in trace.steps[word.first_token : word.end_token]]
        assert choice.log_prob == pytest.approx(sum(own), abs=1e-5)
        chosen = trace.target.tokens[word.first_token].id
        assert choice.alternatives
        for other in choice.alternatives:
            assert other.id != chosen
            first = next(
                c for c in trace.steps[word.first_token].top_candidates if c.id == other.id
            )
            assert other.log_prob <= first.log_prob + 1e-4
