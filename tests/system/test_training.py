"""`seq2see train` as a person uses it: it ends with a translator, and says what is wrong."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from seq2see import cli
from seq2see.bundle import Bundle
from seq2see.bundle.files import RUN_FILE
from seq2see.cli.train import _prepared
from seq2see.errors import ConfigError, InputError, TrainingError
from seq2see.settings import Recipe
from seq2see.training import planning, run_directory
from seq2see.training.run_directory import RunDirectory
from seq2see.training.train import prepare_run
from seq2see.training.training_log import read_training_log
from seq2see.training.workers import torchrun_agent_id

STILL = (
    "model.dropout.residual=0.0",
    "model.dropout.embedding=0.0",
    "batches.subword_dropout=0.0",
    "train.max_updates=50",
)


def curve(folder: Path) -> list[float]:
    """Return the loss of every ten updates."""
    return [r["loss"] for r in read_training_log(folder / "log.jsonl") if r["kind"] == "train"]


def looks(folder: Path) -> list[float]:
    """Return the loss of each validation."""
    return [r["nll"] for r in read_training_log(folder / "log.jsonl") if r["kind"] == "validation"]


@pytest.fixture(scope="module")
def still(train_here, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a run without anything random but its order, in one process."""
    return train_here(tmp_path_factory.mktemp("still") / "run", *STILL)


def test_it_ends_with_a_translator(train_apart, tmp_path: Path) -> None:
    done = train_apart(tmp_path / "run", "train.tensorboard=true")
    assert done.returncode == 0, done.stderr
    beginning, *_ = done.stderr.splitlines()
    assert beginning.startswith("Training to update 24, about ")
    assert beginning.endswith(" with all validations; 1 process with 1 thread.")
    assert "update 12, epoch 1: nll" in done.stderr
    bundle = Bundle.load(tmp_path / "run")
    assert bundle.provenance.updates == 24
    assert {score.metric for score in bundle.provenance.scores} == {"BLEU", "chrF2"}
    assert bundle.provenance.notes["stop_rule"] in {"exact", "beam_full"}
    assert len((tmp_path / "run/probes.txt").read_text("utf-8").splitlines()) == 20  # all of it
    records = list(read_training_log(tmp_path / "run/log.jsonl"))
    assert [r["update"] for r in records if r["kind"] == "validation"] == [12, 24]
    assert (tmp_path / "run/curves.png").read_bytes().startswith(b"\x89PNG")
    assert [*(tmp_path / "run/tensorboard").iterdir()]


def test_it_says_what_of_the_text_is_left_out(tiny_recipe: Path, tmp_path: Path, capsys) -> None:
    recipe = Recipe.read(tiny_recipe, ["batches.max_length=7"])
    _prepared(recipe.build_run_config(tiny_recipe.parent), RunDirectory(tmp_path), resume=False)
    train, valid = capsys.readouterr().err.splitlines()
    assert train.startswith("builtin:reverse: ")
    assert valid.startswith("valid.tsv, in its loss alone: ")
    assert all(" skipped: " in line for line in (train, valid))


@pytest.mark.parametrize(("wanted", "count"), [(None, 1), (2, 2)])
def test_batch_norm_takes_one_process_or_is_told(
    tiny_recipe: Path, tmp_path: Path, monkeypatch, wanted: int | None, count: int
) -> None:
    monkeypatch.setattr(planning, "count_available_cores", lambda: 4)
    settings = Recipe.read(tiny_recipe, ["batches.max_tokens=8192", "model.norm.kind=batch"])
    training = settings.train.replace(processes=wanted)
    recipe = settings.replace(train=training.model_dump())
    prepared = prepare_run(
        recipe.build_run_config(tiny_recipe.parent), RunDirectory(tmp_path), resume=False
    )
    assert prepared.processes == count
    assert [note[:35] for note in prepared.notes] == ["Batch norm is over the share of eac"] * (
        count - 1
    )


def test_a_folder_has_one_run(train_here, undisturbed: Path) -> None:
    with pytest.raises(InputError, match="has a run already: go on with --resume, or name another"):
        train_here(undisturbed)


