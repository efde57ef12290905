"""The runner, the cache of trained models, and the formats of results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from seq2see.errors import ConfigError, TrainingError
from seq2see.lab import training
from seq2see.lab.core import REGISTERED, Context, Measure
from seq2see.lab.figures import render_figures
from seq2see.lab.output import format_html, format_markdown, format_plain
from seq2see.lab.runner import Lab, load_experiment, select_experiments
from seq2see.lab.texts import LANGUAGES, Language, load_all_texts
from seq2see.lab.training import (
    DIGIT_MODEL,
    ModelCache,
    TrainingSpec,
    list_fingerprinted_files,
    load_digit_pairs,
    loss_of,
    train_translator,
)
from seq2see.model import ModelConfig, Transformer
from seq2see.training.training_session import RunEnding

SMALL = TrainingSpec(
    model=DIGIT_MODEL.replace(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1),
    updates=3,
    batch_size=4,
)


@pytest.fixture
def replace_measure() -> Any:
    """Return a function that replaces the function of experiment 5."""
    original = load_experiment(5)

    def change(measure: Measure) -> None:
        REGISTERED[5] = replace(original, measure=measure)

    yield change
    REGISTERED[5] = original


def fail(context: Context) -> dict[str, float]:
    raise ZeroDivisionError("/secret/path")


def test_experiments_are_selected_by_number() -> None:
    assert [each.number for each in select_experiments(["9", "1", "9"])] == [9, 1]
    assert len(select_experiments(["all"])) == len(load_all_texts())
    with pytest.raises(ConfigError, match="must be a number .* or all, but is 999"):
        select_experiments(["999"])


@pytest.mark.parametrize("seeds", [(), (1, 1), tuple(range(20))])
def test_invalid_seeds_are_rejected(seeds: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="--seeds"):
        Lab(seeds=seeds)


def test_each_seed_is_measured_once_and_reproducibly(replace_measure: Callable[..., None]) -> None:
    seen: list[int] = []

    def measure(context: Context) -> dict[str, float]:
        seen.append(context.seed)
        names = ("shift_difference", "largest_equal", "largest_1", "largest_10")
        return dict.fromkeys(names, float(torch.rand(()) + context.normal("a", 1)))

    replace_measure(measure)
    lab = Lab(seeds=(4, 7), processes=1)
    first, second = lab.run(5), lab.run(5)
    assert seen == [4, 7, 4, 7]
    assert first.measurements == second.measurements
    assert len(set(first.measurements[0].values)) == 2
    assert not first.as_published


def test_failed_experiment_does_not_end_the_others(replace_measure: Callable[..., None]) -> None:
    replace_measure(fail)
    failed, other = Lab(seeds=(1,), processes=1).run_all([5, 4])
    assert (failed.error, failed.as_published, other.as_published) == (
        "ZeroDivisionError",
        False,
        True,
    )
    assert "/secret/path" in format_plain(failed, "en")
    assert "secret" not in json.dumps(failed.to_json())
    assert render_figures(failed, load_experiment(5).figures) == []
    assert "failed" in format_html([failed], "en")


def test_processes_give_the_same_results(tmp_path: Path) -> None:
    results = [list(Lab((1, 2), cache=tmp_path, processes=n).run_all([5, 4])) for n in (1, 2)]
    assert [r.to_json() | {"seconds": 0} for r in results[0]] == [
        r.to_json() | {"seconds": 0} for r in results[1]
    ]


def test_trained_model_is_loaded_from_the_cache(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    first = cache.load(SMALL)
    with patch.object(training, "train", side_effect=AssertionError("it is cached")):
        second = cache.load(SMALL)
    assert (first.nll, first.losses) == (second.nll, second.losses)
    assert len(first.gradient_norms) == 3
    assert [path.suffix for path in tmp_path.rglob("*.*")] == [".safetensors"]


def test_fault_shows_with_a_warm_cache(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path)
    usual = cache.load(SMALL).nll
    with patch("seq2see.lab.training.loss_of", lambda model, pairs: 2 * loss_of(model, pairs)):
        assert cache.load(SMALL).nll == 2 * usual


def build_otherwise(config: ModelConfig) -> Transformer:
    return Transformer.from_config(config)


def test_key_depends_on_settings_code_and_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [
        SMALL.replace(seed=2),
        SMALL.with_model(d_ff=16),
        SMALL.replace(build=build_otherwise),
        SMALL.replace(task="copy"),
    ]
    keys = {spec.key for spec in (SMALL, *changed)}
    assert len(keys) == 5
    monkeypatch.setattr(training, "_code_fingerprint", lambda: "other code")
    assert SMALL.key not in keys


def build_infinite(config: ModelConfig) -> Transformer:
    model = Transformer.from_config(config)
    torch.nn.init.constant_(next(model.parameters()), torch.inf)
    return model


def test_diverged_training_has_an_infinite_loss(tmp_path: Path) -> None:
    trained = ModelCache(tmp_path).load(SMALL.replace(build=build_infinite))
    assert trained.diverged
    assert (trained.nll, trained.exact_match) == (float("inf"), 0.0)


def test_exact_match_counts_whole_sentences(tmp_path: Path) -> None:
    model = ModelCache(tmp_path).load(SMALL).model
    assert training.exact_match(model, load_digit_pairs("copy", "test")[:20]) < 0.5


class PageParser(HTMLParser):
    """Collects ids and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "xlink:href"}:
                self.addresses.append(value or "")


@pytest.fixture(scope="module")
def results() -> Any:
    return list(Lab(seeds=(1, 2), processes=1).run_all([4, 6, 9]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_html_page_needs_no_other_file(results: Any, language: Language) -> None:
    page = format_html(results, language)
    parsed = PageParser(page)
    assert all(address.startswith(("#", "data:")) for address in parsed.addresses)
    assert [name for name, count in Counter(parsed.ids).items() if count > 1] == []
    assert {address[1:] for address in parsed.addresses if address[0] == "#"} <= set(parsed.ids)
    assert page.count("<figure") == 4
    assert ("不缩放" in page) == (language == "zh")
    assert "#000000" not in page


def test_markdown_has_verdicts_rules_and_numbers(results: Any) -> None:
    page = format_markdown(results, "en")
    assert "| 9 | Gradients with and without scaling | holds in part |" in page
    assert "median\\_fold ≥ 20" in page
    assert (
        "255" not in format_markdown([replace(results[2], measurements=())], "zh").split("###")[0]
    )
    assert "成立" in format_markdown(results, "zh")


def test_json_is_strict_and_has_no_booleans_as_values(results: Any) -> None:
    for result in results:
        record = json.loads(json.dumps(result.to_json(), allow_nan=False))
        for each in record["measurements"]:
            assert all(type(value) is not bool for value in (each["value"], *each["values"]))


def test_stopped_training_of_the_translator_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "translator"
    ending = RunEnding(signal_name="SIGTERM", update=3)
    monkeypatch.setattr("seq2see.lab.training.train_as_worker", lambda *_: ending)
    monkeypatch.setattr("seq2see.lab.training.prepare_run", lambda *_, **__: nullcontext())
    with pytest.raises(TrainingError, match="stopped by SIGTERM"):
        train_translator(path, seed=1, epochs=0.01)
    assert list(tmp_path.iterdir()) == []


def test_fingerprint_includes_all_code_of_training() -> None:
    names = {path.name for path in list_fingerprinted_files()}
    assert {"loss.py", "transformer.py", "trainer.py", "tokenizer.py", "training.py"} <= names
