"""`seq2see info`: the statistics of the training text, in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from seq2see.bundle import Bundle, Provenance
from seq2see.cli import app
from seq2see.cli.info import NOT_MEASURED
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.text.training_text_statistics import measure_training_text

ONE, TWO = ("The dog sleeps.", "狗睡觉。"), ("The dog sleeps. It snores.", "狗睡觉。它打呼噜。")
PAIRS = [ONE] * 90 + [TWO] * 10


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    sources, targets = zip(*PAIRS, strict=True)
    tokenizers = TokenizerPair.train(sources, targets, TokenizerConfig(vocab_size=300))
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    statistics = measure_training_text(PAIRS, ("en", "zh"), tokenizers)
    return Bundle(config, tokenizers, ("en", "zh"), weights, training_text=statistics)


def run_info(bundle: Bundle, directory: Path, *options: str) -> str:
    bundle.save(directory)
    done = CliRunner().invoke(app, ["info", str(directory), *options])
    assert done.exit_code == 0
    return done.stdout


def test_info_describes_training_text_in_words(bundle: Bundle, tmp_path: Path) -> None:
    lines = run_info(bundle, tmp_path).splitlines()
    section = lines[lines.index("## Training text") + 2 : lines.index("## Available engines") - 1]
    (ratio,) = (line for line in section if "target/source tokens" in line)
    assert section[:4] == [
        "- measured: 100 pairs",
        "- sentences per line: up to 2 in at least 5 % of the source lines",
        "- source lines by number of sentences: 1: 90.00%, 2 or more: 10.00%",
        "- target lines by number of sentences: 1: 90.00%, 2 or more: 10.00%",
    ]
    assert [line.split(":")[0] for line in section[4:6]] == [
        "- tokens per source line",
        "- tokens per target line",
    ]
    assert ratio.endswith("(90 pairs)")
    assert section[-2:] == [
        "- scripts of the source: LATIN 100.0%",
        "- scripts of the target: CJK 100.0%",
    ]


def test_info_prints_training_text_as_json(bundle: Bundle, tmp_path: Path) -> None:
    found = json.loads(run_info(bundle, tmp_path, "--json"))
    assert bundle.training_text
    assert found["training_text"] == json.loads(bundle.training_text.model_dump_json())
    assert found["max_sentences_per_line"] == 2


def test_model_without_statistics_counts_as_sentence_level(bundle: Bundle, tmp_path: Path) -> None:
    imported = replace(bundle, training_text=None)
    assert NOT_MEASURED in run_info(imported, tmp_path).splitlines()
    found = json.loads(run_info(imported, tmp_path, "--json"))
    assert found["training_text"] is None
    assert found["max_sentences_per_line"] == 1


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_info_prints_no_control_characters(
    bundle: Bundle, tmp_path: Path, options: tuple[str, ...]
) -> None:
    hostile = "\x1b]0;title\x07\x9b2J\u202e"
    assert bundle.training_text
    side = bundle.training_text.source.replace(scripts={hostile: 1.0})
    statistics = bundle.training_text.replace(source=side)
    provenance = Provenance(version=hostile, notes={"name": hostile})
    changed = replace(bundle, provenance=provenance, training_text=statistics)
    printed = run_info(changed, tmp_path, *options)
    assert printed.replace("\n", "").isprintable()
    assert "\\u001b]0;title" in printed
