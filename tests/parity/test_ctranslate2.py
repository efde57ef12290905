"""CTranslate2 gives the same results as torch, or a reason why it is not supported."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

import seq2see
from seq2see.bundle import Bundle
from seq2see.data import fables
from seq2see.engines import ctranslate2_conversion, loading
from seq2see.engines.batching import collect_in_order
from seq2see.engines.ctranslate2_engine import QUEUED_BATCHES_PER_THREAD, CTranslate2Engine
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import ConfigError, InputError
from seq2see.interop import import_model
from seq2see.model import ModelConfig, Transformer
from seq2see.search import Hypothesis, SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, TokenizerConfig, TokenizerPair

pytest.importorskip("ctranslate2")

LINES = [fable.source for fable in fables.load_fables_split("test")[:24]]
PIECES = 400
SHORT = {"max_ratio": 0.7, "max_extra": 4}
SOURCE = [5, 6, 7, 8, EOS_ID]

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "paper": {},
    "pre-norm": {"norm": {"placement": "pre"}, "activation": "gelu"},
    "learned": {"positions": {"kind": "learned", "max_length": 80}, "activation": "gelu_tanh"},
    "no positions": {"positions": {"kind": "none"}, "activation": "silu"},
    "halves": {"positions": {"layout": "halves", "frequencies": "tensor2tensor"}},
    "dot": {"attention": {"kind": "dot", "scale": 0.3}},
    "shared": {"attention": {"shared_qk": True, "bias": False}},
    "embeddings": {"embeddings": {"norm": True, "scale": False, "output_bias": False}},
    "two tables": {"embeddings": {"tie": "decoder"}},
    "three tables": {"embeddings": {"tie": "none"}, "norm": {"eps": 1e-3}},
}


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    texts = fables.load_fables_split("valid")
    config = TokenizerConfig(vocab_size=PIECES)
    return TokenizerPair.train((f.source for f in texts), (f.target for f in texts), config)


def bundle_of(tokenizers: TokenizerPair, settings: dict[str, Any], seed: int = 1) -> Bundle:
    """Return a model with random weights; some of its translations end before the limit."""
    torch.manual_seed(seed)
    small = {"d_model": 32, "d_ff": 48, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    config = ModelConfig(vocab_size=PIECES, **small).replace(embeddings={"output_bias": True})
    model = Transformer.from_config(config.replace(**settings))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(1.5).add_(0.02 * torch.randn_like(weight))  # no bias is 0, no norm 1
        if model.output.bias_V is not None:
            model.output.bias_V[EOS_ID] = 3.0
    return Bundle(
        config.replace(**settings), tokenizers, ("en", "fr"), model.state_dict(), max_length=60
    )


def both(bundle: Bundle, home: Path, **more: Any) -> tuple[TorchEngine, CTranslate2Engine]:
    bundle.save(home)
    loaded = Bundle.load(home)
    conversion = ctranslate2_conversion.get_cached_conversion(loaded, print)
    fast = CTranslate2Engine(loaded, conversion.directory, **more)
    return TorchEngine(bundle.build_model()), fast


def inputs_of(bundle: Bundle) -> list[SentenceSearchInput]:
    ids = bundle.tokenizers.source.encode_batch(LINES)
    return [SentenceSearchInput([*sentence, EOS_ID]) for sentence in ids]


def compare(ours: list[list[Hypothesis]], theirs: list[list[Hypothesis]]) -> None:
    for own, other in zip(ours, theirs, strict=True):
        assert [h.tokens for h in own] == [h.tokens for h in other]
        assert [h.is_finished for h in own] == [h.is_finished for h in other]
        for a, b in zip(own, other, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)
            assert a.log_prob == pytest.approx(b.log_prob, abs=1e-3)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_give_the_same_hypotheses(
    name: str, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    bundle = bundle_of(tokenizers, ARCHITECTURES[name])
    own, fast = both(bundle, tmp_path)
    config = SearchConfig(beam_size=1, length=SHORT)
    ours, theirs = (collect_in_order(e.search(inputs_of(bundle), config)) for e in (own, fast))
    compare(ours, theirs)


@pytest.mark.parametrize(
    "search",
    [
        {"beam_size": 4, "n_best": 3},
        {"beam_size": 4, "n_best": 2, "length_penalty": 0.6},
        {"beam_size": 3, "length_penalty": 0.0},
        {"beam_size": 3, "length_penalty": 0.0, "n_best": 2},
        {"beam_size": 1, "length_penalty": 0.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("lengths", [SHORT, {"max_length": 30}], ids=["relative", "absolute"])
def test_searches_give_the_same_hypotheses(
    search, lengths, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    bundle = bundle_of(tokenizers, {})
    own, fast = both(bundle, tmp_path, threads=2)
    config = SearchConfig(length=lengths, stop_rule="beam_full", **search)
    ours, theirs = (collect_in_order(e.search(inputs_of(bundle), config)) for e in (own, fast))
    compare(ours, theirs)
    finished = {h.is_finished for best in ours for h in best}
    assert finished == ({True, False} if config.length_penalty == 1 else finished)
    assert len({len(h.tokens) for best in ours for h in best}) > 2


@pytest.mark.parametrize("beam", [1, 4])
def test_results_do_not_depend_on_the_batch(
    beam: int, tokenizers: TokenizerPair, tmp_path: Path
) -> None:
    bundle = bundle_of(tokenizers, {})
    bundle.save(tmp_path)
    config = SearchConfig(beam_size=beam, length=SHORT, stop_rule="beam_full")
    inputs = inputs_of(bundle)
    results = []
    for size in (1, 7, 64):
        order = random.Random(size).sample(range(len(inputs)), len(inputs))  # noqa: S311
        _, fast = both(bundle, tmp_path, max_batch_size=size)
        found = collect_in_order(fast.search([inputs[i] for i in order], config))
        results.append([found[order.index(i)] for i in range(len(inputs))])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert [h.tokens for h in a] == [h.tokens for h in b]
            assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-4)


@pytest.mark.parametrize("size", [1, 4])
def test_call_limits_its_queued_batches(size, tokenizers, tmp_path: Path, monkeypatch) -> None:
    """Queued batches run before those of other callers and cannot be cancelled."""
    bundle = bundle_of(tokenizers, {})
    _, fast = both(bundle, tmp_path, max_batch_size=size)
    begun: list[int] = []
    start = fast._start_batch
    monkeypatch.setattr(
        fast, "_start_batch", lambda rows, *a: begun.append(len(rows)) or start(rows, *a)
    )
    inputs = inputs_of(bundle) * 3
    assert len(inputs) > 2 * QUEUED_BATCHES_PER_THREAD * size
    batches = fast.search(inputs, SearchConfig(beam_size=1, length=SHORT))
    for taken, _ in enumerate(batches):
        assert len(begun) <= taken + QUEUED_BATCHES_PER_THREAD
        if taken == QUEUED_BATCHES_PER_THREAD + 1:
            break
    before = len(begun)
    batches.close()
    assert len(begun) == before


def test_retries_run_before_new_batches(tokenizers, tmp_path: Path, monkeypatch) -> None:
    bundle = bundle_of(tokenizers, {})
    _, fast = both(bundle, tmp_path, max_batch_size=2)
    begun: list[list[str]] = []
    start = fast._start_batch
    monkeypatch.setattr(
        fast, "_start_batch", lambda rows, *a: begun.extend(rows) or start(rows, *a)
    )
    inputs = inputs_of(bundle)
    found = [*fast.search(inputs, SearchConfig(beam_size=1, length=SHORT))]
    again = [place for place, row in enumerate(begun) if row in begun[:place]]
    first = [place for place in range(len(begun)) if place not in again]
    assert again[0] < first[-1]
    assert sorted(place for batch in found for place in batch.indices) == [*range(len(inputs))]


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ({"sampling": {}}, "`sampling`"),
        ({"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5}, "`num_beam_groups`"),
        ({"coverage_penalty": 0.1}, "`coverage_penalty`"),
        ({"repetition_penalty": 1.2}, "`repetition_penalty`"),
        ({"no_repeat_ngram_size": 2}, "`no_repeat_ngram_size`"),
        ({"length": {"min_ratio": 0.5}}, "`length.min_ratio`"),
        ({"stop_rule": "exact"}, "stops when the beam is full"),
        ({"stop_rule": "exact", "length_penalty": 0.0, "n_best": 2}, "stops when the beam is full"),
        ({"stop_rule": "exact", "length_penalty": 0.0}, None),
        ({"stop_rule": "exact", "beam_size": 1}, None),
        ({}, "stops when the beam is full"),
        ({"stop_rule": "beam_full"}, None),
    ],
    ids=str,
)
def test_unsupported_searches(search, reason, tokenizers: TokenizerPair, tmp_path: Path) -> None:
    bundle = bundle_of(tokenizers, {})
    _, fast = both(bundle, tmp_path)
    config = SearchConfig(**search)
    refusal = fast.unsupported_reason(config)
    assert refusal is None if reason is None else reason in str(refusal)
    if refusal:
        assert not [*fast.search([SentenceSearchInput([5, EOS_ID])], config)]


@pytest.mark.parametrize(
    "source",
    [
        SentenceSearchInput(SOURCE, prefix=(7,)),
        SentenceSearchInput(SOURCE, forbidden=((7,),)),
        SentenceSearchInput(SOURCE, required=((7,),)),
        SentenceSearchInput([5] * 1025),
    ],
)
def test_unsupported_inputs(source: SentenceSearchInput, tokenizers, tmp_path: Path) -> None:
    _, fast = both(bundle_of(tokenizers, {}), tmp_path)
    config = SearchConfig(stop_rule="beam_full")
    assert fast.unsupported_input_reason(source, config)
    assert not [*fast.search([source], config)]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"attention": {"kind": "additive"}}, "additive"),
        ({"attention": {"kind": "qk_norm"}}, "qk_norm"),
        ({"encoder_attention": {"kind": "linformer"}}, "linformer"),
        ({"positions": {"kind": "relative"}}, "relative"),
        ({"norm": {"kind": "batch"}}, "batch"),
        ({"embeddings": {"token_types": 2}}, "token_types"),
    ],
    ids=str,
)
def test_unsupported_models(settings, reason, tokenizers, tmp_path: Path) -> None:
    bundle = bundle_of(tokenizers, settings)
    assert reason in " ".join(
        ctranslate2_conversion.find_ctranslate2_unsupported_features(bundle.config)
    )
    bundle.save(tmp_path)
    translator = seq2see.load(tmp_path)
    assert translator.engine.name == "torch"
    assert reason in translator.engine_notes[0]
    with pytest.raises(InputError, match=reason):
        seq2see.load(tmp_path, engine="ctranslate2")


@pytest.fixture
def home(tokenizers: TokenizerPair, tmp_path: Path, monkeypatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle_of(tokenizers, {}).save(tmp_path / "model")
    return tmp_path / "model"


def test_auto_equals_torch(home: Path) -> None:
    automatic, own = seq2see.load(home), seq2see.load(home, engine="torch")
    assert automatic.engine.name == "ctranslate2 (float32), beam search on torch"
    assert seq2see.load(home, "ctranslate2").engine.name == "ctranslate2 (float32)"
    for settings in (
        {},
        {"stop_rule": "beam_full"},
        {"glossary": {"the": "roi"}},
        {"forbidden": ["le"]},
        {"stop_rule": "exact"},
        {"alignment": True, "token_scores": True},
    ):
        asked = {"length": {"max_extra": 6, "max_ratio": 0.5}, **settings}
        ours, theirs = own.translate(LINES, **asked), automatic.translate(LINES, **asked)
        assert [t.text for t in ours] == [t.text for t in theirs]
        assert [t.flags for t in ours] == [t.flags for t in theirs]
        assert [len(t.tokens) for t in ours] == [len(t.tokens) for t in theirs]
    strict = seq2see.load(home, engine="ctranslate2")
    with pytest.raises(ConfigError, match="support prefix"):
        strict.translate("The cat.", prefix="Le")


@pytest.mark.parametrize(
    "wish", [{"forbidden": ["zzz"]}, {"prefix": "un"}, {"glossary": {"zzz": "un"}}]
)
def test_unsupported_constraints_fail_at_the_first_line(wish, home: Path) -> None:
    strict = seq2see.load(home, "ctranslate2")
    with pytest.raises(ConfigError, match="does not support prefix, forbidden phrases or glossary"):
        strict.translate(LINES[:2], stop_rule="beam_full", **wish)


@pytest.mark.parametrize("noted", [None, "exact", "beam_full", 7])
def test_stop_rule_is_read_from_the_model(noted, tokenizers, tmp_path: Path) -> None:
    bundle = bundle_of(tokenizers, {})
    notes = {} if noted is None else {"stop_rule": noted}
    replace(bundle, provenance=bundle.provenance.replace(notes=notes)).save(tmp_path)
    expected = "beam_full" if noted == "beam_full" else "exact"
    for engine in ("auto", "torch"):
        loaded = seq2see.load(tmp_path, engine=engine).engine
        assert loaded.resolve_config(SearchConfig()).stop_rule == expected
        assert loaded.resolve_config(SearchConfig(stop_rule="exact")).stop_rule == "exact"
    strict = seq2see.load(tmp_path, engine="ctranslate2").engine
    assert strict.resolve_config(SearchConfig()).stop_rule == "beam_full"


def test_suppressed_tokens_are_searched_with_torch(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(CTranslate2Engine, "_has_suppressed_token", lambda self, found: True)
    automatic, own = seq2see.load(home), seq2see.load(home, engine="torch")
    assert automatic.translate(LINES[:4], beam_size=1) == own.translate(LINES[:4], beam_size=1)


def test_model_is_converted_once_per_version(home: Path, tokenizers) -> None:
    seq2see.load(home)
    (first,) = (home / "ctranslate2").iterdir()
    written = (first / "model.bin").stat().st_mtime_ns
    before = seq2see.load(home).translate(LINES, beam_size=1)
    assert (first / "model.bin").stat().st_mtime_ns == written
    bundle_of(tokenizers, {}, seed=2).save(home)
    after = seq2see.load(home).translate(LINES, beam_size=1)
    (second,) = (home / "ctranslate2").iterdir()
    assert second != first
    assert [t.text for t in before] != [t.text for t in after]
    assert seq2see.load(home).engine_notes == ()


def test_user_cache_is_used_if_model_directory_is_read_only(home: Path) -> None:
    (home / "ctranslate2").write_text("in the way")
    seq2see.load(home)
    (kept,) = (home.parent / "cache/seq2see/ctranslate2").iterdir()
    assert (kept / "model.bin").exists()


@pytest.mark.parametrize("cache", ["in the way", "of another", "homeless"])
def test_torch_is_used_if_no_cache_is_writable(cache, home: Path, monkeypatch) -> None:
    (home / "ctranslate2").write_text("in the way")
    if cache == "in the way":
        (home.parent / "cache").write_text("in the way")
    elif cache == "of another":
        for name in ("is_dir", "mkdir"):
            monkeypatch.setattr(Path, name, _forbidden(getattr(Path, name)))
    else:
        monkeypatch.delenv("XDG_CACHE_HOME")
        monkeypatch.setattr(Path, "home", _homeless)
    translator = seq2see.load(home)
    assert translator.engine.name == "torch"
    (note,) = translator.engine_notes
    assert note.startswith(
        f"ctranslate2 is not used: the converted model cannot be written to {home}"
    )
    assert note.endswith("set XDG_CACHE_HOME to a writable directory")
    assert (str(home.parent / "cache/seq2see") in note) is (cache != "homeless")
    with pytest.raises(InputError, match="ctranslate2 cannot run this model: the conv.*XDG_CACHE"):
        seq2see.load(home, engine="ctranslate2")


def _forbidden(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a permission error for the cache directory."""

    def refused(path: Path, *rest: Any, **named: Any) -> Any:
        if "seq2see" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return function(path, *rest, **named)

    return refused


