"""Copy, reverse and sort are learned with their recipes, to the bounds of Sockeye's tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from seq2see.cli.training_run import train_from_recipe
from seq2see.data import digit_tasks
from seq2see.settings import Recipe
from seq2see.training.training_log import read_training_log

RECIPES = Path(__file__).parents[2] / "recipes"
IN_PROCESS = ("train.processes=1", "train.tensorboard=false")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def train_task(task: str, directory: Path, *overrides: str) -> tuple[float, float]:
    """Train with a recipe; return perplexity and BLEU of the last evaluation set."""
    recipe = Recipe.read(RECIPES / f"{task}.toml", [*IN_PROCESS, *overrides])
    assert recipe.loss.label_smoothing == 0
    train_from_recipe(recipe, RECIPES, directory)
    result = [r for r in read_training_log(directory / "log.jsonl") if r["kind"] == "result"][-1]
    return math.exp(result["nll"]), result["bleu"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "max_perplexity", "min_bleu"),
    [("copy", 1.02, 98), ("sort", 1.03, 97), ("reverse", 1.03, 97)],
)
def test_digit_task_is_learned(
    task: str, max_perplexity: float, min_bleu: float, tmp_path: Path
) -> None:
    perplexity, bleu = train_task(task, tmp_path / "run")
    assert perplexity <= max_perplexity
    assert bleu >= min_bleu


def test_copying_is_partly_learned(tmp_path: Path) -> None:
    """A short form: guessing digits has a perplexity above 3, as every other token is a space."""
    evaluation_set = tmp_path / "evaluation.tsv"
    pairs = digit_tasks.load_digit_pairs("copy", "valid")[:100]
    evaluation_set.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), "utf-8")
    files = [f"data.{split}.files=['{evaluation_set}']" for split in ("valid", "test")]
    short = ("train.max_updates=250", "schedule.warmup_updates=100", "batches.max_tokens=1024")
    perplexity, _ = train_task("copy", tmp_path / "run", *files, *short)
    assert perplexity <= 1.8
