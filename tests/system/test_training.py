"""`seq2see train` as a person uses it: it ends with a translator, and goes on after any stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.torch import load_file

from seq2see.bundle import Bundle
from seq2see.training.log import read_log

RECIPE = """
[data]
languages = ["xx", "yy"]
train = [{files = ["builtin:reverse"]}]
valid = {files = ["builtin:reverse/valid"]}
[tokenizer]
vocab_size = 275
[batches]
tokens = 512
max_length = 32
subword_dropout = 0.1
[train]
updates = 24
processes = 1
[schedule]
peak = 0.003
warmup = 10
[validation]
every = 12
sentences = 20
[checkpoints]
every = 4
keep = 2
ema = 0.9
[model]
preset = "tiny"
d_model = 32
d_ff = 32
encoder_layers = 1
decoder_layers = 1
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "reverse.toml"
    path.write_text(RECIPE, "utf-8")
    return path


def train(recipe: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        _command(recipe, folder, *more), check=False, capture_output=True, text=True, timeout=300
    )


def _command(recipe: Path, folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "seq2see", "train", str(recipe), "-o", str(folder), *more]


def killed(recipe: Path, folder: Path, number: int, after: int, *more: str) -> int:
    """Start a run, and send it a signal once it has this checkpoint; return how it ended."""
    process = subprocess.Popen(
        _command(recipe, folder, *more), stderr=subprocess.PIPE, start_new_session=True
    )
    target = folder / "checkpoints" / f"{after:09d}"
    for _ in range(3000):
        if target.exists() or process.poll() is not None:
            break
        time.sleep(0.02)
    if process.poll() is None:
        os.killpg(process.pid, number)
    process.communicate(timeout=120)
    return process.returncode


def test_it_ends_with_a_translator(recipe: Path, tmp_path: Path) -> None:
    done = train(recipe, tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "update 12, epoch 1: nll" in done.stderr
    bundle = Bundle.load(tmp_path / "run")
    assert bundle.origin.updates == 24
    assert {score.metric for score in bundle.origin.scores} == {"BLEU", "chrF2"}
    records = list(read_log(tmp_path / "run/log.jsonl"))
    assert [r["update"] for r in records if r["kind"] == "validation"] == [12, 24]
    again = train(recipe, tmp_path / "run")
    assert again.returncode == 1
    assert "has a run already: go on with --resume, or name another folder" in again.stderr


@pytest.mark.parametrize("processes", [1, 2])
def test_killed_and_resumed_it_is_the_same_to_the_bit(
    recipe: Path, tmp_path: Path, processes: int
) -> None:
    setting = f"train.processes={processes}"
    undisturbed, disturbed = tmp_path / "a", tmp_path / "b"
    assert train(recipe, undisturbed, setting).returncode == 0
    assert killed(recipe, disturbed, signal.SIGKILL, 8, setting) < 0
    assert killed(recipe, disturbed, signal.SIGKILL, 16, setting, "--resume") < 0
    done = train(recipe, disturbed, setting, "--resume")
    assert done.returncode == 0, done.stderr
    for name in ("model", "optimiser", "average"):
        file = f"checkpoints/000000024/{name}.safetensors"
        ours, theirs = load_file(undisturbed / file), load_file(disturbed / file)
        assert ours.keys() == theirs.keys()
        assert all(ours[key].equal(theirs[key]) for key in ours)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves(recipe: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "run"
    assert killed(recipe, folder, number, 4, "train.updates=100000") == 1
    last = max(int(path.name) for path in (folder / "checkpoints").iterdir())
    assert last >= 4
    done = train(recipe, folder, "train.updates=100000", "--resume", "train.seed=2")
    assert done.returncode == 1
    assert "`train.seed` was 1 and is 2" in done.stderr


def test_two_processes_learn_as_one_does(recipe: Path, tmp_path: Path) -> None:
    still = [
        "model.dropout.residual=0.0",
        "model.dropout.embedding=0.0",
        "batches.subword_dropout=0.0",
    ]
    curves = []
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        done = train(recipe, folder, f"train.processes={processes}", *still)
        assert done.returncode == 0, done.stderr
        records = read_log(folder / "log.jsonl")
        curves.append([r["loss"] for r in records if r["kind"] == "train"])
    assert curves[0] == pytest.approx(curves[1], abs=1e-4)


MISTAKES = {
    "no file": (["data.valid.files=['none.tsv']"], "none.tsv cannot be read: No such file"),
    "an unknown key": (["train.udpates=3"], "`train.udpates` is not a setting; did you mean"),
    "too many pieces": (["tokenizer.vocab_size=5000"], "vocab"),
    "no change": (["updates"], "`updates` must be section.key=value"),
}


@pytest.mark.parametrize(("changes", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(
    recipe: Path, tmp_path: Path, changes: list[str], words: str
) -> None:
    done = train(recipe, tmp_path / "run", *changes)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "run" / "run.json").exists()
