"""Digit tasks: correct targets, distinct sources, disjoint splits, reproducible data."""

from __future__ import annotations

import hashlib

import pytest

from seq2see.data import digit_tasks
from seq2see.data.readers import SplitName
from seq2see.errors import InputError

TASKS = ("copy", "reverse", "sort")
SPLITS = ("train", "valid", "test")


@pytest.mark.parametrize("split", SPLITS)
def test_targets_are_correct(split: SplitName) -> None:
    for source, target in digit_tasks.load_digit_pairs("copy", split):
        assert source == target
    for source, target in digit_tasks.load_digit_pairs("reverse", split):
        assert target.split() == list(reversed(source.split()))
    for source, target in digit_tasks.load_digit_pairs("sort", split):
        assert target.split() == sorted(source.split())


def test_sources_have_all_lengths_and_digits() -> None:
    sources = [source.split(" ") for source, _ in digit_tasks.load_digit_pairs("copy", "train")]
    assert {len(source) for source in sources} == set(range(1, 13))
    assert {digit for source in sources for digit in source} == set("0123456789")


@pytest.mark.parametrize("max_digits", [5, 12, 20])
def test_sources_are_distinct(max_digits: int) -> None:
    sources = [
        s for split in SPLITS for s, _ in digit_tasks.load_digit_pairs("sort", split, max_digits)
    ]
    assert len(sources) == len(set(sources)) == 22_000
    assert max(len(source.split()) for source in sources) == max_digits


def test_all_tasks_have_the_same_sources() -> None:
    columns = [[s for s, _ in digit_tasks.load_digit_pairs(task, "test")] for task in TASKS]
    assert columns[0] == columns[1] == columns[2]


def test_data_does_not_change() -> None:
    text = "\n".join("\t".join(pair) for pair in digit_tasks.load_digit_pairs("reverse", "train"))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "f6cff901d06bdff8"


def test_too_small_max_digits_is_rejected() -> None:
    with pytest.raises(InputError, match="at least 5"):
        digit_tasks.load_digit_pairs("copy", "train", max_digits=4)
