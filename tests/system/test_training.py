"""`seq2see train`: the written model, resuming, several processes, and error messages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from seq2see import cli
from seq2see.bundle import Bundle
from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError
from seq2see.settings import Recipe
from seq2see.training import process_and_update_counts, run_directory
from seq2see.training.builder import RunBuilder
from seq2see.training.corpus_and_tokenizer_preparation import prepare_run
from seq2see.training.run_directory import RunDirectory
from seq2see.training.training_log import read_training_log

WITHOUT_DROPOUT = (
    "model.dropout.residual=0.0",
    "model.dropout.embedding=0.0",
    "batches.subword_dropout=0.0",
    "train.max_updates=50",
)


def training_losses(directory: Path) -> list[float]:
    """Return the training loss of every ten updates."""
    return [r["loss"] for r in read_training_log(directory / "log.jsonl") if r["kind"] == "train"]


def validation_losses(directory: Path) -> list[float]:
    """Return the loss of each validation."""
    return [
        r["nll"] for r in read_training_log(directory / "log.jsonl") if r["kind"] == "validation"
    ]


@pytest.fixture(scope="module")
def without_dropout(train_here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run in one process without dropout; only the order of the data is random."""
    return train_here(tmp_path_factory.mktemp("without_dropout") / "run", *WITHOUT_DROPOUT)


def test_training_writes_model_directory(train_in_subprocess, tmp_path: Path) -> None:
    done = train_in_subprocess(tmp_path / "run", "train.tensorboard=true")
    assert done.returncode == 0, done.stderr
    first_line, *_ = done.stderr.splitlines()
    assert first_line.startswith("Training to update 24, about ")
    assert first_line.endswith(" with all validations; 1 process with 1 thread.")
    assert "update 12, epoch 1: nll" in done.stderr
    bundle = Bundle.load(tmp_path / "run")
    assert bundle.provenance.updates == 24
    assert {score.metric for score in bundle.provenance.scores} == {"BLEU", "chrF2"}
    assert bundle.provenance.notes["stop_rule"] in {"exact", "beam_full"}
    assert (
        len((tmp_path / "run/probes.txt").read_text("utf-8").splitlines()) == 20
    )  # the whole validation set
    records = list(read_training_log(tmp_path / "run/log.jsonl"))
    assert [r["update"] for r in records if r["kind"] == "validation"] == [12, 24]
    assert (tmp_path / "run/curves.png").read_bytes().startswith(b"\x89PNG")
    assert [*(tmp_path / "run/tensorboard").iterdir()]


def test_skipped_pairs_are_reported(tiny_recipe: Path, tmp_path: Path) -> None:
    recipe = Recipe.read(tiny_recipe, ["batches.max_length=7"])
    builder = RunBuilder(recipe, tiny_recipe.parent, RunDirectory(tmp_path))
    with prepare_run(builder) as prepared:
        train, valid = prepared.notes
    assert train.startswith("builtin:reverse: ")
    assert valid.startswith("valid.tsv (validation loss only): ")
    assert all(" skipped: " in line for line in (train, valid))


@pytest.mark.parametrize(("requested", "processes"), [(None, 1), (2, 2)])
def test_batch_norm_uses_one_process_or_is_reported(
    tiny_recipe: Path, tmp_path: Path, monkeypatch, requested: int | None, processes: int
) -> None:
    monkeypatch.setattr(process_and_update_counts, "count_available_cores", lambda: 4)
    settings = Recipe.read(tiny_recipe, ["batches.max_tokens=8192", "model.norm.kind=batch"])
    training = settings.train.replace(processes=requested)
    recipe = settings.replace(train=training.model_dump())
    builder = RunBuilder(recipe, tiny_recipe.parent, RunDirectory(tmp_path))
    with prepare_run(builder) as prepared:
        assert prepared.processes == processes
    assert [note[:35] for note in prepared.notes] == ["Batch normalization uses the statis"] * (
        processes - 1
    )


