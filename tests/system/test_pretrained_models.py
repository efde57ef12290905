"""Runs that build on a model: fine-tuning, and learning from a teacher."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from seq2see.bundle import Bundle, SpecialTokens
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


def losses(folder: Path) -> list[float]:
    return [r["nll"] for r in read_training_log(folder / "log.jsonl") if r["kind"] == "train"]


@pytest.fixture(scope="module")
def base(train_here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a model that has learnt a little."""
    folder = tmp_path_factory.mktemp("base") / "run"
    return train_here(
        folder, "train.max_updates=60", "validation.interval=100", "checkpoints.interval=60"
    )


def test_fine_tuning_goes_on_from_a_model(train_here, base: Path, tmp_path: Path) -> None:
    changes = ("train.max_updates=10", f"train.init_from={base}", "tokenizer.vocab_size=300")
    folder = train_here(tmp_path / "run", *changes, "model.dropout.residual=0.25")
    before, after = Bundle.load(base), Bundle.load(folder)
    assert after.tokenizers.fingerprint == before.tokenizers.fingerprint
    assert after.config.dropout.residual == 0.25
    assert after.config == before.config.replace(dropout={"residual": 0.25})
    assert losses(folder)[0] < losses(base)[0] - 0.5
    assert any(not t.equal(before.weights[n]) for n, t in after.weights.items())


def test_a_rate_of_nothing_keeps_the_weights(train_here, base: Path, tmp_path: Path) -> None:
    """Training begins with exactly the weights of the model."""
    changes = ("train.max_updates=1", f"train.init_from={base}", "checkpoints.final_weights=last")
    rate = ("schedule.kind=constant", "schedule.peak_lr=1e-30", "schedule.warmup_updates=0")
    folder = train_here(tmp_path / "run", *changes, *rate)
    before, after = Bundle.load(base).weights, Bundle.load(folder).weights
    assert all(tensor.equal(before[name]) for name, tensor in after.items())


def test_a_student_learns_from_a_teacher(train_here, base: Path, tmp_path: Path) -> None:
    changes = ("train.max_updates=20", "loss.distillation_weight=0.7", f"loss.teacher={base}")
    folder = train_here(tmp_path / "run", *changes, model=STUDENT)
    student, teacher = Bundle.load(folder), Bundle.load(base)
    assert student.config.d_model == 16
    assert student.tokenizers.fingerprint == teacher.tokenizers.fingerprint
    assert losses(folder)[-1] < losses(folder)[0]


def test_another_teacher_midway_is_refused(train_here, base: Path, tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "teacher")
    changes = (
        "train.max_updates=2",
        "loss.distillation_weight=0.7",
        f"loss.teacher={tmp_path / 'teacher'}",
    )
    train_here(tmp_path / "run", *changes, model=STUDENT)
    bundle = Bundle.load(base)
    weights = {name: 2 * tensor for name, tensor in bundle.weights.items()}
    other = Bundle(bundle.config, bundle.tokenizers, bundle.languages, weights)
    other.save(tmp_path / "teacher")
    with pytest.raises(ConfigError, match="but `models.loss.teacher` was"):
        train_here(tmp_path / "run", *changes, model=STUDENT, resume=True)


def test_models_that_cannot_be_built_on(train_here, base: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none` does not exist: give a model directory"):
        train_here(tmp_path / "run", "train.init_from=none")
    bundle = Bundle.load(base)
    framed = Bundle(
        bundle.config,
        bundle.tokenizers,
        bundle.languages,
        bundle.weights,
        SpecialTokens(decoder_start_id=0),
    )
    framed.save(tmp_path / "marian")
    with pytest.raises(
        InputError, match="`train.init_from` must be a model that seq2see has trained"
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
    ("changes", "problem"),
    [
        (
            ["loss.distillation_weight=0.5"],
            "`loss.teacher` must be given with `loss.distillation_weight`",
        ),
        (["loss.teacher=x"], "`loss.teacher` must be given with `loss.distillation_weight`"),
    ],
)
def test_recipes_that_contradict_themselves(
    tiny_recipe: Path, changes: list[str], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        Recipe.read(tiny_recipe, changes)
