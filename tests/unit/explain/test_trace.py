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
from seq2see.explain.words import find_word_starts
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


def subject(variant: str = "paper", **settings: Any) -> ExplainedModel:
    torch.manual_seed(5)
    model = Transformer.from_config(config_of(variant, **settings))
    with torch.no_grad():  # livelier than at the start: attention that has made up its mind
        for weight in model.parameters():
            weight.mul_(2.0)
    return ExplainedModel(model.eval(), tokenizers(), ("en", "fr"))


@cache
def traced(variant: str = "paper") -> Trace:
    return trace_translation(
        subject(variant), SENTENCE, search=SHORT, options=TraceOptions(layers="all")
    )


def translator(of: ExplainedModel) -> Translator:
    return Translator(TorchEngine(of.model, of.special_tokens), of.tokenizers, of.languages)


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_sum_to_one_and_masked_cells_are_zero(variant: str) -> None:
    made = traced(variant)
    assert len(made.attention) == 6
    for found in made.attention:
        rows, columns = (
            len(made.axis_labels(axis, found.weights.shape[2]))
            for axis in (found.query_axis, found.key_axis)
        )
        assert found.weights.shape == (2, rows, columns)
        np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)
        if found.mask is not None:
            hidden = np.broadcast_to(found.mask, found.weights.shape).astype(bool)
            assert (found.weights[hidden] == 0).all()
    np.testing.assert_allclose(made.beam.mean_attention.sum(-1), 1, atol=1e-5)


def test_labels_are_target_tokens_on_rows_of_cross_attention() -> None:
    made = traced()
    cross, own = made.attention_map("decoder", 1, "cross"), made.attention_map("decoder", 1, "self")
    emitted = [token.text for token in made.target.tokens]
    assert made.axis_labels(cross.query_axis) == emitted
    assert made.axis_labels(cross.key_axis) == [token.text for token in made.source.tokens]
    assert made.axis_labels(cross.key_axis)[-1] == "⟨end⟩"
    assert (
        made.axis_labels(own.query_axis)
        == made.axis_labels(own.key_axis)
        == ["⟨start⟩", *emitted[:-1]]
    )
    assert own.mask is not None
    assert (own.mask == np.triu(np.ones_like(own.mask), 1)).all()


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_the_worked_head_adds_up(variant: str) -> None:
    """q, k, scale → scores; scores, mask → weights."""
    for found in traced(variant).attention:
        assert found.scores is not None
        assert found.scale == pytest.approx(8**-0.5)
        products = found.scale * found.queries @ found.keys.transpose(0, 2, 1)
        hidden = np.zeros_like(found.scores, bool) if found.mask is None else found.mask == 1
        hidden = np.broadcast_to(hidden, found.scores.shape)
        np.testing.assert_allclose(products[~hidden], found.scores[~hidden], atol=1e-4)
        scores = np.where(hidden, -np.inf, found.scores)
        weights = torch.tensor(scores).softmax(-1).numpy()
        np.testing.assert_allclose(weights, found.weights, atol=1e-5)


def test_scores_that_are_more_than_a_product_have_no_scale() -> None:
    made = traced("relative")
    assert made.attention_map("encoder", 0, "self").scale is None
    assert made.attention_map("decoder", 0, "cross").scale == pytest.approx(8**-0.5)


def test_a_coverage_penalty_listens_to_the_heads_of_the_engine() -> None:
    of = subject()
    of.model.double()  # the two paths round otherwise; which heads they hear is all that may differ
    search = SHORT.replace(coverage_penalty=0.5)
    found = set()
    for head in (0, 1):
        alignment = AlignmentConfig(layer=0, heads=(head,))
        engine = TorchEngine(of.model, of.special_tokens, alignment)
        theirs = Translator(engine, of.tokenizers, of.languages)
        made = explain(theirs, SENTENCE, search=search)
        wanted = theirs.translate(SENTENCE, **search.model_dump())
        assert made.translation.score == pytest.approx(wanted.score, abs=1e-5)
        found.add(round(made.translation.score, 4))
    assert len(found) == 2


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_winner_is_what_the_torch_engine_translates(variant: str) -> None:
    of = subject(variant)
    made, theirs = traced(variant), translator(of).translate(SENTENCE, **SHORT.model_dump())
    assert made.translation.text == theirs.text
    assert made.translation.log_prob == pytest.approx(theirs.log_prob, abs=1e-4)
    assert made.translation.score == pytest.approx(theirs.score, abs=1e-5)