def _homeless() -> NoReturn:
    raise RuntimeError("Could not determine home directory.")


def test_int8_is_used_only_after_its_check(home: Path, monkeypatch) -> None:
    translator = seq2see.load(home, precision="int8")
    assert translator.engine.name.startswith("ctranslate2 (float32)")
    (note,) = translator.engine_notes
    assert "no probes.txt: write some dozens of source sentences to this file" in note
    (home / "probes.txt").write_text("\n".join(LINES[:6]), "utf-8")
    monkeypatch.setattr("seq2see.engines.ctranslate2_engine.MIN_INT8_CHRF", 0.0)
    translator = seq2see.load(home, precision="int8")
    assert translator.engine.name.startswith("ctranslate2 (int8)")
    (kept,) = (home / "ctranslate2").iterdir()
    (value,) = json.loads((kept / "manifest.json").read_text())["content"]["int8_chrf"].values()
    assert 0 <= value <= 100
    monkeypatch.setattr("seq2see.engines.ctranslate2_engine.MIN_INT8_CHRF", 101.0)
    translator = seq2see.load(home, precision="int8")
    assert translator.engine.name.startswith("ctranslate2 (float32)")
    assert f"chrF {value:.1f}" in translator.engine_notes[0]
    (home / "probes.txt").write_text("\n".join(LINES[:3]), "utf-8")
    seq2see.load(home, precision="int8")
    results = json.loads((kept / "manifest.json").read_text())["content"]["int8_chrf"]
    assert len(results) == 2  # other sentences are another check


