"""Fixtures: tiny training runs in this process or in a separate one, an untrained model, and the
command line."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from seq2see.bundle import Bundle
from seq2see.cli import main
from seq2see.cli.training_run import train_from_recipe
from seq2see.data import digit_tasks, fables
from seq2see.model import ModelConfig, Transformer
from seq2see.settings import Recipe
from seq2see.text import TokenizerConfig, TokenizerPair

RECIPE = """
[data]
languages = ["xx", "yy"]
train = [{files = ["builtin:reverse"]}]
valid = {files = ["valid.tsv"]}
[tokenizer]
vocab_size = 275
[batches]
max_tokens = 512
max_length = 32
subword_dropout = 0.1
[train]
max_updates = 24
processes = 1
threads = 1
tensorboard = false
[schedule]
peak_lr = 0.003
warmup_updates = 10
[validation]
interval = 12
max_sentences = 20
[checkpoints]
interval = 4
keep_last = 2
ema_decay = 0.9
[model]
preset = "tiny"
d_model = 32
d_ff = 32
encoder_layers = 1
decoder_layers = 1
"""

Train = Callable[..., Path]
Command = Callable[..., list[str]]


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "reverse.toml"
    path.write_text(RECIPE, "utf-8")
    pairs = digit_tasks.load_digit_pairs("reverse", "valid")[:20]
    lines = [f"{source}\t{target}\n" for source, target in pairs]
    path.with_name("valid.tsv").write_text("".join(lines), "utf-8")
    return path


@pytest.fixture(scope="session")
def train_here(tiny_recipe: Path) -> Iterator[Train]:
    """Return a function that trains in this process, with overrides of the recipe."""
    threads = torch.get_num_threads()

    def train(
        directory: Path, *overrides: str, resume: bool = False, model: dict | None = None
    ) -> Path:
        recipe = Recipe.read(tiny_recipe, overrides)
        if model:
            recipe = Recipe(**{**recipe.model_dump(mode="json"), "model": model})
        train_from_recipe(recipe, tiny_recipe.parent, directory, resume)
        return directory

    yield train
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def uninterrupted(train_here: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a run that was not interrupted."""
    return train_here(tmp_path_factory.mktemp("uninterrupted") / "run")


@pytest.fixture(scope="session")
def command(tiny_recipe: Path) -> Command:
    """Return a function that builds the command of a run."""

    def build(directory: Path, *arguments: str) -> list[str]:
        start = [sys.executable, "-m", "seq2see", "train", str(tiny_recipe)]
        return [*start, "-o", str(directory), *arguments]

    return build


@pytest.fixture(scope="session")
def train_in_subprocess(command: Command) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that trains in a separate process with the command."""

    def train(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(directory, *arguments), check=False, capture_output=True, text=True, timeout=600
        )

    return train


class CommandResult(NamedTuple):
    """Exit status and output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a small untrained model."""
    torch.manual_seed(7)
    cases = fables.load_fables_split("valid", short=True)[:400]
    sides = [case.source for case in cases], [case.target for case in cases]
    tokenizers = TokenizerPair.train(*sides, TokenizerConfig(vocab_size=400))
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    directory = tmp_path_factory.mktemp("model")
    Bundle(config, tokenizers, ("en", "fr"), weights, max_length=40).save(directory)
    return directory


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., CommandResult]]:
    """Return a function that runs the command in this process, where torch is already imported."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> CommandResult:
        monkeypatch.setattr(sys, "argv", ["seq2see", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return CommandResult(int(end.value.code or 0), out, err)

    yield run
    gc.unfreeze()  # a command freezes its objects in the garbage collector
