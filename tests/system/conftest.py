"""Runs so small that a test can wait for them, in this process or in one of their own; a model that
has learnt nothing, and the command as a person types it."""

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
from seq2see.cli.train import train_from_recipe
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
    """Give a function that trains in this process, with changes of the recipe."""
    threads = torch.get_num_threads()

    def train(folder: Path, *changes: str, resume: bool = False, model: dict | None = None) -> Path:
        recipe = Recipe.read(tiny_recipe, changes)
        if model:
            recipe = Recipe(**{**recipe.model_dump(mode="json"), "model": model})
        train_from_recipe(recipe, tiny_recipe.parent, folder, resume)
        return folder

    yield train
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def undisturbed(train_here: Train, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of a run that nobody stopped."""
    return train_here(tmp_path_factory.mktemp("undisturbed") / "run")


@pytest.fixture(scope="session")
def command(tiny_recipe: Path) -> Command:
    """Give a function that returns the command of a run."""

    def build(folder: Path, *more: str) -> list[str]:
        start = [sys.executable, "-m", "seq2see", "train", str(tiny_recipe)]
        return [*start, "-o", str(folder), *more]

    return build


@pytest.fixture(scope="session")
def train_apart(command: Command) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give a function that trains in a process of its own, as a person does."""

    def train(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(folder, *more), check=False, capture_output=True, text=True, timeout=600
        )

    return train


class Done(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learnt nothing, and answers at once."""
    torch.manual_seed(7)
    cases = fables.load_fables("valid", short=True)[:400]
    sides = [case.source for case in cases], [case.target for case in cases]
    tokenizers = TokenizerPair.train(*sides, TokenizerConfig(vocab_size=400))
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    folder = tmp_path_factory.mktemp("model")
    Bundle(config, tokenizers, ("en", "fr"), weights, max_length=40).save(folder)
    return folder


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """Run the command in this process, which has torch already."""

    def run(*arguments: str | Path, stdin: bytes = b"") -> Done:
        monkeypatch.setattr(sys, "argv", ["seq2see", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return Done(int(end.value.code or 0), out, err)

    yield run
    gc.unfreeze()  # a command takes what it has loaded from the collector, and then ends
