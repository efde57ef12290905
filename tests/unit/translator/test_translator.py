"""The translator: results, scores, options, constraints and flags."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import seq2see
from seq2see.bundle import Bundle
from seq2see.data import fables
from seq2see.engines.base import BatchResult
from seq2see.engines.batching import add_special_tokens, collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.search import Beam, Hypothesis, SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, TextSpan, Tokenizer, TokenizerConfig, TokenizerPair
from seq2see.text.languages import find_word_offsets
from seq2see.text.tokenizer import find_offsets_in_decoded_text, find_offsets_in_original_text
from seq2see.translator import (
    SourceSegment,
    Translation,
    TranslationFlag,
    TranslationOptions,
    Translator,
    align_words,
)
from seq2see.translator.constraints import (
    LexicalConstraints,
    PhrasePattern,
    RequiredPhraseBoundaryProcessor,
)
from seq2see.translator.result_builder import (
    find_flags,
    has_repetition,
)

LIMIT = 24
FEW = {"length": {"max_ratio": 0.5, "max_extra": 6}}
LINES = [fable.source for fable in fables.load_fables_split("test")[:40]]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    texts = fables.load_fables_split("valid")
    config = TokenizerConfig(vocab_size=600)
    return TokenizerPair.train((f.source for f in texts), (f.target for f in texts), config)


@pytest.fixture(scope="module")
def engine(tokenizers: TokenizerPair) -> TorchEngine:
    """Random weights with which some translations end early, some late and some never."""
    torch.manual_seed(1)
    config = ModelConfig(
        vocab_size=600, d_model=32, d_ff=48, heads=2, encoder_layers=2, decoder_layers=2
    ).replace(embeddings={"output_bias": True})
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        for weight in model.decoder.parameters():
            weight.mul_(1.6)
        model.output.bias_V[EOS_ID] = 4.0
    return TorchEngine(model)


@pytest.fixture(scope="module")
def translator(engine: TorchEngine, tokenizers: TokenizerPair) -> Translator:
    return Translator(engine, tokenizers, ("en", "fr"), LIMIT)


def alike(ours: list[Translation], theirs: list[Translation]) -> None:
    assert [t.text for t in ours] == [t.text for t in theirs]
    for name in ("score", "log_prob"):
        pairs = zip(ours, theirs, strict=True)
        assert max(abs(getattr(a, name) - getattr(b, name)) for a, b in pairs) < 1e-4


def test_text_returns_one_and_list_returns_list(translator: Translator) -> None:
    one = translator.translate(LINES[0])
    assert isinstance(one, Translation)
    assert translator.translate([LINES[0]]) == [one]
    assert translator.translate([]) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"abc", r"lines must be a list of texts, but are b'abc' \(bytes\) instead"),
        (5, r"lines must be a list of texts, but are 5 \(int\) instead"),
    ],
)
def test_other_types_raise_input_error(translator: Translator, given: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        translator.translate(given)  # type: ignore[call-overload]
    with pytest.raises(InputError, match=words):
        list(translator.stream(given))  # type: ignore[arg-type]


def test_stream_rejects_a_single_text(translator: Translator) -> None:
    with pytest.raises(InputError, match="must be a list of texts, but are 'A dog runs.'"):
        list(translator.stream("A dog runs."))


@pytest.mark.parametrize("pair", ["abc", "ab", ("a",), ("a", "b", "c"), ("a", 5), 5])
def test_score_rejects_other_than_pairs(translator: Translator, pair: object) -> None:
    with pytest.raises(InputError, match="pair 2 must be a text and its translation, but is"):
        translator.score([("A dog.", "Un chien."), pair])  # type: ignore[list-item]
    with pytest.raises(InputError, match="must be a list of texts"):
        translator.score("ab")  # type: ignore[arg-type]


def test_score_never_splits(translator: Translator) -> None:
    source, target = "The dog sleeps. " * 20, "Le chien dort. Le chat court."
    (found,) = translator.score([(source, target)])
    assert len(translator.tokenizers.source.encode(source)) > LIMIT
    ids = translator.tokenizers.target.encode(target)
    assert len(found.tokens) == len(ids) + 1
    assert [token.piece for token in found.tokens].count("</s>") == 1
    (other,) = translator.score([("The dog sleeps.", target)])
    assert other.log_prob != found.log_prob  # all sentences of the source count


def test_blank_lines_are_copied_and_invalid_lines_are_errors(translator: Translator) -> None:
    lines = [LINES[0], "", " \t", "half \ud800 pair", LINES[1], "\u3000", "\x00\x1b▁", "🦊 שלום"]
    found = translator.translate(lines)
    assert [found[i].text for i in (1, 2, 5)] == ["", " \t", "\u3000"]
    assert found[3].text == ""
    assert "half of a surrogate pair" in str(found[3].error)
    assert [t.error is None for t in found] == [True] * 3 + [False] + [True] * 4
    alike([found[0], found[4]], translator.translate(LINES[:2]))


def test_line_of_another_type_is_an_error(translator: Translator) -> None:
    found = translator.translate([LINES[0], None])  # type: ignore[list-item]
    assert found[0].error is None
    assert found[1].error == "a line must be a string, but is NoneType instead"


@pytest.mark.parametrize(
    "line",
    [
        "".join(f"The cat sees {n} dogs. " for n in range(4000)),
        "x" * 100_000,
        "\u202eשלום 🦊\x07 " * 12_000,
        "ab\u0301" * 30_000,
    ],
    ids=["sentences", "one word", "right to left", "marks"],
)
def test_very_long_line_is_translated(line: str, tokenizers: TokenizerPair) -> None:
    counting = Counting()
    translator = Translator(counting, tokenizers, ("en", "fr"), 200)
    (found,) = translator.translate([line])
    assert found.error is None
    assert max(counting.lengths) <= 200
    assert sum(counting.lengths) >= len(tokenizers.source.encode(line)) - len(counting.lengths)


class Counting:
    """An engine that returns empty translations and stores the lengths of its inputs."""

    name = "counting"
    special_tokens = TorchEngine.__init__.__defaults__[0]  # type: ignore[index]

    def __init__(self) -> None:
        self.lengths: list[int] = []

    def search(self, inputs, config, processor_factory=None, observer=None):  # type: ignore[no-untyped-def]
        self.lengths += (len(each.source_ids) - 1 for each in inputs)  # without the end token
        found = [[Hypothesis((EOS_ID,), True, -1.0, -1.0, (-1.0,))] for _ in inputs]
        yield BatchResult(range(len(found)), found)

    def score_targets(self, pairs, *, attention=False):  # type: ignore[no-untyped-def]
        raise NotImplementedError


def test_long_line_equals_its_sentences(translator: Translator) -> None:
    sentences = ["The cat sleeps on the old table.", "A dog runs.", "The king eats an apple."]
    line = f"  {sentences[0]}  {sentences[1]}\t{sentences[2]} "
    assert len(translator.tokenizers.source.encode(line)) > LIMIT
    asked = {"token_scores": True, "alignment": True, "n_best": 2, **FEW}
    whole_line, parts = (
        translator.translate(line, **asked),
        translator.translate(sentences, **asked),
    )
    texts = [part.text for part in parts]
    assert whole_line.text == f"  {texts[0]}  {texts[1]}\t{texts[2]} "
    assert whole_line.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    tokens = [token for part in parts for token in part.tokens]
    assert whole_line.score == pytest.approx(whole_line.log_prob / len(tokens), abs=1e-5)
    shown = [(t.piece, whole_line.text[t.start : t.end]) for t in whole_line.tokens]
    assert shown == [(t.piece, part.text[t.start : t.end]) for part in parts for t in part.tokens]
    words = [
        (line[x.source_start : x.source_end], whole_line.text[x.target_start : x.target_end])
        for x in whole_line.alignment
    ]
    assert words == [
        (s[x.source_start : x.source_end], part.text[x.target_start : x.target_end])
        for s, part in zip(sentences, parts, strict=True)
        for x in part.alignment
    ]
    others = [part.alternatives[0].text for part in parts]
    assert whole_line.alternatives[0].text == f"  {others[0]}  {others[1]}\t{others[2]} "


def test_split_always_and_never(translator: Translator) -> None:
    two = "A cat sleeps. A dog runs."
    together, apart = (translator.translate(two, split=mode) for mode in ("never", "always"))
    parts = translator.translate(["A cat sleeps.", "A dog runs."])
    assert apart.text == " ".join(part.text for part in parts)
    assert together.log_prob != apart.log_prob
    refused = translator.translate("A cat sleeps. " * 20, split="never")
    assert str(refused.error).startswith(f"a line must have at most {LIMIT} tokens, but has ")


def test_space_between_translated_chinese_sentences(engine, tokenizers) -> None:
    translator = Translator(engine, tokenizers, ("zh", "en"), LIMIT)
    found = translator.translate("狐狸。狐狸。", split="always", **FEW)
    one = translator.translate("狐狸。", **FEW)
    assert found.text == f"{one.text} {one.text}"


SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4, "n_best": 3},
    "exact": {"beam_size": 3, "stop_rule": "exact", "length_penalty": 0.6},
    "penalties": {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "coverage_penalty": 0.2},
    "sampling": {"sampling": {"temperature": 1.3, "top_k": 20, "seed": 5}, "n_best": 3},
    "diverse": {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.7, "n_best": 2},
    "prefix": {"prefix": "Le chat"},
    "glossary": {"glossary": {"the": "roi"}, "beam_size": 4},
    "least length": {"length": {"min_ratio": 1.0, "max_ratio": 1.5}},
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_search_scores_equal_target_scores(search, engine, tokenizers) -> None:
    translator = Translator(engine, tokenizers, ("en", "fr"))
    found = translator.translate(LINES[:12], token_scores=True, **{**FEW, **search})
    every = [t for best in found for t in (best, *best.alternatives)]
    pairs = [
        (line, t)
        for line, best in zip(LINES, found, strict=False)
        for t in (best, *best.alternatives)
    ]
    ids = {piece: i for i, piece in enumerate(translator.tokenizers.target.pieces)}
    forced = translator.engine.score_targets(
        [
            (translator.tokenizers.source.encode(s), [ids[k.piece] for k in t.tokens])
            for s, t in pairs
        ]
    )
    for translation, seen in zip(every, forced, strict=True):
        assert translation.log_prob == pytest.approx(sum(seen.log_probs), abs=1e-4)
        given = [token.log_prob for token in translation.tokens]
        assert given == pytest.approx(list(seen.log_probs), abs=1e-4)


def test_score_equals_translate_unless_retokenized(engine, tokenizers) -> None:
    terse = deepcopy(engine.model)
    with torch.no_grad():
        terse.output.tokens.weight_VM.mul_(0.5)  # what is rounded grows with the logits
        terse.output.bias_V[EOS_ID] = 8.0
    translator = Translator(TorchEngine(terse), tokenizers, ("en", "fr"))
    found = translator.translate(LINES, prefix="Le chat", beam_size=2, check_retokenization=True)
    whole_ones = [
        (line, t)
        for line, t in zip(LINES, found, strict=True)
        if not {TranslationFlag.RETOKENIZED, TranslationFlag.LENGTH_LIMIT}.intersection(t.flags)
    ]
    assert len(whole_ones) > 3
    scored = translator.score([(line, t.text) for line, t in whole_ones])
    for (_, translation), again in zip(whole_ones, scored, strict=True):
        assert again.log_prob == pytest.approx(translation.log_prob, rel=1e-6, abs=1e-4)
        assert again.score == pytest.approx(translation.score, abs=1e-4)
        assert again.tokens[-1].piece == "</s>"
        assert sum(token.log_prob for token in again.tokens) == pytest.approx(again.log_prob)
    assert translator.score([]) == []


@pytest.mark.parametrize("name", ["greedy", "beam", "sampling", "glossary"])
def test_results_do_not_depend_on_the_batch(name: str, engine, tokenizers) -> None:
    lines = LINES[:20]
    ids = tokenizers.source.encode_batch(lines)
    options = TranslationOptions().with_settings({**FEW, **SEARCHES[name]})
    constraints = LexicalConstraints(options, tokenizers.target, "fr")
    inputs = [
        constraints.constrain_input(
            SentenceSearchInput(add_special_tokens(sentence)), text, options.prefix
        )
        for sentence, text in zip(ids, lines, strict=True)
    ]
    order = random.Random(3).sample(range(len(ids)), len(ids))  # noqa: S311
    results = []
    for size, places in ((1, range(len(ids))), (7, range(len(ids))), (64, order)):
        sized = TorchEngine(engine.model, max_batch_size=size, threads=1 if size == 1 else 2)
        chosen = [inputs[i] for i in places]
        batches = sized.search(chosen, options.search, constraints.build_processors)
        found = collect_in_order(batches)
        results.append(dict(zip(places, found, strict=True)))
    for other in results[1:]:
        for place, hypotheses in results[0].items():
            assert [h.tokens for h in hypotheses] == [h.tokens for h in other[place]]
            scores = [h.score for h in other[place]]
            assert [h.score for h in hypotheses] == pytest.approx(scores, abs=1e-4)


def test_translator_is_thread_safe(translator: Translator) -> None:
    parts = [LINES[i::4] for i in range(4)] * 2
    alone = [translator.translate(part, beam_size=2, **FEW) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda p: translator.translate(p, beam_size=2, **FEW), parts))
    for ours, theirs in zip(together, alone, strict=True):
        alike(ours, theirs)


def test_several_batches_equal_one_batch(translator: Translator, engine) -> None:
    whole = translator.translate(LINES, sampling={"seed": 5}, **FEW)
    for workers in (1, 2):
        few = TorchEngine(engine.model, max_batch_size=3, threads=workers)
        other = Translator(few, translator.tokenizers, translator.languages, translator.max_tokens)
        alike(other.translate(LINES, sampling={"seed": 5}, **FEW), whole)


def test_first_batch_is_returned_before_the_next(translator, engine) -> None:
    few = TorchEngine(engine.model, max_batch_size=3)
    inputs = [
        SentenceSearchInput(add_special_tokens(ids))
        for ids in translator.tokenizers.source.encode_batch(LINES)
    ]
    begun = []
    batches = few.search(inputs, SearchConfig(**FEW), lambda *_: begun.append(1) or ())
    first = next(batches)
    assert len(first.indices) == len(first.hypotheses) == 3
    assert len(begun) == 1
    places = [*first.indices, *(place for batch in batches for place in batch.indices)]
    assert sorted(places) == [*range(len(LINES))]


def test_training_mode_is_restored(engine, tokenizers) -> None:
    quiet = Translator(engine, tokenizers).translate(LINES[:3], **FEW)
    engine.model.train()
    try:
        alike(Translator(engine, tokenizers).translate(LINES[:3], **FEW), quiet)
        assert engine.model.training
        assert engine.model.decoder.training
    finally:
        engine.model.eval()


def test_stream_reads_one_chunk_ahead(translator: Translator) -> None:
    read = []

    def source() -> Iterator[str]:
        for line in LINES:
            read.append(line)
            yield line

    stream = translator.stream(source(), chunk_size=4, beam_size=1, **FEW)
    first = next(stream)
    assert len(read) == 4
    alike([first, *stream], translator.translate(LINES, beam_size=1, **FEW))


def test_samples_depend_on_seed_and_text_only(translator: Translator) -> None:
    options = TranslationOptions().with_settings({"sampling": {"seed": 3}, "n_best": 4, **FEW})
    lines = [*LINES[:6], LINES[2]]
    found = translator.translate(lines, options)
    alike(list(translator.stream(reversed(lines), options, chunk_size=2)), found[::-1])
    alike(translator.translate(lines[4:], options), found[4:])
    alike([found[-1]], [found[2]])
    assert len({each.text for each in (found[0], *found[0].alternatives)}) > 1
    other_seed = translator.translate(lines, options, sampling={"seed": 4})
    assert [each.text for each in other_seed] != [each.text for each in found]


def test_sentences_of_a_line_have_their_own_samples(translator: Translator) -> None:
    sampling = {"sampling": {"seed": 3}, "split": "always", **FEW}
    first, second = "The cat sat.", "A dog ran fast."
    separate = [each.text for each in translator.translate([first, second], **sampling)]
    assert translator.translate(f"{second} {first}", **sampling).text == " ".join(separate[::-1])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"beem_size": 3}, "`beem_size` is not a setting; did you mean `beam_size`?"),
        ({"forbiden": ("x",)}, "`forbiden` is not a setting; did you mean `forbidden`?"),
        ({"n_best": 9}, "`n_best` must be at most beam_size = 5"),
        ({"split": "seldom"}, "`split` must be one of auto, always or never"),
        ({"forbidden": ["", "x"]}, "`forbidden` must contain words"),
        ({"glossary": {"cat": " "}}, "`glossary` must map to words"),
        ({"glossary": {"a": "b"}, "sampling": {}}, "`glossary` must be empty with sampling"),
    ],
)
def test_invalid_options_raise_config_error(settings, problem: str, translator: Translator) -> None:
    with pytest.raises(ConfigError, match=problem.replace("?", r"\?")):
        translator.translate("A cat.", **settings)


def test_settings_override_the_given_search(translator: Translator) -> None:
    asked = {"length_penalty": 0.5}
    for search in (SearchConfig(**asked), asked):
        found = translator.translate("A cat.", search=search, n_best=3)
        assert len(found.alternatives) == 2
        assert found == translator.translate("A cat.", length_penalty=0.5, n_best=3)


def test_prefix_starts_each_line(translator: Translator) -> None:
    found = translator.translate("A cat sleeps. A dog runs.", prefix="La reine", split="always")
    assert found.text.startswith("La reine")
    assert found.text.count("La reine") == 1


def test_glossary_terms_occur_as_whole_words(translator: Translator) -> None:
    glossary = {"the": "roi", "a": "jardin"}
    found = translator.translate(LINES, glossary=glossary, length={"max_extra": 30})
    for line, translation in zip(LINES, found, strict=True):
        for source, target in glossary.items():
            asked = PhrasePattern(source).find_first(line.lower()) is not None
            assert not asked or PhrasePattern(target).find_first(translation.text), translation
        assert translation.unmet_constraints == ()
    assert any(PhrasePattern("jardin").find_first(t.text) for t in found)


def test_endless_translation_is_cut_at_max_positions(tokenizers: TokenizerPair) -> None:
    torch.manual_seed(1)
    positions = {"kind": "learned", "max_length": 26}
    config = ModelConfig(
        vocab_size=600, d_model=32, d_ff=48, heads=2, encoder_layers=1, decoder_layers=1
    ).replace(positions=positions, embeddings={"output_bias": True})
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        model.output.bias_V[EOS_ID] = -50.0
    translator = Translator(TorchEngine(model), tokenizers, ("en", "fr"), LIMIT)
    for beam_size in (1, 2):
        found = translator.translate(LINES[:3], beam_size=beam_size, token_scores=True)
        assert {len(each.tokens) for each in found} == {26}
        assert all(TranslationFlag.LENGTH_LIMIT in each.flags for each in found)


def test_line_beyond_max_positions_is_split(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    positions = {"kind": "learned", "max_length": 40}
    config = ModelConfig(vocab_size=600, d_model=32, d_ff=48, heads=2).replace(positions=positions)
    model = Transformer.from_config(config)
    Bundle(config, tokenizers, ("en", "fr"), model.state_dict()).save(tmp_path)
    long = "The cat sees the dog. " * 40
    found = seq2see.load(tmp_path, "torch").translate([LINES[0], long], beam_size=1)
    assert [each.error for each in found] == [None, None]


def test_score_of_split_line_is_weighted_by_tokens(translator: Translator) -> None:
    asked = {"n_best": 3, "beam_size": 4, "token_scores": True}
    several = set()
    for lines in (LINES[i : i + 2] for i in range(6, 12, 2)):
        whole = translator.translate(" ".join(lines), split="always", **asked)
        parts = [(p, *p.alternatives) for p in translator.translate(lines, **asked)]
        for said, *found in zip((whole, *whole.alternatives), *parts, strict=True):
            sizes = [len(part.tokens) for part in found]
            mean = sum(p.score * n for p, n in zip(found, sizes, strict=True)) / sum(sizes)
            assert said.score == pytest.approx(mean, abs=1e-5)
        lengths = [{len(each.tokens) for each in part} for part in parts]
        several.add(any(len(one) > 1 for one in lengths))
    assert True in several, "all translations are equally long, which shows nothing"


def test_term_that_starts_another_term_is_met(translator: Translator) -> None:
    encode = translator.tokenizers.target.encode
    words = [word for fable in fables.load_fables_split("valid") for word in fable.target.split()]
    term = next(w for w in words if w.isalpha() and encode(w + "te")[: len(encode(w))] == encode(w))
    for beam_size in (1, 4):
        found = translator.translate(
            "The cat sleeps.",
            glossary={"the": term, "cat": term + "te"},
            beam_size=beam_size,
            length={"max_extra": 30},
        )
        assert found.unmet_constraints == (), found.text


def test_unmet_constraints_are_reported(translator: Translator) -> None:
    found = translator.translate(
        "The cat sleeps.", glossary={"cat": "un roi dans le jardin"}, length={"max_length": 3}
    )
    assert found.unmet_constraints == ("un roi dans le jardin",)


def test_forbidden_words_do_not_occur(translator: Translator) -> None:
    before = translator.translate(LINES[:10], beam_size=2, **FEW)
    words = {word for t in before for word in t.text.split()}
    forbidden = sorted(word for word in words if word.isalpha())[::2]
    found = translator.translate(LINES[:10], beam_size=2, forbidden=forbidden, **FEW)
    assert any(a.text != b.text for a, b in zip(before, found, strict=True))
    for translation in found:
        present = [w for w in forbidden if PhrasePattern(w).find_first(translation.text)]
        assert list(translation.unmet_constraints) == present
    assert sum(bool(t.unmet_constraints) for t in found) <= 1


def test_unmet_constraints_are_found_in_the_text(tokenizers: TokenizerPair) -> None:
    options = TranslationOptions(glossary={"lord": "Herr"}, forbidden=("Hund",))
    wishes = LexicalConstraints(options, tokenizers.target, "de")
    assert wishes.find_unmet("My Lord.", "Meine Herrin.") == ("Herr",)
    assert wishes.find_unmet("My lord.", "Mein (Herr).") == ()
    assert wishes.find_unmet("My lords.", "Meine Herrin.") == ()
    assert wishes.find_unmet("A dog.", "Hundert Hunde.") == ()
    assert wishes.find_unmet("A dog.", "Ein Hund!") == ("Hund",)


def test_first_occurrence_of_phrase_ends_its_word() -> None:
    """Piece 5 continues a word; the required phrase is (3, 4)."""
    inside = torch.tensor([False] * 5 + [True] + [False])
    ends = RequiredPhraseBoundaryProcessor(torch.tensor([[[3, 4]]]), inside)

    def forbids(*emitted: int) -> bool:
        tokens = torch.tensor([[[2, *emitted]]])
        beam = Beam.create_initial(torch.tensor([9]), torch.tensor([3]), 1, 2)
        beam = Beam(
            **{name: getattr(beam, name) for name in beam.__slots__ if name != "tokens_BKT"},
            tokens_BKT=tokens,
        )
        values = torch.zeros(1, 1, 7)
        ends.process(beam, values, values.clone())
        assert torch.isinf(values).sum() == torch.isinf(values[..., 5]).sum()
        return bool(torch.isinf(values[0, 0, 5]))

    assert not forbids()
    assert not forbids(3)
    assert not forbids(4)
    assert forbids(3, 4)
    assert forbids(1, 3, 4)
    assert not forbids(3, 4, 6)
    assert not forbids(3, 4, 6, 3, 4)


UNKNOWN_ID = 99


def case(
    source: str = "a b c d",
    text: str = "w x y z",
    *,
    source_ids: Sequence[int] | None = None,
    target_ids: Sequence[int] | None = None,
    is_finished: bool = True,
    languages: tuple[str, str] = ("en", "fr"),
    retokenized_ids: Sequence[int] | None = None,
) -> tuple[Any, ...]:
    """Return the arguments of `find_flags`."""
    if source_ids is None:
        source_ids = range(len(source.split()))
    if target_ids is None:
        target_ids = range(len(text.split()))
    if retokenized_ids is None:
        retokenized_ids = list(target_ids)
    tokenizer = SimpleNamespace(byte_ids=frozenset(), special_ids=SimpleNamespace(unk=UNKNOWN_ID))
    segment = SourceSegment(TextSpan(source, 0), list(source_ids))
    tokens = (*target_ids, *[50] * is_finished)
    hypothesis = Hypothesis(tokens, is_finished, 0.0, 0.0, ())
    tokenizers = SimpleNamespace(source=tokenizer, target=tokenizer)
    return segment, hypothesis, text, tokenizers, languages, None, retokenized_ids


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (case(), []),
        (case(text="A b C d"), [TranslationFlag.COPIED_SOURCE]),
        (case(text="A b C d", languages=("en", "en")), []),
        (case(source="OK", text="OK"), []),
        (case(target_ids=[1, 7, 8, 7, 8, 7, 8]), [TranslationFlag.REPETITION]),
        (case(target_ids=[1, 7, 8, 7, 8, 7, 8], source_ids=[5] * 6), []),
        (case(is_finished=False), [TranslationFlag.LENGTH_LIMIT]),
        (case(source_ids=list(range(30)), target_ids=[1, 2, 3, 4, 5, 6]), [TranslationFlag.SHORT]),
        (case(source_ids=list(range(30)), target_ids=[1, 2, 3, 4, 5, 6, 7]), []),
        (case(target_ids=list(range(20))), [TranslationFlag.LONG]),
        (case(target_ids=list(range(19))), []),
        (case(source_ids=[0, 1, 2, UNKNOWN_ID]), [TranslationFlag.UNKNOWN]),
        (case(target_ids=[0, 1, 2, UNKNOWN_ID]), [TranslationFlag.UNKNOWN]),
        (case(retokenized_ids=[9, 9]), [TranslationFlag.RETOKENIZED]),
    ],
)
def test_flags(given: tuple[Any, ...], expected: list[TranslationFlag]) -> None:
    assert list(find_flags(*given)) == expected


def test_alignment_uses_the_attention_of_the_search(engine, tokenizers, monkeypatch) -> None:
    """With a coverage penalty the search has recorded it."""
    translator = Translator(engine, tokenizers, ("en", "fr"))
    score_targets, calls = engine.score_targets, []
    monkeypatch.setattr(
        engine, "score_targets", lambda *a, **k: calls.append(k) or score_targets(*a, **k)
    )
    settings = {"alignment": True, "coverage_penalty": 0.1, **FEW}
    found = translator.translate(LINES[:4], **settings)
    assert not calls
    monkeypatch.setattr(
        Hypothesis, "attention_ES", property(lambda _: None, lambda *_: None), raising=False
    )
    expected = translator.translate(LINES[:4], **settings)
    assert calls
    for one, other in zip(found, expected, strict=True):
        weights = [[link.weight for link in each.alignment] for each in (one, other)]
        assert weights[0] == pytest.approx(weights[1], abs=1e-4)


def test_retokenization_is_checked_on_request(translator: Translator, monkeypatch) -> None:
    encode, encoded = Tokenizer.encode_batch, []
    monkeypatch.setattr(
        Tokenizer, "encode_batch", lambda *a: encoded.append(list(a[1])) or encode(*a)
    )
    found = translator.translate(LINES[:8], **FEW)
    assert encoded == [LINES[:8]]
    assert not any(TranslationFlag.RETOKENIZED in each.flags for each in found)
    checked = translator.translate(LINES[:8], check_retokenization=True, **FEW)
    encoded_again = [text for batch in encoded[2:] for text in batch]
    assert sorted(encoded_again) == sorted(each.text for each in checked)
    assert any(TranslationFlag.RETOKENIZED in each.flags for each in checked)


def test_source_bytes_are_flagged_as_unknown(translator: Translator) -> None:
    plain, strange = translator.translate([LINES[0], f"日本語 🙂 {LINES[0]}"])
    assert TranslationFlag.UNKNOWN not in plain.flags
    assert TranslationFlag.UNKNOWN in strange.flags


def test_repetition_must_be_consecutive() -> None:
    assert has_repetition([4] * 6)
    assert not has_repetition([4] * 5)
    assert has_repetition([1, 2, 3] * 3)
    assert not has_repetition([1, 2, 3] * 2 + [1, 2])
    assert not has_repetition([1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3])


def test_piece_offsets_cover_the_text(tokenizers: TokenizerPair) -> None:
    text = "The cat — 🦊 slept ▁ here."
    ids = tokenizers.target.encode(text)
    spans = find_offsets_in_decoded_text(tokenizers.target, ids, text)
    assert "".join(text[a:b] for a, b in spans) == text.replace(" ", "")
    fox = [text[a:b] for a, b in spans if a <= text.index("🦊") < b]
    assert fox == ["🦊"]


def test_source_offsets_refer_to_the_original_text(tokenizers: TokenizerPair) -> None:
    text = " The  cat\u2028slept cafe\u0301."
    spans = find_offsets_in_original_text(tokenizers.source, tokenizers.source.encode(text), text)
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())
    assert any(text[a:b].endswith("e\u0301") for a, b in spans)


def test_alignment_links_of_known_attention(tokenizers: TokenizerPair) -> None:
    source, target = "The cat.", "Le chat."
    ids = [tokenizers.source.encode(source), tokenizers.target.encode(target)]
    columns = find_offsets_in_original_text(tokenizers.source, ids[0], source)
    rows = find_offsets_in_decoded_text(tokenizers.target, ids[1], target)
    attention = torch.zeros(len(rows) + 1, len(columns))
    for row, (start, _) in enumerate(rows):  # the word at the same place, and a little of the first
        same = [c for c, (a, _) in enumerate(columns) if (a >= 4) == (start >= 3)]
        attention[row, same] = 0.9 / len(same)
        attention[row, 0] += 0.04
    found = align_words(tokenizers, (source, ids[0]), (target, ids[1]), attention).to_links()
    best = [link for link in found if link.target_start == 0]
    assert (best[0].source_start, best[0].source_end) == (0, 3)
    assert best[0].weight == pytest.approx(0.94)
    cat = next(link for link in found if link.target_start == 3)
    assert target[cat.target_start : cat.target_end] == "chat"
    assert cat.source_start >= 4
    assert all(link.weight >= 0.05 for link in found)


def test_word_offsets_with_and_without_spaces() -> None:
    assert find_word_offsets("It's 3.5, ok?", set()) == [(0, 4), (5, 8), (8, 9), (10, 12), (12, 13)]
    assert find_word_offsets("猫が寝る。", {2}) == [(0, 2), (2, 4), (4, 5)]


def test_alignment_covers_every_target_word(translator: Translator) -> None:
    for translation in translator.translate(LINES[:5], alignment=True, **FEW):
        words = find_word_offsets(translation.text, set())
        starts = [link.target_start for link in translation.alignment]
        assert sorted(set(starts)) == [start for start, _ in words]
        assert starts == sorted(starts)


def test_import_does_not_load_torch() -> None:
    code = (
        "import sys, seq2see\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert {'load', 'explain', 'Translator', 'Translation'} <= set(dir(seq2see))\n"
        "try: seq2see.nothing\n"
        "except AttributeError as error: print(error)\n"
        "from seq2see import Translator\n"
        "import seq2see.translator\n"
        "assert seq2see.translator.Translator is Translator is seq2see.Translator\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "module 'seq2see' has no attribute 'nothing'\n"
