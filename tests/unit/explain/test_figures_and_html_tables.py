"""Pages, figures and reports of the explain package, and the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import seq2see
from seq2see import draw
from seq2see.bundle import Bundle
from seq2see.cli import app
from seq2see.data import fables
from seq2see.engines.torch_decoder import AlignmentConfig
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain import (
    AblateLayer,
    ExplainedModel,
    Trace,
    TraceOptions,
    list_head_ablations,
    trace_translation,
)
from seq2see.explain.head_ablation import (
    HeadImportance,
    HeadImportanceReport,
    compute_contrastive_log_prob_differences,
    measure_head_importance,
)
from seq2see.explain.pronoun_test import (
    PronounReport,
    ProportionWithConfidenceInterval,
    run_pronoun_test,
)
from seq2see.model import ModelConfig, Transformer
from seq2see.search import LengthConfig, SearchConfig
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import Translation, Translator

LINES = ["the cat sleeps .", "a dog runs </script> <b>", "我 喜欢 猫 。", "le chat dort ."]
LONG_LINE = "the cat sleeps and a dog runs and the cat runs and a dog sleeps"
SHORT = SearchConfig(beam_size=2, length=LengthConfig(max_ratio=1.0, max_extra=2))


@cache
def explained_model(languages: tuple[str, str] = ("en", "zh")) -> ExplainedModel:
    text = LINES
    if languages == ("en", "fr"):
        text = [
            f"{fable.source} {fable.target}"
            for fable in fables.load_fables_split("test", True)[:300]
        ]
    tokenizers = TokenizerPair.train(text, text, TokenizerConfig(vocab_size=320))
    sizes = {"d_model": 8, "d_ff": 8, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    torch.manual_seed(3)
    model = Transformer.from_config(ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes))
    return ExplainedModel(Translator(TorchEngine(model.eval()), tokenizers, languages))


@cache
def cached_trace(
    target: str | None = "我喜欢猫。", text: str = "the cat </script> sleeps ."
) -> Trace:
    methods = ("attention", "occlusion")
    options = TraceOptions(attributions=methods, word_alternatives=True, layers="all")
    return trace_translation(explained_model(), text, target, SHORT, (), options)


def test_page_is_self_contained(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    cached_trace().save(path)
    page = path.read_text("utf-8")
    assert re.findall(r"https?://[^\s\"'`)]+", page) == []
    assert not re.findall(r"(?:src|href)=[\"'](?!data:,|#main)", page)
    (imports,) = re.findall(r'<script type="importmap">(.*?)</script>', page)
    modules = json.loads(imports)["imports"]
    assert "views/attention.js" in modules
    for url in modules.values():
        code = b64decode(url.removeprefix("data:text/javascript;base64,")).decode()
        assert set(re.findall(r'^import .*from "(.+)";$', code, re.MULTILINE)) <= modules.keys()


def test_sentence_cannot_break_out_of_the_script() -> None:
    page = cached_trace().to_html()
    (embedded,) = re.findall(r'(?s)<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(embedded) == {"trace": json.loads(cached_trace().to_json())}
    assert page.count("</script>") == 3
    assert "<" not in embedded, "<!-- and <script would change where the element ends"


def test_notebook_shows_page_in_iframe() -> None:
    iframe = cached_trace()._repr_html_()
    assert iframe.startswith("<iframe srcdoc=")
    (page,) = re.findall(r'(?s)srcdoc="(.*?)" style', iframe)
    assert unescape(page) == cached_trace().to_html()
    quoted = cached_trace(text='the "cat" </script> sleeps .')._repr_html_()
    assert quoted.endswith('title="the &quot;cat&quot; &lt;/script&gt; sleeps ."></iframe>')


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures_contain_labels(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    trace = cached_trace("le chat dort .")
    trace.save(path)
    assert path.stat().st_size > 2000
    if ending == "svg":
        words = path.read_text("utf-8")
        for label in [
            *trace.axis_labels("target"),
            *trace.axis_labels("source"),
            "layer 1",
            "head 0",
        ]:
            assert label in unescape(words)


def test_figure_of_one_head(tmp_path: Path) -> None:
    path, trace = tmp_path / "a.svg", cached_trace()
    trace.save_attention_map_figure(path, trace.attention_map("encoder", 1, "self"), 1)
    assert "encoder.1.self, head 1" in path.read_text("utf-8")
    with pytest.raises(InputError, match="`head` must be below 2, but is 5"):
        trace.save_attention_map_figure(path, trace.attention_map("encoder", 1, "self"), 5)
    with pytest.raises(InputError, match=r"must be one of encoder.0.self.* but is encoder.9.self"):
        trace.attention_map("encoder", 9, "self")


def test_figure_without_decoder_layers_is_rejected(tmp_path: Path) -> None:
    ablations = [AblateLayer(stack="decoder", layer=layer) for layer in (0, 1)]
    trace = trace_translation(explained_model(), "the cat sleeps .", None, SHORT, ablations)
    with pytest.raises(InputError, match="needs cross-attention, but all decoder layers"):
        trace.save(tmp_path / "a.svg")


@pytest.mark.skipif(len(draw.list_figure_fonts()) < 2, reason="no Chinese font is installed")
def test_chinese_labels_use_a_font_with_these_characters(tmp_path: Path) -> None:
    """matplotlib warns about missing characters, and warnings are errors."""
    cached_trace().save(tmp_path / "a.png")
    assert "猫" in "".join(cached_trace().axis_labels("target"))


@pytest.mark.parametrize("name", ["a.txt", "a", "nowhere/a.html"])
def test_invalid_output_paths_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="must end with one of .json|cannot be written"):
        cached_trace().save(tmp_path / name)


def test_wilson_interval_of_known_counts() -> None:
    none, half, all_ = (
        ProportionWithConfidenceInterval.from_counts(count, 10) for count in (0, 5, 10)
    )
    assert (none.low, none.high) == pytest.approx((0, 0.2775), abs=1e-3)
    assert (half.low, half.high) == pytest.approx((0.2366, 0.7634), abs=1e-3)
    assert not half.is_above_chance
    assert all_.is_above_chance
    assert "no better than chance" in half.format_with_significance()
    assert "chance" not in all_.format_with_significance()


@cache
def pronoun_report() -> PronounReport:
    return run_pronoun_test(explained_model(("en", "fr")), use_short_corpus=True, max_cases=12)


def test_untrained_model_is_no_better_than_chance() -> None:
    report = pronoun_report()
    assert 2 * report.masked_accuracy.count == report.masked_accuracy.total == 12, (
        "masked sources are equal in pairs: one of two is wrong"
    )
    text = " ".join(report.summary_lines())
    assert "no better than chance" in text
    assert "No head attends to the antecedent significantly" in text
    assert len(report.heads) == 4


def test_examples_of_the_pronoun_report() -> None:
    report, explained = pronoun_report(), explained_model(("en", "fr"))
    tired, wide = report.examples
    assert tired.source.endswith("too tired.")
    assert wide.source.endswith("too wide.")
    for case in report.examples:
        assert len(case.pronoun_attention) == 4
        for attention in case.pronoun_attention:
            assert len(attention.weights) == len(case.tokens)
            assert sum(attention.weights) == pytest.approx(1, abs=1e-4)
        assert len(case.ablations) == len(list_head_ablations(explained.model))
        for ablation in case.ablations:
            assert ablation.change == pytest.approx(
                ablation.log_prob_difference - case.log_prob_difference
            )
        largest = max(case.ablations, key=lambda ablation: abs(ablation.change))
        name = f"{largest.attention_address}.{largest.head}"
        text = f"Without {name} it is {largest.log_prob_difference:+.2f}"
        assert any(case.source in line and text in line for line in report.summary_lines())
    pairs = [
        f.pronoun.contrastive_pair
        for f in fables.select_pronoun_fables("test", True)[:12]
        if f.pronoun
    ]
    scores = compute_contrastive_log_prob_differences(explained, [pair for pair in pairs if pair])
    assert report.accuracy.count == sum(value > 0 for value in scores)


def test_pronoun_test_rejects_other_languages() -> None:
    with pytest.raises(InputError, match="from en to fr .* but translates from en to zh"):
        run_pronoun_test(explained_model())


def head_report() -> HeadImportanceReport:
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
def test_reports_are_saved(tmp_path: Path, ending: str) -> None:
    for number, report in enumerate((head_report(), pronoun_report())):
        path = tmp_path / f"{number}.{ending}"
        report.save(path)
        assert path.stat().st_size > 300
        if ending == "html":
            assert "http:" not in path.read_text("utf-8")


def test_html_report_escapes_tokens() -> None:
    report = pronoun_report()
    case = report.examples[0].replace(source="<b>", correct_token="<0x0A>")  # noqa: S106
    page = report.replace(examples=(case,)).to_html()
    assert "p(&lt;0x0A&gt;)" in page
    assert "<0x0A>" not in page
    assert "<h2>&lt;b&gt;</h2>" in page


def test_report_is_not_written_with_an_unknown_extension(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end with one of .json"):
        head_report().save(tmp_path / "a.txt")


def test_table_of_head_importance() -> None:
    table = head_report().build_table()
    assert table.row_labels == ["decoder.0.cross", "decoder.1.cross"]
    assert table.column_labels == ["head 0", "head 1"]
    assert table.values == [[-0.5, 0.25], [0.0, -2.0]]
    page = head_report().to_html()
    assert page.index("-0.50") < page.index("+0.25") < page.index("+0.00") < page.index("-2.00")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    explained, path = explained_model(), tmp_path_factory.mktemp("model")
    config = ModelConfig(
        vocab_size=explained.tokenizers.source.vocab_size,
        d_model=8,
        d_ff=8,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
    )
    weights = explained.model.state_dict()
    Bundle(config, explained.tokenizers, explained.languages, weights, max_length=24).save(path)
    return path


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command_line = [sys.executable, "-m", "seq2see", "explain", *map(str, arguments)]
    return subprocess.run(command_line, capture_output=True, text=True, check=False, timeout=120)


def test_explain_command(directory: Path, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    options = ["--ablate", "decoder.1.cross.0", "--beam-size", "2", "--attribution", "occlusion"]
    done = command(directory, "the cat sleeps .", *options, "-o", page)
    assert done.returncode == 0, done.stderr
    assert "without the intervention:" in done.stdout
    assert "most likely tokens" in done.stdout
    assert done.stderr == f"seq2see: wrote {page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    more = ["the cat sleeps .", "--target", "le chat dort .", "--json"]
    trace = Trace.from_json(CliRunner().invoke(app, ["explain", str(directory), *more]).stdout)
    assert trace.is_forced
    assert trace.translation.text == "le chat dort ."


def test_head_importance_splits_long_lines_as_the_translator(
    directory: Path, tmp_path: Path
) -> None:
    translator = seq2see.load(directory)
    assert translator.max_tokens < len(translator.tokenizers.source.encode(LONG_LINE))
    reference = translator.translate(LONG_LINE, beam_size=1).text
    (tmp_path / "a.tsv").write_text(f"{LONG_LINE}\t{reference}\n", "utf-8")
    arguments = ["--head-importance", str(tmp_path / "a.tsv"), "--json"]
    done = CliRunner().invoke(app, ["explain", str(directory), *arguments])
    assert json.loads(done.stdout)["baseline_bleu"] == pytest.approx(100)


def test_head_importance_keeps_the_settings_of_the_translator() -> None:
    source = explained_model()
    alignment = AlignmentConfig(layer=0, heads=(1,))
    engine = TorchEngine(source.model, alignment=alignment, stop_rule="beam_full")
    settings = {"max_tokens": 7, "max_sentences_per_line": 3}
    translator = Translator(engine, source.tokenizers, source.languages, **settings)
    used: list[Translator] = []

    def record_translator(translator: Translator, texts: list[str], *_: Any) -> list[Translation]:
        used.append(translator)
        return [Translation("", 0.0, 0.0) for _ in texts]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Translator, "translate", record_translator)
        measure_head_importance(ExplainedModel(translator), LINES, LINES)
    assert len(used) == 1 + len(list_head_ablations(source.model))
    for each in used:
        assert isinstance(each.engine, TorchEngine)
        assert (each.engine.alignment, each.engine.stop_rule) == (alignment, "beam_full")
        assert (each.max_tokens, each.max_sentences_per_line) == (7, 3)


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (
            ["a", "--ablate", "decoder"],
            2,
            "`--ablate` must be an address such as decoder.1.cross.3",
        ),
        ([], 2, "TEXT, `--pronoun-test` or `--head-importance` must be given"),
        (["a", "--pronoun-test"], 2, "TEXT must be left out with `--pronoun-test`"),
        (["a", "--attribution", "guess"], 2, "must be one of"),
        (["a", "-o", "a.txt"], 2, "must end with one of .json, .html"),
        (["--pronoun-test"], 1, "from en to fr"),
    ],
)
def test_invalid_arguments_are_one_line_errors(
    directory: Path, arguments: list[str], status: int, line: str
) -> None:
    done = CliRunner().invoke(app, ["explain", str(directory), *arguments])
    assert done.exit_code == status
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