def test_too_long_probe_sentences_are_ignored(tokenizers, tmp_path: Path) -> None:
    bundle_of(tokenizers, ARCHITECTURES["learned"]).save(tmp_path)
    (tmp_path / "probes.txt").write_text(f"{LINES[0]}\n{'the cat ' * 35}\n{'the cat ' * 99}\n")
    translator = seq2see.load(tmp_path, precision="int8")
    assert translator.engine.name.startswith("ctranslate2")


def test_torch_is_used_without_ctranslate2(home: Path, monkeypatch) -> None:
    monkeypatch.setattr(loading, "find_ctranslate2_device_problem", lambda _: "it is not installed")
    translator = seq2see.load(home)
    assert translator.engine.name == "torch"
    assert translator.engine_notes == ("ctranslate2 is not used: it is not installed",)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"engine": "marian"}, "`engine` must be one of auto, torch or ctranslate2"),
        ({"precision": "int4"}, "`precision` must be one of float32 or int8"),
        ({"threads": 0}, "`threads` must be at least 1"),
    ],
)
def test_invalid_arguments_of_load(settings, problem: str, home: Path) -> None:
    with pytest.raises(ConfigError, match=problem):
        seq2see.load(home, **settings)


def test_alignment_heads_are_read_from_the_model(tokenizers: TokenizerPair) -> None:
    bundle = bundle_of(tokenizers, {})
    origin = bundle.provenance.replace(notes={"alignment": {"layer": 5}})
    other = Bundle(bundle.config, tokenizers, ("en", "fr"), bundle.weights, provenance=origin)
    with pytest.raises(ValueError, match=r"`provenance.notes.alignment.layer` must be below 2"):
        loading.load_torch_engine(other)


SHARED = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
MODEL = SHARED.parent / "models/multi30k-en-de-marian"
TEST = SHARED / "multi30k/test_2016_flickr.en.gz"


@pytest.mark.skipif(not (MODEL.exists() and TEST.exists()), reason="needs multi30k and its model")
@pytest.mark.parametrize(
    ("beam", "count"), [(1, 60), pytest.param(5, 1000, marks=pytest.mark.slow)]
)
def test_multi30k_translations_match_torch(beam: int, count: int, tmp_path: Path) -> None:
    """At least 99.5 % of the texts are equal, and scores differ by at most 1e-3."""
    import_model(MODEL, ("en", "de")).save(tmp_path)
    with gzip.open(TEST, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()[:count]
    engines = (seq2see.load(tmp_path, name) for name in ("torch", "ctranslate2"))
    ours, theirs = (translator.translate(lines, beam_size=beam) for translator in engines)
    same = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.text == b.text]
    assert len(same) >= 0.995 * count
    assert max(abs(a.score - b.score) for a, b in same) < 1e-3
