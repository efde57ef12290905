"""Lines that are longer than a model supports or than the training lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seq2see
from seq2see.bundle import Bundle
from seq2see.data import digit_tasks
from seq2see.errors import ConfigError
from seq2see.model import ModelConfig, Transformer
from seq2see.settings import Recipe
from seq2see.text import PAD_ID, TokenizerConfig, TokenizerPair
from seq2see.training.builder import RunBuilder
from seq2see.training.config import ValidationConfig
from seq2see.training.corpus_and_tokenizer_preparation import RunReadyToStart, prepare_run
from seq2see.training.run_directory import RunDirectory
from seq2see.translator import Translator

LEARNED = {"positions": {"kind": "learned", "max_length": 24}}
LINFORMER = {"encoder_attention": {"kind": "linformer", "max_length": 24, "rank": 4}}
SIZES = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}


class Run:
    """A training run of a recipe, up to its preparation."""

    def __init__(self, home: Path, max_length: int, **sections: dict[str, Any]) -> None:
        recipe = Recipe(
            data={
                "languages": ("en", "de"),
                "train": [{"files": ["builtin:reverse"]}],
                "valid": {"files": ["valid.tsv"]},
            },
            tokenizer={"vocab_size": 275},
            batches={"max_tokens": 512, "max_length": max_length},
            **{"train": {"max_updates": 1}, "model": {"preset": "tiny", **SIZES}} | sections,
        )
        self.builder = RunBuilder(recipe, home, RunDirectory(home / "run"))

    def prepared(self) -> RunReadyToStart:
        with prepare_run(self.builder) as prepared:
            return prepared


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with a validation set."""
    write(tmp_path, digit_tasks.load_digit_pairs("reverse", "valid")[:20])
    return tmp_path


def write(home: Path, pairs: list[tuple[str, str]]) -> None:
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    (home / "valid.tsv").write_text("".join(lines), "utf-8")


def save_model(directory: Path, **settings: Any) -> None:
    """Save a model with random weights."""
    sources, targets = zip(*digit_tasks.load_digit_pairs("reverse", "train"), strict=True)
    tokenizers = TokenizerPair.train(sources, targets, TokenizerConfig(vocab_size=275))
    size = tokenizers.source.vocab_size
    config = ModelConfig.from_preset("tiny", vocab_size=size, pad_id=PAD_ID, **SIZES, **settings)
    weights = Transformer.from_config(config).state_dict()
    Bundle(config, tokenizers, ("en", "de"), weights).save(directory)


@pytest.mark.parametrize("limit", [LEARNED, LINFORMER], ids=["learned", "linformer"])
@pytest.mark.parametrize("key", ["train.init_from", "loss.teacher"])
def test_pretrained_model_must_support_the_longest_line(
    home: Path, key: str, limit: dict[str, Any]
) -> None:
    """The recipe cannot know the length limit of another model."""
    save_model(home / "model", **limit)
    sections: dict[str, dict[str, Any]] = {
        "train.init_from": {"train": {"max_updates": 1, "init_from": "model"}},
        "loss.teacher": {"loss": {"teacher": "model", "distillation_weight": 0.5}},
    }
    problem = f"`batches.max_length` must be at most 23, .* `{key}` .*, but is 24 instead"
    with pytest.raises(ConfigError, match=problem):
        Run(home, 24, **sections[key]).prepared()
    assert not (home / "run").exists()
    Run(home, 23, **sections[key]).prepared()


def long_and_short() -> list[tuple[str, str]]:
    """Return pairs; the second has several sentences and too many tokens in total."""
    short = digit_tasks.load_digit_pairs("reverse", "valid")[:3]
    sentence = "a b c d e f g h. "  # digits alone would be copied
    return [short[0], (sentence * 7, sentence * 7), *short[1:]]


def test_long_validation_line_is_split_as_in_translation(home: Path) -> None:
    """Validation scores must equal those of the saved model."""
    write(home, long_and_short())
    run = Run(home, 23, model={"preset": "tiny", **SIZES, **LEARNED})
    builder = run.builder
    run.prepared()
    objective = builder.build_objective()
    examiner = builder.build_evaluator("data.valid")
    assert examiner.estimate_seconds(objective, ValidationConfig()) > 0
    found = examiner.evaluate(objective, ValidationConfig(num_examples=4))
    bundle = Bundle(
        builder.model_config,
        builder.tokenizers,
        ("en", "de"),
        objective.model.state_dict(),
        max_length=23,
    )
    bundle.save(home / "model")
    shipped = seq2see.load(home / "model", engine="torch")
    sources = [source for source, _ in long_and_short()]
    texts = [found.text for found in shipped.translate(sources, beam_size=1, stop_rule="exact")]
    assert [text for _, _, text in found.examples] == texts


def test_validation_splits_lines_by_the_training_text(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = []

    class RecordingTranslator(Translator):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            numbers.append(self.max_sentences_per_line)

    monkeypatch.setattr("seq2see.training.validation.Translator", RecordingTranslator)
    run = Run(home, 23)
    run.prepared()
    builder = run.builder
    statistics = builder.directory.read_training_text()
    assert statistics
    builder.directory.write_training_text(statistics.replace(max_sentences_per_line=3))
    evaluator = builder.build_evaluator("data.valid")
    evaluator.evaluate(builder.build_objective(), ValidationConfig(max_sentences=2))
    assert numbers == [3]


def test_validation_loss_skips_and_counts_long_pairs(home: Path) -> None:
    write(home, long_and_short())
    skipped = "1 pair skipped: 1 longer than batches.max_length (first: pair 2)."
    run = Run(home, 23)
    assert run.prepared().notes[-1] == f"valid.tsv (validation loss only): {skipped}"
    (home / "other").mkdir()
    write(home / "other", [p for p in long_and_short() if len(p[0]) < 99])
    nll, other_run = [], Run(home / "other", 23)
    other_run.prepared()
    for builder in (run.builder, other_run.builder):
        examiner = builder.build_evaluator("data.valid")
        nll.append(examiner.evaluate(builder.build_objective(), ValidationConfig()).nll)
    assert nll[0] == nll[1]


def test_validation_by_loss_translates_only_the_examples(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    translate = Translator.translate
    monkeypatch.setattr(
        Translator,
        "translate",
        lambda self, texts, **options: (lines.extend(texts), translate(self, texts, **options))[1],
    )
    run = Run(home, 23)
    run.prepared()
    builder = run.builder
    evaluator, objective = builder.build_evaluator("data.valid"), builder.build_objective()
    for num_examples in (0, 2):
        config = ValidationConfig(metric="loss", num_examples=num_examples)
        result = evaluator.evaluate(objective, config)
        assert (result.scores, len(result.examples)) == ({}, num_examples)
        assert len(lines) == num_examples
        assert evaluator.estimate_seconds(objective, config) > 0
        assert result.metric_value("loss") == -result.nll
        lines.clear()
