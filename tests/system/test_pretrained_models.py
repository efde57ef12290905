"""Runs with pretrained models: fine-tuning and distillation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.errors import ConfigError, InputError
from seq2see.settings import Recipe
from seq2see.training.training_log import read_training_log

STUDENT = {
    "preset": "tiny",
    "d_model": 16,
    "d_ff": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
}


def training_losses(directory: Path) -> list[float]:
    return [r["nll"] for r in read_training_log(directory / "log.jsonl") if r["kind"] == "train"]


@pytest.fixture(scope="module")
def base(train_here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a slightly trained model."""
    directory = tmp_path_factory.mktemp("base") / "run"
    return train_here(
        directory, "train.max_updates=60", "validation.interval=100", "checkpoints.interval=60"
    )


def test_fine_tuning_starts_from_model(train_here, base: Path, tmp_path: Path) -> None:
    overrides = ("train.max_updates=10", f"train.init_from={base}", "tokenizer.vocab_size=300")
    directory = train_here(tmp_path / "run", *overrides, "model.dropout.residual=0.25")
    before, after = Bundle.load(base), Bundle.load(directory)
    assert after.tokenizers.fingerprint == before.tokenizers.fingerprint
    assert after.config.dropout.residual == 0.25
    assert after.config == before.config.replace(dropout={"residual": 0.25})
    assert training_losses(directory)[0] < training_losses(base)[0] - 0.5
    assert any(not t.equal(before.weights[n]) for n, t in after.weights.items())


def test_fine_tuned_model_has_statistics_of_its_new_text(
    train_here, base: Path, tmp_path: Path
) -> None:
    overrides = ("train.max_updates=1", f"train.init_from={base}")
    train = "data.train=[{files=['valid.tsv']}]"
    before = Bundle.load(base)
    after = Bundle.load(train_here(tmp_path / "run", *overrides, train))
    assert before.training_text
    assert after.training_text
    assert before.training_text.num_pairs != after.training_text.num_pairs == 20


def test_tiny_learning_rate_keeps_initial_weights(train_here, base: Path, tmp_path: Path) -> None:
    """Training starts with exactly the weights of the model."""
    overrides = ("train.max_updates=1", f"train.init_from={base}", "checkpoints.final_weights=last")
    schedule = ("schedule.kind=constant", "schedule.peak_lr=1e-30", "schedule.warmup_updates=0")
    directory = train_here(tmp_path / "run", *overrides, *schedule)
    before, after = Bundle.load(base).weights, Bundle.load(directory).weights
    assert all(tensor.equal(before[name]) for name, tensor in after.items())


def test_student_learns_from_teacher(train_here, base: Path, tmp_path: Path) -> None:
    overrides = ("train.max_updates=20", "loss.distillation_weight=0.7", f"loss.teacher={base}")
    directory = train_here(tmp_path / "run", *overrides, model=STUDENT)
    student, teacher = Bundle.load(directory), Bundle.load(base)
    assert student.config.d_model == 16
    assert student.tokenizers.fingerprint == teacher.tokenizers.fingerprint
    assert training_losses(directory)[-1] < training_losses(directory)[0]


def test_resume_rejects_changed_teacher(train_here, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "teacher")
    overrides = (
        "train.max_updates=2",
        "loss.distillation_weight=0.7",
        f"loss.teacher={tmp_path / 'teacher'}",
    )
    train_here(tmp_path / "run", *overrides, model=STUDENT)
    bundle = Bundle.load(base)
    weights = {name: 2 * tensor for name, tensor in bundle.weights.items()}
    other = Bundle(bundle.config, bundle.tokenizers, bundle.languages, weights)
    other.save(tmp_path / "teacher")
    with pytest.raises(ConfigError, match="`models.loss.teacher` was"):
        train_here(tmp_path / "run", *overrides, model=STUDENT, resume=True)


def test_unsuitable_pretrained_models_are_rejected(train_here, base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none` does not exist: give a model directory"):
        train_here(tmp_path / "run", "train.init_from=none")
    bundle = Bundle.load(base)
    other = Bundle(
        bundle.config,
        bundle.tokenizers,
        bundle.languages,
        bundle.weights,
        StartAndEndTokenIds(decoder_start_id=0),
    )
    other.save(tmp_path / "marian")
    with pytest.raises(
        InputError, match="`train.init_from` must be a model that was trained by seq2see"
    ):
        train_here(tmp_path / "run", f"train.init_from={tmp_path / 'marian'}")
    advice = "leave it out, or add model.norm.placement=post"
    with pytest.raises(ConfigError, match=advice):
        train_here(tmp_path / "run", f"train.init_from={base}", "model.norm.placement=pre")
    with pytest.raises(
        ConfigError, match="`model.d_ff` must be 32 as in `train.init_from`, but is 64"
    ):
        train_here(tmp_path / "run", f"train.init_from={base}", "model.d_ff=64")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["loss.distillation_weight=0.5"],
            "`loss.teacher` must be given if and only if `loss.distillation_weight`",
        ),
        (
            ["loss.teacher=x"],
            "`loss.teacher` must be given if and only if `loss.distillation_weight`",
        ),
    ],
)
def test_contradictory_recipes_are_rejected(
    tiny_recipe: Path, overrides: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Recipe.read(tiny_recipe, overrides)
