"""Tasks on sequences of digits: copy, reverse and sort."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise
from random import Random
from typing import Literal

from seq2see.errors import InputError

DigitTask = Literal["copy", "reverse", "sort"]


SplitName = Literal["train", "valid", "test"]


SPLIT_SIZES: dict[SplitName, int] = {"test": 1000, "valid": 1000, "train": 20_000}


SEED = 1312


def load_digit_pairs(
    task: DigitTask, split: SplitName, max_digits: int = 12
) -> list[tuple[str, str]]:
    """Return pairs of a source and its target, both digits with spaces between them.

    The sources have 1 to `longest` digits, each length as often as it can; they are the same for
    all tasks, all distinct, and no split has one of another.
    """
    if max_digits < 5:
        raise InputError(f"`max_digits` must be at least 5, but is {max_digits} instead")
    return [
        (" ".join(digits), " ".join(_solved(task, digits))) for digits in _drawn(max_digits)[split]
    ]


def _solved(task: DigitTask, digits: str) -> str:
    if task == "copy":
        return digits
    return digits[::-1] if task == "reverse" else "".join(sorted(digits))


@cache
def _drawn(longest: int) -> dict[SplitName, tuple[str, ...]]:
    rng, seen = Random(SEED), set[str]()  # noqa: S311 - exercises, no secrets
    drawn: list[str] = []
    while len(drawn) < sum(SPLIT_SIZES.values()):
        length = 1 + rng.randrange(longest)
        digits = "".join(str(rng.randrange(10)) for _ in range(length))
        if digits not in seen:
            seen.add(digits)
            drawn.append(digits)
    rng.shuffle(drawn)  # there are few short ones, and all of them come early
    ends = list(accumulate(SPLIT_SIZES.values(), initial=0))
    parts = zip(SPLIT_SIZES, pairwise(ends), strict=True)
    return {split: tuple(drawn[start:end]) for split, (start, end) in parts}
