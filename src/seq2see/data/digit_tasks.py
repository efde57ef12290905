"""Tasks on sequences of digits: copy, reverse and sort."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise
from random import Random
from typing import Literal

from seq2see.data.readers import SentencePair, SplitName
from seq2see.errors import InputError

DigitTask = Literal["copy", "reverse", "sort"]

SPLIT_SIZES: dict[SplitName, int] = {"test": 1000, "valid": 1000, "train": 20_000}
SEED = 1312
_MIN_MAX_DIGITS = 5
"""Shorter sequences would be too few for the splits."""


def load_digit_pairs(task: DigitTask, split: SplitName, max_digits: int = 12) -> list[SentencePair]:
    """Return pairs of source and target, both digits separated by spaces.

    The sources have 1 to `max_digits` digits, with all lengths equally frequent as far as possible.
    They are the same for all tasks, distinct, and in one split each. Raises InputError if
    `max_digits` is below 5.
    """
    if max_digits < _MIN_MAX_DIGITS:
        raise InputError(
            f"`max_digits` must be at least {_MIN_MAX_DIGITS}, but is {max_digits} instead"
        )
    sources = _generate_sources(max_digits)[split]
    return [SentencePair(" ".join(digits), " ".join(_solve(task, digits))) for digits in sources]


def _solve(task: DigitTask, digits: str) -> str:
    if task == "copy":
        return digits
    return digits[::-1] if task == "reverse" else "".join(sorted(digits))


@cache
def _generate_sources(max_digits: int) -> dict[SplitName, tuple[str, ...]]:
    rng, seen = Random(SEED), set[str]()  # noqa: S311 - not used for security
    sources: list[str] = []
    while len(sources) < sum(SPLIT_SIZES.values()):
        length = 1 + rng.randrange(max_digits)
        digits = "".join(str(rng.randrange(10)) for _ in range(length))
        if digits not in seen:
            seen.add(digits)
            sources.append(digits)
    rng.shuffle(sources)  # the few short sequences are all at the start
    bounds = list(accumulate(SPLIT_SIZES.values(), initial=0))
    ranges = zip(SPLIT_SIZES, pairwise(bounds), strict=True)
    return {split: tuple(sources[start:end]) for split, (start, end) in ranges}