SEARCHES: dict[str, dict[str, Any]] = {
    "beam": {},
    "penalised": {"length_penalty": 0.6, "coverage_penalty": 0.3, "repetition_penalty": 1.3},
    "groups": {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "sampled": {"beam_size": 1, "sampling": {"seed": 3}, "n_best": 2},
    "greedy": {"beam_size": 1},
}


@pytest.mark.parametrize("kind", SEARCHES)
def test_the_beam_is_a_forest_whose_paths_sum_up(kind: str) -> None:
    search = SHORT.replace(**SEARCHES[kind])
    made = trace_translation(subject(), SENTENCE, search=search)
    nodes = made.beam.nodes
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
    path = [nodes[number] for number in made.beam.best_path]
    assert [node.token_id for node in path] == [token.id for token in made.target.tokens]
    assert path[-1].log_prob == pytest.approx(made.translation.log_prob, abs=1e-5)
    assert path[-1].status == "finished"
    if kind == "beam":
        alive = [sum(n.status == "alive" for n in nodes if n.step == s) for s in range(3)]
        assert alive == [3, 3, 3]
        finished = [n.score for n in nodes if n.status == "finished"]
        assert made.translation.score == pytest.approx(max(finished))


def test_each_hypothesis_has_its_own_attention() -> None:
    """What a hypothesis looked at in the beam is what it looks at when it is forced alone."""
    of, made = subject(), traced()
    nodes = made.beam.nodes
    rows = made.beam.layer_attention[1].weights
    ends = [node for node in nodes if node.status in {"finished", "stopped"}]
    assert len(ends) >= 3
    for end in ends:
        way = [end]
        while way[0].parent is not None:
            way.insert(0, nodes[way[0].parent])
        given = [node.token_id for node in way]
        alone = of.search(of.encode_source(SENTENCE), SHORT, forced_tokens=given)
        assert alone.tokens == tuple(given)
        assert alone.log_prob == pytest.approx(end.log_prob, abs=1e-4)
        again = forced_cross(of, given)
        np.testing.assert_allclose(rows[[n.attention_row for n in way]], again, atol=1e-5)


def forced_cross(of: ExplainedModel, tokens: list[int]) -> np.ndarray:
    """Cross-attention of the last layer by teacher forcing, [T, H, S]."""
    heard: list[torch.Tensor] = []

    class Ear:
        def attention_listener(self, site: Any) -> Any:
            wanted = (site.layer, site.kind) == (1, "cross")
            return (lambda record: heard.append(record.weights_BHTS)) if wanted else None

        def layer_listener(self, stack: Any, layer: int) -> None: ...

    given = torch.tensor([[of.special_tokens.decoder_start_id, *tokens[:-1]]])
    with torch.inference_mode():
        of.model(of.build_source_BS(of.encode_source(SENTENCE)), given, Ear())
    return heard[0][0].transpose(0, 1).numpy()


def test_a_target_is_forced() -> None:
    of = subject()
    made = explain(translator(of), SENTENCE, "le chien dort .")
    assert made.is_forced
    assert made.translation.text == "le chien dort ."
    assert made.target.tokens[-1].text == "⟨end⟩"
    assert len(made.beam.nodes) == len(made.steps)
    (scored,) = translator(of).score([(SENTENCE, "le chien dort .")])
    assert made.translation.log_prob == pytest.approx(scored.log_prob, abs=1e-4)


def test_a_target_without_words_has_an_end() -> None:
    made = explain(translator(subject()), SENTENCE, "")
    assert [token.text for token in made.target.tokens] == ["⟨end⟩"]


def test_the_package_is_a_function() -> None:
    of = subject()
    made = seq2see.explain(translator(of), SENTENCE, search=SHORT)
    assert made.translation.text == traced().translation.text


class OtherEngine:
    """An engine that nobody can look into."""

    name = "other"

    def __init__(self, inner: TorchEngine) -> None:
        self.inner = inner
        self.special_tokens = inner.special_tokens

    def resolve_config(self, config: Any) -> Any:
        return self.inner.resolve_config(config)

    def search(self, *args: Any) -> Any:
        return self.inner.search(*args)

    def score_targets(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.score_targets(*args, **kwargs)


@pytest.mark.parametrize("differs", [True, False])
def test_the_words_of_another_engine_are_forced(differs: bool) -> None:
    of = subject()
    served = subject("pre-norm" if differs else "paper")

    bundle = Bundle(config_of(), of.tokenizers, of.languages, of.model.state_dict())
    engine = OtherEngine(TorchEngine(served.model))
    other = Translator(engine, of.tokenizers, of.languages, bundle=bundle)  # type: ignore[arg-type]
    made = explain(other, SENTENCE, search=SHORT)
    assert made.is_forced == differs
    text = translator(served).translate(SENTENCE, **SHORT.model_dump()).text
    assert made.translation.text == of.tokenizers.target.normalize(text)


def test_steps_tell_probability_rank_and_entropy() -> None:
    made = traced()
    size = made.model.vocab_size
    for t, (step, token) in enumerate(zip(made.steps, made.target.tokens, strict=True)):
        assert step.input_piece == (
            made.target.tokens[t - 1].piece if t else made.start_token.piece
        )
        log_probs = [candidate.log_prob for candidate in step.top_candidates]
        assert log_probs == sorted(log_probs, reverse=True)
        assert 0 <= step.entropy <= np.log(size)
        if step.rank < len(step.top_candidates):
            assert step.top_candidates[step.rank].id == token.id
            assert step.top_candidates[step.rank].probability == pytest.approx(
                step.probability, rel=1e-5
            )
    assert sum(step.log_prob for step in made.steps) == pytest.approx(made.translation.log_prob)


@pytest.mark.parametrize("variant", ["paper", "pre-norm"])
def test_the_lens_of_the_last_layer_is_the_model(variant: str) -> None:
    made = traced(variant)
    last = made.logit_lens[-1]
    assert last.layer == 1
    np.testing.assert_allclose(
        last.probability, [step.probability for step in made.steps], rtol=1e-4
    )
    assert [top[0].id for top in last.top_candidates] == [
        step.top_candidates[0].id for step in made.steps
    ]


def test_json_there_and_back() -> None:
    text = traced().to_json()
    again = Trace.from_json(text)
    assert again.to_json() == text
    assert again.attention_map("encoder", 0, "self").weights.dtype == np.float32
    table = json.loads(text)
    assert (table["format"], table["version"]) == ("seq2see-trace", 2)
    assert Trace.from_json(json.dumps({**table, "later": 1})).to_json() == text
    with pytest.raises(ConfigError, match="`version` must be at most 2, but is 3"):
        Trace.from_json(json.dumps({**table, "version": 3}))
    table["beam"]["mean_attention"]["data"] = "AAAAAA=="
    with pytest.raises(
        ConfigError, match="`beam.mean_attention.data` must have .* but has 1 instead"
    ):
        Trace.from_json(json.dumps(table))


def test_only_the_layers_that_were_asked_for_are_whole() -> None:
    made = trace_translation(
        subject(), SENTENCE, search=SHORT, options=TraceOptions(layers=("decoder.0",))
    )
    whole = [found.address for found in made.attention if found.scores is not None]
    assert whole == ["decoder.0.self", "decoder.0.cross"]
    assert [(o.stack, o.layer) for o in made.layer_outputs if o.states is not None] == [
        ("decoder", 0)
    ]
    assert [layer.layer for layer in made.beam.layer_attention] == [0]
    none = trace_translation(subject(), SENTENCE, search=SHORT, options=TraceOptions(layers="none"))
    assert all(found.scores is None for found in none.attention)
    assert len(none.to_json()) < len(made.to_json()) < len(traced().to_json())
    with pytest.raises(InputError, match="`layers` must be none, last, all or some of encoder.0"):
        trace_translation(subject(), SENTENCE, options=TraceOptions(layers=("decoder.7",)))


def test_a_sentence_without_words() -> None:
    with pytest.raises(InputError, match="must have words"):
        trace_translation(subject(), "  ")


def test_a_text_that_would_be_cut_is_refused() -> None:
    of = subject()
    short = Translator(TorchEngine(of.model), of.tokenizers, of.languages, max_tokens=3)
    with pytest.raises(InputError, match="at most 3 tokens .* give one sentence"):
        explain(short, SENTENCE)


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
def test_which_pieces_form_a_word(pieces: list[str], language: str, words: list[str]) -> None:
    found: list[str] = []
    for piece, start in zip(pieces, find_word_starts(pieces, language), strict=True):
        if start:
            found.append(piece)
        else:
            found[-1] += piece
    assert found == words


def test_tokens_lead_to_their_words() -> None:
    made = traced()
    for sentence in (made.source, made.target):
        for number, word in enumerate(sentence.words):
            assert {t.word for t in sentence.tokens[word.first_token : word.end_token]} == {number}
    assert made.source.tokens[-1].word is None
    assert " ".join(word.text for word in made.source.words) == SENTENCE


def test_summaries_by_hand() -> None:
    weights = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    sure, unsure = summarize_heads(weights, same_tokens=True)
    assert (sure.entropy, sure.max_weight, sure.distance) == (0, 1, 0)
    assert unsure.entropy == pytest.approx(np.log(2))
    assert (unsure.max_weight, unsure.distance) == (0.5, 0.5)
    assert next(iter(summarize_heads(weights, same_tokens=False))).distance is None


def test_words_have_alternatives_that_are_words() -> None:
    made = trace_translation(
        subject(), SENTENCE, search=SHORT, options=TraceOptions(word_alternatives=True)
    )
    assert [choice.word_index for choice in made.word_alternatives] == list(
        range(len(made.target.words))
    )
    for choice, word in zip(made.word_alternatives, made.target.words, strict=True):
        own = [step.log_prob for step in made.steps[word.first_token : word.end_token]]
        assert choice.log_prob == pytest.approx(sum(own), abs=1e-5)
        chosen = made.target.tokens[word.first_token].id
        assert choice.alternatives
        for other in choice.alternatives:
            assert other.id != chosen
            first = next(c for c in made.steps[word.first_token].top_candidates if c.id == other.id)
            assert other.log_prob <= first.log_prob + 1e-4