@pytest.mark.parametrize("name", ["checkpoints", "config.json"])
def test_what_is_no_run_is_not_written_over(train_here, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / "tokenizer.model").write_bytes(b"theirs")
    for resume in (False, True):
        with pytest.raises(InputError, match=f"has {name}, but no run.json: it is not the folder"):
            train_here(tmp_path, resume=resume)
    assert (tmp_path / "tokenizer.model").read_bytes() == b"theirs"


def test_a_run_of_an_earlier_version_goes_on(train_here, undisturbed: Path, tmp_path: Path) -> None:
    """It was begun when there were no `train.fsdp` and no `loss.teacher`."""
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    content = json.loads((folder / RUN_FILE).read_text("utf-8"))
    assert content["recipe"]["loss"].pop("teacher", "there") is None
    assert content["recipe"]["train"].pop("fsdp") is False
    assert content.pop("models") == {}
    assert content.pop("corpora").keys() == {"valid.tsv (data.valid)"}
    content["plan"] = {key: content["plan"][key] for key in ("num_updates", "processes", "threads")}
    (folder / RUN_FILE).write_text(json.dumps(content), "utf-8")
    train_here(folder, resume=True)
    with pytest.raises(ConfigError, match="as it began, but `train.fsdp` was false and is tr"):
        train_here(folder, "train.fsdp=true", "train.processes=2", resume=True)


def test_a_changed_text_is_refused(
    train_here, tiny_recipe: Path, undisturbed: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    text = tiny_recipe.with_name("valid.tsv")
    before = text.read_bytes()
    text.write_bytes(before + b"1 2\t2 1\n")
    try:
        with pytest.raises(InputError, match="the text of valid.tsv .data.valid. is another now"):
            train_here(folder, resume=True)
    finally:
        text.write_bytes(before)


def test_a_folder_has_one_run_at_a_time(
    train_here, undisturbed: Path, tmp_path: Path, monkeypatch
) -> None:
    """Workers whose agent was killed may be about to save when another goes on with their run."""
    monkeypatch.setattr(run_directory, "LOCK_TIMEOUT", 0.1)
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    with (
        RunDirectory(folder).lock(),
        pytest.raises(InputError, match="another run is at work in .*run: wait until it has ended"),
    ):
        train_here(folder, resume=True)
    train_here(folder, resume=True)


@pytest.mark.parametrize("count", ["0", "1"])
def test_a_restart_is_no_leave_to_go_on_with_the_run_of_another(
    train_here, undisturbed: Path, monkeypatch, count: str
) -> None:
    """torchrun starts what has failed again; a folder that was refused is refused once more."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
    with pytest.raises(TrainingError, match="has a run already"):
        train_here(undisturbed)


@pytest.mark.parametrize("count", ["0", "1"])
def test_a_restart_goes_on_with_its_own_run(
    train_here, undisturbed: Path, tmp_path: Path, monkeypatch, count: str
) -> None:
    """Of several agents, one that lost no worker starts its own again without counting."""
    folder = shutil.copytree(undisturbed, tmp_path / "run")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
    content = json.loads((folder / RUN_FILE).read_text("utf-8"))
    (folder / RUN_FILE).write_text(
        json.dumps({**content, "agents": [torchrun_agent_id()]}), "utf-8"
    )
    train_here(folder)
    with pytest.raises(ConfigError, match="`train.threads` was 1 and is 2"):
        train_here(folder, "train.threads=2")


def test_a_tag_that_the_first_model_does_not_know_is_refused(
    train_here, undisturbed: Path, tmp_path: Path
) -> None:
    """Of the recipe's own tokenizer it is a symbol, but fine-tuning has that of the model."""
    changes = (
        "data.train=[{files=['valid.tsv'], tag='<bt>'}]",
        "tokenizer.user_defined_symbols=['<bt>']",
    )
    with pytest.raises(ConfigError, match="`tag` must be a symbol of the tokenizer .none., but is"):
        train_here(tmp_path / "run", *changes, f"train.init_from={undisturbed}")
    assert not (tmp_path / "run").exists()


def test_two_processes_learn_as_one_does(train_apart, still: Path, tmp_path: Path) -> None:
    done = train_apart(tmp_path / "two", "train.processes=2", *STILL)
    assert done.returncode == 0, done.stderr
    assert "2 processes with 1 thread each" in done.stderr
    assert curve(tmp_path / "two") == pytest.approx(curve(still), abs=1e-4)


@pytest.mark.slow
def test_two_processes_share_the_matrices(train_apart, train_here, tmp_path: Path) -> None:
    """Muon lets each worker make its part of them orthogonal."""
    long = ("optimizer.kind=muon", *STILL)
    alone = train_here(tmp_path / "one", *long)
    done = train_apart(tmp_path / "two", "train.processes=2", *long)
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "two") == pytest.approx(curve(alone), abs=1e-4)


