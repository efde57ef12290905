"""The lab's frame: what is expected, what is kept, what is said, and what a report holds."""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch

from seq2see.errors import ConfigError
from seq2see.lab.old import fables, words
from seq2see.lab.old.bench import DIGITS, Bench, Lesson, exactness, pairs
from seq2see.lab.old.ear import Ear, cut, encoder_heads, silenced
from seq2see.lab.old.expectation import (
    NOTED,
    Expectation,
    at_least,
    at_most,
    between,
    equal,
    near,
    number,
)
from seq2see.lab.old.experiment import Experiment, Figure, Finding, Measurement, Text, Verdict
from seq2see.lab.old.pictures import bars, curves, grids
from seq2see.lab.old.registry import chosen, experiments
from seq2see.lab.old.report import report
from seq2see.lab.old.runner import Outcome, run, run_one
from seq2see.lab.old.table import markdown, plain
from seq2see.model import AttentionModuleId, ModelConfig, Transformer
from seq2see.training.config import build_demo_config

SAME = Text("width", "宽度")
SMALL = Lesson(
    model=DIGITS.replace(d_model=8, d_ff=8, heads=2, encoder_layers=1, decoder_layers=1),
    updates=3,
    sentences=4,
)


@pytest.fixture(autouse=True)
def few_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.lab.old.bench.HELD_OUT", 10)


def an_experiment(value: float, needs_full: bool = False, figures: tuple[Figure, ...] = ()):
    measured = (Measurement(SAME, value, near(1, 0.5)),)
    return Experiment(
        1,
        Text("A <title>", "标题"),
        ("S0",),
        Text("a claim", "说法"),
        Text("a prediction", "预测"),
        lambda bench: Finding(Verdict.FALSE, Text("it is not so", "并非如此"), measured, figures),
        needs_full=needs_full,
    )


@pytest.mark.parametrize(
    ("expectation", "inside", "outside"),
    [
        (near(2, 0.5), [1.5, 2, 2.5], [1.49, 2.51]),
        (equal(3), [3], [3.0000001]),
        (at_least(1), [1, math.inf], [0.999]),
        (at_most(1), [1, -math.inf], [1.001]),
        (between(1, 2), [1, 2], [0.9, 2.1]),
    ],
)
def test_what_is_expected(
    expectation: Expectation, inside: list[float], outside: list[float]
) -> None:
    assert all(expectation.met(value) for value in inside)
    assert not any(expectation.met(value) for value in [*outside, math.nan])


def test_a_noted_number_is_not_judged_but_must_be_one() -> None:
    assert NOTED.met(1e300)
    assert not NOTED.met(math.nan)
    assert str(NOTED) == "—"


@pytest.mark.parametrize(
    ("value", "tolerance", "text"),
    [
        (1_048_576, 0, "1,048,576"),
        (0.123456, 0, "0.1235"),
        (1.00619, 0, "1.00619"),
        (9.1e-44, 0, "9.1e-44"),
        (1e-5, 0, "1e-5"),
        (0.5761168847658291, 1e-12, "0.5761168847658"),
        (math.inf, 0, "∞"),
    ],
)
def test_numbers_are_written_as_far_as_they_are_judged(
    value: float, tolerance: float, text: str
) -> None:
    assert number(value, tolerance) == text


def test_a_mean_shows_its_spread() -> None:
    measured = Measurement.mean(SAME, [1.0, 2.0, 3.0], near(2, 0.1))
    assert measured.met
    assert str(measured) == "2 (σ 1, n = 3)"
    assert Measurement.mean(SAME, [2.0]).spread is None


def test_a_claim_that_is_false_is_an_experiment_that_succeeds(tmp_path: Path) -> None:
    assert run_one(an_experiment(1.2), Bench(tmp_path)).status == "met"
    assert run_one(an_experiment(1.6), Bench(tmp_path)).status == "failed"