def test_second_run_in_same_directory_is_rejected(train_here, uninterrupted: Path) -> None:
    with pytest.raises(
        InputError, match="already has a run: continue it with --resume, or name another"
    ):
        train_here(uninterrupted)


@pytest.mark.parametrize("name", ["checkpoints", "config.json"])
def test_directory_without_run_is_not_overwritten(train_here, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "tokenizer.model").write_bytes(b"theirs")
    for resume in (False, True):
        with pytest.raises(
            InputError, match=f"has {name}, but no run.json: it is not a run directory"
        ):
            train_here(tmp_path, resume=resume)
    assert (tmp_path / "tokenizer.model").read_bytes() == b"theirs"


def test_training_text_is_read_twice(
    train_here, tiny_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for its fingerprint, checks, tokenizer and statistics, and once to encode it."""
    file = tiny_recipe.with_name("train.tsv")
    lines = [f"{n % 7} {n % 5}\t{n % 5} {n % 7}\n" for n in range(200)]
    file.write_text("".join(lines), "utf-8")
    read_pairs, complete_readings = Corpus._read_pairs, []

    def count_complete_readings(corpus: Corpus, *arguments: Any) -> Iterator[SentencePair]:
        yield from read_pairs(corpus, *arguments)
        complete_readings.append(corpus.name)

    monkeypatch.setattr(Corpus, "_read_pairs", count_complete_readings)
    train_here(tmp_path / "run", "data.train=[{files=['train.tsv']}]")
    assert complete_readings.count("train.tsv") == 2
    bundle = Bundle.load(tmp_path / "run")
    assert bundle.training_text
    assert bundle.training_text.num_pairs == 200
    data = bundle.provenance.data
    assert [(info.name, info.pairs) for info in data] == [("train.tsv", 200), ("valid.tsv", 20)]


def test_stages_of_preparation_are_reported(tiny_recipe: Path, tmp_path: Path) -> None:
    stages: dict[str, int] = {}
    builder = RunBuilder(Recipe.read(tiny_recipe), tiny_recipe.parent, RunDirectory(tmp_path))
    with prepare_run(builder, on_stage=stages.__setitem__):
        num_pairs = [record.pairs for record in builder.directory.read_corpus_records().values()]
    assert stages == {
        "reading the training text": num_pairs[0],
        "training the tokenizer": 2 * num_pairs[0],
        "measuring the training text": num_pairs[0],
        "encoding": sum(num_pairs),
    }


def test_training_text_is_measured_within_the_length_limit(
    train_here, uninterrupted: Path, tmp_path: Path
) -> None:
    bundle = Bundle.load(train_here(tmp_path / "run", "batches.max_length=7"))
    found, other = bundle.training_text, Bundle.load(uninterrupted).training_text
    assert found
    assert other
    assert found.num_pairs < other.num_pairs
    assert max(found.source.max_tokens, found.target.max_tokens) == 7


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("[]")])
def test_resume_without_measured_training_text_is_rejected(
    train_here, uninterrupted: Path, tmp_path: Path, damage
) -> None:
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    damage(directory / "training_text.json")
    with pytest.raises(InputError, match=r"training_text.json (cannot be read|is damaged)"):
        train_here(directory, resume=True)


def test_second_run_cannot_replace_prepared_files(
    tiny_recipe: Path, tmp_path: Path, monkeypatch
) -> None:
    """The directory is locked from the first written file to the end of the run."""
    monkeypatch.setattr(run_directory, "LOCK_TIMEOUT", 0.1)
    builder = RunBuilder(Recipe.read(tiny_recipe), tiny_recipe.parent, RunDirectory(tmp_path))
    with prepare_run(builder):
        before = (tmp_path / "tokenizer.model").stat()
        with (
            pytest.raises(InputError, match="another run is using .*: wait until it has ended"),
            prepare_run(replace(builder)),
        ):
            pass
        assert (tmp_path / "tokenizer.model").stat() == before


def test_resume_rejects_changed_builtin_corpus(
    train_here, uninterrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    """A later version may generate other pairs."""
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    read_blocks = Corpus.read_blocks
    monkeypatch.setattr(
        Corpus,
        "read_blocks",
        lambda self, *on_skipped: (
            [SentencePair(*pair[::-1]) for pair in block]
            for block in read_blocks(self, *on_skipped)
        ),
    )
    with pytest.raises(InputError, match="cannot resume: builtin:reverse .data.train.0., valid"):
        train_here(directory, resume=True)


def test_resume_rejects_changed_corpus(
    train_here, tiny_recipe: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    text = tiny_recipe.with_name("valid.tsv")
    before = text.read_bytes()
    text.write_bytes(before + b"1 2\t2 1\n")
    try:
        with pytest.raises(InputError, match="cannot resume: valid.tsv .data.valid. has changed"):
            train_here(directory, resume=True)
    finally:
        text.write_bytes(before)


def test_directory_is_locked_by_running_training(
    train_here, uninterrupted: Path, tmp_path: Path, monkeypatch
) -> None:
    """Workers whose agent was killed may still save when another process resumes their run."""
    monkeypatch.setattr(run_directory, "LOCK_TIMEOUT", 0.1)
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    with (
        RunDirectory(directory).lock(),
        pytest.raises(InputError, match="another run is using .*run: wait until it has ended"),
    ):
        train_here(directory, resume=True)
    train_here(directory, resume=True)


def test_torchrun_continues_run_with_same_recipe(
    train_here, uninterrupted: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    """torchrun restarts a failed command with the same arguments."""
    directory = shutil.copytree(uninterrupted, tmp_path / "run")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    train_here(directory)
    assert f"continuing the run in {directory}" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="`train.threads` was 1, but is 2 instead"):
        train_here(directory, "train.threads=2")


def test_tag_unknown_to_pretrained_tokenizer_is_rejected(
    train_here, uninterrupted: Path, tmp_path: Path
) -> None:
    """The tag is a symbol of the recipe's tokenizer, but fine-tuning uses that of the model."""
    overrides = (
        "data.train=[{files=['valid.tsv'], tag='<bt>'}]",
        "tokenizer.user_defined_symbols=['<bt>']",
    )
    with pytest.raises(
        ConfigError, match="`tag` must be a user-defined symbol of the tokenizer .none., but is"
    ):
        train_here(tmp_path / "run", *overrides, f"train.init_from={uninterrupted}")
    assert not (tmp_path / "run").exists()


def test_two_processes_train_like_one(
    train_in_subprocess, without_dropout: Path, tmp_path: Path
) -> None:
    done = train_in_subprocess(tmp_path / "two", "train.processes=2", *WITHOUT_DROPOUT)
    assert done.returncode == 0, done.stderr
    assert "2 processes with 1 thread each" in done.stderr
    assert training_losses(tmp_path / "two") == pytest.approx(
        training_losses(without_dropout), abs=1e-4
    )
    bundles = [Bundle.load(directory) for directory in (tmp_path / "two", without_dropout)]
    assert bundles[0].training_text == bundles[1].training_text is not None


@pytest.mark.slow
def test_two_processes_share_matrices_of_muon(
    train_in_subprocess, train_here, tmp_path: Path
) -> None:
    """With Muon, each worker orthogonalizes a part of the matrices."""
    overrides = ("optimizer.kind=muon", *WITHOUT_DROPOUT)
    single = train_here(tmp_path / "one", *overrides)
    done = train_in_subprocess(tmp_path / "two", "train.processes=2", *overrides)
    assert done.returncode == 0, done.stderr
    assert training_losses(tmp_path / "two") == pytest.approx(training_losses(single), abs=1e-4)


@pytest.mark.slow
def test_three_processes_accumulate_gradients_like_one(
    train_in_subprocess, train_here, tmp_path: Path
) -> None:
    overrides = ("train.batches_per_update=2", *WITHOUT_DROPOUT)
    single = train_here(tmp_path / "one", *overrides)
    done = train_in_subprocess(tmp_path / "three", "train.processes=3", *overrides)
    assert done.returncode == 0, done.stderr
    assert training_losses(tmp_path / "three") == pytest.approx(training_losses(single), abs=1e-4)


@pytest.mark.slow
def test_fsdp_trains_like_one_process(
    train_in_subprocess, without_dropout: Path, tmp_path: Path
) -> None:
    """Sharded weights are gathered for checkpoints, validations and the final model."""
    overrides = (
        "train.processes=2",
        "train.fsdp=true",
        "checkpoints.final_weights=ema",
        *WITHOUT_DROPOUT,
    )
    done = train_in_subprocess(tmp_path / "run", *overrides)
    assert done.returncode == 0, done.stderr
    assert training_losses(tmp_path / "run") == pytest.approx(
        training_losses(without_dropout), abs=1e-4
    )
    last = "checkpoints/000000050"
    for name in ("model", "optimizer", "ema"):
        ours, theirs = (
            load(directory / last / name) for directory in (tmp_path / "run", without_dropout)
        )
        assert {k: t.shape for k, t in ours.items()} == {k: t.shape for k, t in theirs.items()}
    assert validation_losses(tmp_path / "run") == pytest.approx(
        validation_losses(without_dropout), abs=1e-3
    )


def load(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path.with_suffix(".safetensors"))


MISTAKES = {  # overrides, message and exit status: 2 for an invalid recipe
    "no file": (["data.valid.files=['none.tsv']"], "none.tsv cannot be read: No such file", 1),
    "an empty file": (
        ["data.valid.files=['empty.tsv']"],
        "empty.tsv has no pair with text on both sides",
        1,
    ),
    "no usable pair": (
        ["data.valid.files=['long.tsv']"],
        "long.tsv has no usable pair: all are empty or longer than batches.max_length",
        1,
    ),
    "an unknown key": (["train.udpates=3"], "a setting; did you mean `train.max_updates`?", 2),
    "too many pieces": (["tokenizer.vocab_size=5000"], "`vocab_size` must be at most 2", 2),
    "no override": (["updates"], "`updates` must be section.key=value", 2),
    "swapped sides": (
        ["data.languages=['en','de']", "data.valid.files=['a.de','a.en']"],
        "source and target of a.de and a.en seem to be swapped: the source language is en",
        1,
    ),
    "no model": (["train.init_from=none"], "none` does not exist: give a model", 1),
    "no teacher": (
        ["loss.distillation_weight=0.5"],
        "`loss.teacher` must be given if and only if",
        2,
    ),
    "FSDP in one process": (["train.fsdp=true"], "`train.processes` must be at least 2 with", 2),
}


@pytest.mark.parametrize(("overrides", "message", "status"), MISTAKES.values(), ids=MISTAKES)
def test_user_error_is_one_line(
    tiny_recipe: Path,
    tmp_path: Path,
    overrides: list[str],
    message: str,
    status: int,
    monkeypatch,
    capsys,
) -> None:
    """The error is raised before anything is written."""
    long = " ".join(["1"] * 40)
    texts = {"empty.tsv": "", "a.de": "1\n", "a.en": "1\n", "long.tsv": f"{long}\t{long}\n"}
    for name, text in texts.items():
        (tiny_recipe.parent / name).write_text(text, "utf-8")
    argv = ["seq2see", "train", str(tiny_recipe), "-o", str(tmp_path / "run"), *overrides]
    monkeypatch.chdir(tiny_recipe.parent)
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == status
    stderr = capsys.readouterr().err
    assert message in stderr
    assert len(stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