@pytest.mark.slow
def test_three_processes_sum_batches_up_as_one_does(
    train_apart, train_here, tmp_path: Path
) -> None:
    long = ("train.batches_per_update=2", *STILL)
    alone = train_here(tmp_path / "one", *long)
    done = train_apart(tmp_path / "three", "train.processes=3", *long)
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "three") == pytest.approx(curve(alone), abs=1e-4)


@pytest.mark.slow
def test_shared_out_weights_learn_as_whole_ones_do(
    train_apart, still: Path, tmp_path: Path
) -> None:
    """They are put together for checkpoints, validations and the result."""
    changes = ("train.processes=2", "train.fsdp=true", "checkpoints.final_weights=ema", *STILL)
    done = train_apart(tmp_path / "run", *changes)
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "run") == pytest.approx(curve(still), abs=1e-4)
    last = "checkpoints/000000050"
    for name in ("model", "optimizer", "ema"):
        ours, theirs = (load(folder / last / name) for folder in (tmp_path / "run", still))
        assert {k: t.shape for k, t in ours.items()} == {k: t.shape for k, t in theirs.items()}
    assert looks(tmp_path / "run") == pytest.approx(looks(still), abs=1e-3)


def load(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path.with_suffix(".safetensors"))


MISTAKES = {  # with the exit status: 2 where the recipe itself cannot be
    "no file": (["data.valid.files=['none.tsv']"], "none.tsv cannot be read: No such file", 1),
    "an empty file": (
        ["data.valid.files=['empty.tsv']"],
        "empty.tsv has no pair with text on both sides",
        1,
    ),
    "nothing that fits": (
        ["data.valid.files=['long.tsv']"],
        "long.tsv must have pairs of text, but has none that fits batches.max_length",
        1,
    ),
    "an unknown key": (["train.udpates=3"], "a setting; did you mean `train.max_updates`?", 2),
    "too many pieces": (["tokenizer.vocab_size=5000"], "`vocab_size` must be at most 2", 2),
    "no change": (["updates"], "`updates` must be section.key=value", 2),
    "swapped sides": (
        ["data.languages=['en','de']", "data.valid.files=['a.de','a.en']"],
        "source and target of a.de and a.en seem to be swapped: the source language is en",
        1,
    ),
    "no model": (["train.init_from=none"], "none` does not exist: give a model", 1),
    "no teacher": (["loss.distillation_weight=0.5"], "`loss.teacher` must be given with", 2),
    "shares for one": (["train.fsdp=true"], "`train.processes` must be at least 2 with", 2),
}


@pytest.mark.parametrize(("changes", "words", "status"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    tiny_recipe: Path,
    tmp_path: Path,
    changes: list[str],
    words: str,
    status: int,
    monkeypatch,
    capsys,
) -> None:
    """It comes before anything is written."""
    long = " ".join(["1"] * 40)
    texts = {"empty.tsv": "", "a.de": "1\n", "a.en": "1\n", "long.tsv": f"{long}\t{long}\n"}
    for name, text in texts.items():
        (tiny_recipe.parent / name).write_text(text, "utf-8")
    argv = ["seq2see", "train", str(tiny_recipe), "-o", str(tmp_path / "run"), *changes]
    monkeypatch.setattr(sys, "argv", argv)
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    assert exit_.value.code == status
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