def test_what_needs_time_waits_for_it(tmp_path: Path) -> None:
    waiting = an_experiment(1, needs_full=True)
    assert run_one(waiting, Bench(tmp_path)).status == "needs --full"
    assert run_one(waiting, Bench(tmp_path, full=True)).status == "met"


def test_what_breaks_does_not_hide_the_others(tmp_path: Path) -> None:
    def broken(bench: Bench) -> Finding:
        raise ZeroDivisionError("the reason")

    some = [replace(an_experiment(1), run=broken), an_experiment(1)]
    first, second = run(some, Bench(tmp_path), lambda _: None)
    assert first.status == "failed"
    assert "the reason" in first.error
    assert "the reason" in plain(first, "en")
    assert second.status == "met"


def test_an_experiment_starts_from_the_same_numbers_whatever_ran_before(tmp_path: Path) -> None:
    def draws(bench: Bench) -> Finding:
        measured = Measurement(SAME, float(torch.rand(())))
        return Finding(Verdict.HOLDS, SAME, (measured,))

    each = replace(an_experiment(1), run=draws)
    first, second = run([each, each], Bench(tmp_path), lambda _: None)
    assert first.finding == second.finding


def test_the_longest_lesson_begins_before_the_first_of_several(tmp_path: Path, monkeypatch) -> None:
    begun: list[Bench] = []

    def begin(bench: Bench) -> None:
        begun.append(bench)

    monkeypatch.setattr(Bench, "begin_fables", begin)
    needs_none = an_experiment(1)
    needs_it = replace(needs_none, translates=True)
    for some, times in (([needs_none] * 2, 0), ([needs_it], 0), ([needs_none, needs_it], 1)):
        list(run(some, Bench(tmp_path), lambda _: None))
        assert len(begun) == times


def test_whatever_needs_the_translator_says_so() -> None:
    def asks(each: Experiment) -> bool:
        module = inspect.getsource(sys.modules[each.run.__module__])
        return "bench.fables()" in module or "bench.translators()" in module

    saying = {each.run.__module__ for each in experiments() if each.translates}
    assert saying == {each.run.__module__ for each in experiments() if asks(each)}


