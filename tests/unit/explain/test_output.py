"""Pages, pictures and reports: whole, alone, and right about what they show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from html import unescape
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from seq2see import draw
from seq2see.bundle import Bundle
from seq2see.cli import app
from seq2see.data import fables
from seq2see.errors import InputError, Seq2SeeError
from seq2see.explain import (
    ExplainedModel,
    Trace,
    TraceOptions,
    list_head_ablations,
    trace_translation,
)
from seq2see.explain.head_ablation import (
    HeadImportance,
    HeadImportanceReport,
    compute_contrastive_scores,
)
from seq2see.explain.output import draw_attention_map
from seq2see.explain.pronoun_test import PronounReport, Proportion, run_pronoun_test
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair

LINES = ["the cat sleeps .", "a dog runs </script> <b>", "我 喜欢 猫 。", "le chat dort ."]
SHORT = SearchConfig(beam_size=2, length=LengthConfig(max_ratio=1.0, max_extra=2))


@cache
def subject(languages: tuple[str, str] = ("en", "zh")) -> ExplainedModel:
    text = LINES
    if languages == ("en", "fr"):
        text = [
            f"{fable.source} {fable.target}" for fable in fables.load_fables("test", True)[:300]
        ]
    tokenizers = TokenizerPair.train(text, text, TokenizerConfig(vocab_size=320))
    sizes = {"d_model": 8, "d_ff": 8, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(3)
    model = Transformer.from_config(ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes))
    return ExplainedModel(model.eval(), tokenizers, languages)


@cache
def traced(target: str | None = "我喜欢猫。", text: str = "the cat </script> sleeps .") -> Trace:
    methods = ("attention", "occlusion")
    detail = TraceOptions(attributions=methods, word_alternatives=True, layers="all")
    return trace_translation(subject(), text, target, SHORT, (), detail)


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    traced().save(path)
    page = path.read_text("utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a namespace, which nobody loads"
    assert not re.findall(r"(?:src|href)=[\"'](?!data:,)", page)
    assert "import " not in page.split('<script type="module">')[1]
    assert "{{" not in page.split("<script")[0]


def test_a_sentence_cannot_leave_its_place() -> None:
    page = traced().to_html()
    (inside,) = re.findall(r'(?s)<script type="application/json" id="trace">(.*?)</script>', page)
    assert json.loads(inside) == json.loads(traced().to_json())
    assert page.count("</script>") == 2
    assert "<" not in inside, "<!-- and <script would change where the element ends"


def test_a_trace_shows_itself_in_a_notebook() -> None:
    shown = traced()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    (page,) = re.findall(r'(?s)srcdoc="(.*?)" style', shown)
    assert unescape(page) == traced().to_html()
    quoted = traced(text='the "cat" </script> sleeps .')._repr_html_()
    assert quoted.endswith('title="the &quot;cat&quot; &lt;/script&gt; sleeps ."></iframe>')


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    made = traced("le chat dort .")
    made.save(path)
    assert path.stat().st_size > 2000
    if ending == "svg":
        words = path.read_text("utf-8")
        for label in [
            *made.axis_labels("target"),
            *made.axis_labels("source"),
            "layer 1",
            "head 0",
        ]:
            assert label in unescape(words)


def test_one_head_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    draw_attention_map(traced(), path, traced().attention_map("encoder", 1, "self"), 1)
    assert "encoder.1.self, head 1" in path.read_text("utf-8")
    with pytest.raises(InputError, match="`head` must be below 2, but is 5"):
        draw_attention_map(traced(), path, traced().attention_map("encoder", 1, "self"), 5)
    with pytest.raises(InputError, match=r"must be one of encoder.0.self.* but is encoder.9.self"):
        traced().attention_map("encoder", 9, "self")


@pytest.mark.skipif(len(draw.find_fonts()) < 2, reason="this computer has no font for Chinese")
def test_chinese_is_drawn_with_a_font_that_has_it(tmp_path: Path) -> None:
    """matplotlib warns of what a font lacks, and warnings are errors."""
    traced().save(tmp_path / "a.png")
    assert "猫" in "".join(traced().axis_labels("target"))


@pytest.mark.parametrize("name", ["a.txt", "a", "nowhere/a.html"])
def test_names_that_no_trace_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="must end with one of .json|there is no folder"):
        traced().save(tmp_path / name)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
@pytest.mark.parametrize("target", ["我喜欢猫。", None], ids=["forced", "searched"])
def test_a_browser_draws_it_without_complaint(tmp_path: Path, target: str | None) -> None:
    path = tmp_path / "a.html"
    made = traced(target)
    made.save(path)
    with ThreadPoolExecutor(1) as apart:  # Playwright allows one of its kind in a thread
        seen = apart.submit(_looked_at, path).result()
    assert seen.complaints == []
    assert [url for url in seen.asked_for if not url.startswith("data:")] == [path.as_uri()]
    assert sorted(seen.labels) == sorted([*made.axis_labels("source"), *made.axis_labels("target")])
    assert seen.circles == len(made.beam.nodes)
    assert seen.rows == len(made.steps)


@dataclass
class _Seen:
    complaints: list[str] = field(default_factory=list)
    asked_for: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    circles: int = 0
    rows: int = 0


def _looked_at(path: Path) -> _Seen:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    seen = _Seen()
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page()
        page.on("console", lambda message: seen.complaints.append(message.text))
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("request", lambda request: seen.asked_for.append(request.url))
        page.goto(path.as_uri())
        seen.labels = page.locator("#figure svg text").all_text_contents()
        page.get_by_role("button", name="lines").click()
        page.get_by_role("button", name="encoder").click()
        page.get_by_role("button", name="dark").click()
        seen.circles = page.locator("#beam circle").count()
        seen.rows = page.locator("#steps tbody tr").count()
        browser.close()
    return seen


def test_wilson_by_known_numbers() -> None:
    nothing, half, all_ = (Proportion.from_counts(count, 10) for count in (0, 5, 10))
    assert (nothing.low, nothing.high) == pytest.approx((0, 0.2775), abs=1e-3)
    assert (half.low, half.high) == pytest.approx((0.2366, 0.7634), abs=1e-3)
    assert not half.is_above_chance
    assert all_.is_above_chance
    assert "no better than chance" in half.format_with_significance()
    assert "chance" not in all_.format_with_significance()


@cache
def asked() -> PronounReport:
    return run_pronoun_test(subject(("en", "fr")), use_short_corpus=True, max_cases=12)


def test_a_model_that_knows_nothing_is_told_so() -> None:
    report = asked()
    assert 2 * report.masked_accuracy.count == report.masked_accuracy.total == 12, (
        "twins: one of two is wrong"
    )
    told = " ".join(report.summary_lines())
    assert "no better than chance" in told
    assert "Attention does not show it" in told
    assert len(report.heads) == 4


def test_the_two_famous_sentences() -> None:
    report, of = asked(), subject(("en", "fr"))
    tired, wide = report.examples
    assert tired.source.endswith("too tired.")
    assert wide.source.endswith("too wide.")
    for case in report.examples:
        assert len(case.pronoun_attention) == 4
        for look in case.pronoun_attention:
            assert len(look.weights) == len(case.tokens)
            assert sum(look.weights) == pytest.approx(1, abs=1e-4)
        assert len(case.ablations) == len(list_head_ablations(of.model))
        for removal in case.ablations:
            assert removal.change == pytest.approx(
                removal.log_prob_difference - case.log_prob_difference
            )
        most = max(case.ablations, key=lambda removal: abs(removal.change))
        told = f"Without {most.attention_address}.{most.head} it is {most.log_prob_difference:+.2f}"
        assert any(case.source in line and told in line for line in report.summary_lines())
    pairs = [
        f.pronoun.contrastive_pair
        for f in fables.load_pronoun_cases("test", True)[:12]
        if f.pronoun
    ]
    whole = compute_contrastive_scores(of, [pair for pair in pairs if pair])
    assert report.accuracy.count == sum(value > 0 for value in whole)


def test_other_languages_have_no_il_and_elle() -> None:
    with pytest.raises(InputError, match="from en to fr .* but translates from en to zh"):
        run_pronoun_test(subject())


def heads() -> HeadImportanceReport:
    scores = [
        HeadImportance(
            stack="decoder", layer=layer, attention="cross", head=head, bleu=1, bleu_change=change
        )
        for layer, head, change in [(0, 0, -0.5), (0, 1, 0.25), (1, 0, 0.0), (1, 1, -2.0)]
    ]
    return HeadImportanceReport(
        num_sentences=3, baseline_bleu=30.0, signature="nrefs:1", heads=tuple(scores)
    )


@pytest.mark.parametrize("ending", ["html", "json", "png", "svg"])
def test_reports_are_written(tmp_path: Path, ending: str) -> None:
    for number, report in enumerate((heads(), asked())):
        path = tmp_path / f"{number}.{ending}"
        report.save(path)
        assert path.stat().st_size > 300
        if ending == "html":
            assert "http" not in path.read_text("utf-8")


def test_the_table_of_heads() -> None:
    (table,) = heads().build_tables()
    assert (table.row_labels, table.column_labels) == (["layer 1", "layer 0"], ["head 0", "head 1"])
    assert table.values == [[0.0, -2.0], [-0.5, 0.25]]
    page = heads().to_html()
    assert page.index("+0.00") < page.index("-2.00") < page.index("-0.50") < page.index("+0.25")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    of, home = subject(), tmp_path_factory.mktemp("model")
    config = ModelConfig(
        vocab_size=of.tokenizers.source.vocab_size,
        d_model=8,
        d_ff=8,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
    )
    Bundle(config, of.tokenizers, of.languages, of.model.state_dict()).save(home)
    return home


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "seq2see", "explain", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_the_command(directory: Path, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    options = ["--ablate", "decoder.1.cross.0", "--beam-size", "2", "--attribution", "occlusion"]
    done = command(directory, "the cat sleeps .", *options, "-o", page)
    assert done.returncode == 0, done.stderr
    assert "without the intervention:" in done.stdout
    assert "most likely tokens" in done.stdout
    assert done.stderr == f"seq2see: wrote {page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    more = ["the cat sleeps .", "--target", "le chat dort .", "--json"]
    found = Trace.from_json(CliRunner().invoke(app, ["explain", str(directory), *more]).stdout)
    assert found.is_forced
    assert found.translation.text == "le chat dort ."


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["a", "--ablate", "decoder"], 2, "`--ablate` must be such as decoder.1.cross.3"),
        ([], 2, "TEXT, `--pronoun-test` or `--head-importance` must be given"),
        (["a", "--pronoun-test"], 2, "TEXT must be left out with `--pronoun-test`"),
        (["a", "--attribution", "guess"], 2, "must be one of"),
        (["a", "-o", "a.txt"], 2, "must end with one of .json, .html"),
        (["--pronoun-test"], 1, "from en to fr"),
    ],
)
def test_mistakes(directory: Path, arguments: list[str], status: int, line: str) -> None:
    done = CliRunner().invoke(app, ["explain", str(directory), *arguments])
    told = done.stderr if status == 2 else str(done.exception)  # which `main` prints as one line
    assert done.exit_code == status
    assert isinstance(done.exception, SystemExit if status == 2 else Seq2SeeError)
    assert line in told
    assert len(told.splitlines()) == 1
    assert done.stdout == ""
