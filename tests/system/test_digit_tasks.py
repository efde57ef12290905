"""Copy, reverse and sort are learnt from their recipes, to the bounds that Sockeye's tests use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from seq2see.cli.train import train_from_recipe
from seq2see.data import digit_tasks
from seq2see.settings import Recipe
from seq2see.training.training_log import read_training_log

RECIPES = Path(__file__).parents[2] / "recipes"
HERE = ("train.processes=1", "train.tensorboard=false")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def learn(task: str, folder: Path, *changes: str) -> tuple[float, float]:
    """Train by a recipe; return perplexity and BLEU of what was held out, by beam search."""
    recipe = Recipe.read(RECIPES / f"{task}.toml", [*HERE, *changes])
    assert recipe.loss.label_smoothing == 0
    train_from_recipe(recipe, RECIPES, folder)
    result = [r for r in read_training_log(folder / "log.jsonl") if r["kind"] == "result"][-1]
    return math.exp(result["nll"]), result["bleu"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "highest_perplexity", "least_bleu"),
    [("copy", 1.02, 98), ("sort", 1.03, 97), ("reverse", 1.03, 97)],
)
def test_a_task_is_learnt(
    task: str, highest_perplexity: float, least_bleu: float, tmp_path: Path
) -> None:
    perplexity, bleu = learn(task, tmp_path / "run")
    assert perplexity <= highest_perplexity
    assert bleu >= least_bleu


def test_copying_is_begun_to_be_learnt(tmp_path: Path) -> None:
    """The short form. Who guesses digits has a perplexity above 3: every other piece is a space."""
    held_out = tmp_path / "held-out.tsv"
    pairs = digit_tasks.load_digit_pairs("copy", "valid")[:100]
    held_out.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    files = [f"data.{split}.files=['{held_out}']" for split in ("valid", "test")]
    short = ("train.max_updates=250", "schedule.warmup_updates=100", "batches.max_tokens=1024")
    perplexity, _ = learn("copy", tmp_path / "run", *files, *short)
    assert perplexity <= 1.8