def test_a_lesson_is_learned_once(tmp_path: Path) -> None:
    said: list[str] = []
    first, again = (Bench(tmp_path, say=said.append).learn(SMALL) for _ in range(2))
    assert len(said) == 1
    assert first.losses == again.losses
    assert len(first.losses) == SMALL.updates
    for ours, theirs in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_another_seed_or_setting_is_another_lesson(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    lessons = [SMALL, replace(SMALL, seed=2), SMALL.with_model(heads=1), replace(SMALL, peak=0.1)]
    assert len({lesson.fingerprint for lesson in lessons}) == len(lessons)
    assert bench.learn(lessons[0]).losses != bench.learn(lessons[1]).losses


def test_a_translator_of_another_recipe_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learn(home: Path, *_: object) -> None:
        home.mkdir(parents=True)
        (home / "model.safetensors").touch()

    monkeypatch.setattr(fables, "learn_fables", learn)
    monkeypatch.setattr("seq2see.lab.old.bench.Bundle.load", lambda home: home)
    first = Bench(tmp_path).fables()
    assert Bench(tmp_path).fables() == first
    found = {first, Bench(tmp_path).fables(seed=2), Bench(tmp_path, full=True).fables()}
    for name, other in {
        "FORMAT": 2,
        "SETTINGS": {**fables.SETTINGS, "schedule": {"peak_lr": 0.001}},
        "build_demo_config": lambda *_: build_demo_config(99.0, 1),
    }.items():
        with monkeypatch.context() as changed:
            changed.setattr(fables, name, other)
            found.add(Bench(tmp_path).fables())
    with monkeypatch.context() as changed:
        changed.setattr("seq2see.data.corpus_config_and_reading.Corpus.fingerprint", "other text")
        found.add(Bench(tmp_path).fables())
    assert len(found) == 7


@pytest.mark.slow
def test_the_seeds_of_a_lesson_are_learned_side_by_side_as_alone(tmp_path: Path) -> None:
    alone = Bench(tmp_path / "alone", threads=1).learn_all(SMALL)
    together = Bench(tmp_path / "together", threads=2).learn_all(SMALL)
    assert len(alone) == 3
    assert [each.losses for each in alone] == [each.losses for each in together]


def test_a_change_that_is_not_in_the_config_must_be_named(tmp_path: Path) -> None:
    def make(config: ModelConfig) -> Transformer:
        return Transformer.from_config(config)

    with pytest.raises(AssertionError, match="variant"):
        Bench(tmp_path).learn(SMALL, make)
    assert Bench(tmp_path).learn(replace(SMALL, variant="ours"), make).nll > 0


def test_a_training_that_diverges_says_so(tmp_path: Path) -> None:
    wild = replace(SMALL, peak=10.0, warmup=0, updates=60).with_model(norm={"kind": "none"})
    learned = Bench(tmp_path).learn(wild)
    assert learned.diverged == math.isinf(learned.nll)
    assert len(learned.losses) <= 60


def test_exactness_counts_whole_sentences(tmp_path: Path) -> None:
    model = Bench(tmp_path).learn(SMALL).model
    assert exactness(model, pairs("copy", "test")[:20]) < 0.5


def test_a_silenced_head_adds_nothing() -> None:
    model = Transformer.from_config(DIGITS).eval()
    heads = encoder_heads(model)[0]
    x_NM = torch.randn(3, DIGITS.d_model)
    whole = heads.output(x_NM)
    size = DIGITS.d_model // DIGITS.heads
    with torch.no_grad(), silenced(heads, 1):
        muted = heads.output(x_NM)
        part = x_NM[:, size : 2 * size] @ heads.output.weight[:, size : 2 * size].T
    torch.testing.assert_close(muted + part, whole.detach())
    assert torch.equal(heads.output(x_NM), whole)  # and afterwards all is as before


def test_a_line_that_is_cut_carries_nothing() -> None:
    model = Transformer.from_config(DIGITS).eval()
    ids_BS = torch.tensor([[5, 6, 7, 3]])
    hidden = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    hidden[0, 0, 1, 2] = True
    before, ear = model.encode(ids_BS), Ear()
    with cut(encoder_heads(model), hidden):
        model.encode(ids_BS, ear)
    for record in ear.encoder():
        assert (record.weights_BHTS[0, :, 1, 2] == 0).all()
        torch.testing.assert_close(record.weights_BHTS.sum(-1), torch.ones(1, 4, 4))
    assert ear.attention.keys() >= {AttentionModuleId("encoder", 0, "self")}
    assert torch.equal(model.encode(ids_BS).states_BSM, before.states_BSM)


def test_experiments_are_numbered_and_told_in_both_languages() -> None:
    found = experiments()
    assert [each.number for each in found] == sorted({each.number for each in found})
    assert set(range(1, 30)) <= {each.number for each in found}
    for each in found:
        for text in (each.title, each.claim, each.prediction):
            assert text.en.strip()
            assert text.zh.strip()
        assert re.search(r"[\u4e00-\u9fff]", each.claim.zh), each.number
        assert each.notes


def test_every_experiment_belongs_to_a_topic() -> None:
    assert words.topic_of(1) == words.TOPICS[1]
    assert words.topic_of(29) == words.TOPICS[25]
    assert words.topic_of(60) == words.TOPICS[50]


def test_a_number_that_is_no_experiment_is_refused() -> None:
    assert [each.number for each in chosen(["9", "1", "9"])] == [9, 1]
    with pytest.raises(ConfigError, match="must be a number .* or all, but is 999"):
        chosen(["999"])


class Seen(HTMLParser):
    """What a page has: ids, tags that are open, and addresses."""

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


def some_figures() -> tuple[Figure, ...]:
    matrix = [[0.1, 0.9], [0.5, 0.5]]
    return (
        curves(
            SAME, [1, 10, 100], {SAME: [1, 1e-9, 2], "b": [3, 2, 1]}, (SAME, "y"), y_scale="log"
        ),
        bars(SAME, {Text("one", "一"): 1.0, "two": 2.0}, SAME),
        grids(SAME, {"": matrix}, ["我", "爱"], ["我", "爱"], numbers=True),
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_report_needs_nothing_but_itself(language: str, tmp_path: Path) -> None:
    outcome = run_one(an_experiment(1, figures=some_figures()), Bench(tmp_path))
    page = report([outcome], language)  # type: ignore[arg-type]
    seen = Seen(page)
    assert all(address.startswith(("#", "data:")) for address in seen.addresses)
    assert [name for name, count in Counter(seen.ids).items() if count > 1] == []
    assert {address[1:] for address in seen.addresses if address[0] == "#"} <= set(seen.ids)
    assert page.count("<figure") == 3
    assert ("宽度" in page) == (language == "zh")
    assert "<title>seq2see" in page
    assert "A <title>" not in page


def test_a_report_has_an_experiment_as_code_with_its_parts() -> None:
    (each,) = chosen(["48"])
    code = report([Outcome(each, None)], "en").split("<pre>")[1].split("</pre>")[0]
    assert code.startswith("def joined(")
    for part in ("class _Weights:", "def _our_mask(", "def _hidden_twice(", "def _grids("):
        assert code.count(part) == 1
    assert "@experiment" not in code
    assert "def added_mask_softmax" not in code, "what is another's stays there"


def test_pictures_take_the_colour_of_the_page() -> None:
    lines, rows, matrix = some_figures()
    for figure in (lines, rows):
        assert "stroke: currentColor" in figure.svg, "the axes"
        assert "fill: #" not in " ".join(re.findall("<text[^>]*>", figure.svg))
    label, *_ = re.findall("<text[^>]*>", matrix.svg)
    assert "fill" not in label, "the style sheet of the page gives it a color"
    for figure in some_figures():
        assert "#000000" not in figure.svg
        assert "mathdefault" not in figure.svg


def test_words_of_a_picture_are_translated() -> None:
    figure = some_figures()[0]
    assert ">width<" in figure.drawn("en")
    assert ">width<" not in figure.drawn("zh")
    assert ">宽度<" in figure.drawn("zh")
    assert "10⁻" in figure.svg


def test_the_documentation_has_a_table_of_verdicts(tmp_path: Path) -> None:
    outcomes = [run_one(an_experiment(value), Bench(tmp_path)) for value in (1, 2)]
    page = markdown(outcomes, "en")
    assert "| 1 | A &lt;title> | false |" in page
    assert "| 1 | A &lt;title> | false (not as expected) |" in page
    assert "| width | 2 | 1 ± 0.5 |" in page
    assert "不成立" in markdown(outcomes, "zh")


def test_the_documentation_leaves_code_as_it_is(tmp_path: Path) -> None:
    claim = Text("`a_b[0] * 2` is not a_b, and `c_d` is <c>", "说法")
    each = replace(an_experiment(1), claim=claim)
    page = markdown([run_one(each, Bench(tmp_path))], "en")
    assert "`a_b[0] * 2` is not a\\_b, and `c_d` is &lt;c>" in page


@pytest.mark.parametrize(
    ("language", "line"),
    [("en", "<b>false</b> it is not so"), ("zh", "<b>不成立</b> 并非如此")],
)
def test_a_report_puts_the_verdict_in_front_of_its_reason(
    language: str, line: str, tmp_path: Path
) -> None:
    outcome = run_one(an_experiment(1), Bench(tmp_path))
    assert f"<dd>{line}</dd>" in report([outcome], language)  # type: ignore[arg-type]


def test_the_gallery_has_one_name() -> None:
    (each,) = chosen(["60"])
    assert each.title.zh == words.GALLERY.zh


def test_a_record_is_plain_json(tmp_path: Path) -> None:
    record = run_one(an_experiment(2), Bench(tmp_path)).record()
    assert json.loads(json.dumps(record)) == record
    assert record["status"] == "failed"
    assert record["verdict"] == "false"
    assert record["measurements"][0]["met"] is False
