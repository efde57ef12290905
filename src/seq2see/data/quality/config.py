"""Rules that a pair of sentences must satisfy, and their limits."""

from __future__ import annotations

from typing import Literal, get_args

from pydantic import Field

from seq2see.config import Config

RuleName = Literal[
    "empty",
    "broken_encoding",
    "too_long",
    "unmatched_markup",
    "identical",
    "duplicate",
    "in_test_set",
    "shifted",
    "swapped",
    "wrong_language",
    "length_ratio",
    "misaligned",
    "number_mismatch",
]


RULES: tuple[RuleName, ...] = get_args(RuleName)
"""In the order in which a pair is judged: it is counted under the first that it breaks."""


class QualityConfig(Config):
    """The limits of a healthy pair."""

    clean_rules: tuple[RuleName, ...] = Field(default=RULES[:-1], strict=False)
    """What cleaning removes. `numbers` is not among it: units and times differ by right."""
    max_words: int = Field(default=250, ge=1)
    """A side with more words (in Chinese and its like: characters) is too long."""
    max_identical_words: int = Field(default=4, ge=1)
    """Source and target may be the same up to so many words: names, numbers, "OK"; but no whole
    sentence may, of three words and a full stop."""
    max_ratio_deviation: float = Field(default=6.0, gt=0)
    """How many times the corpus' own spread a target may be longer or shorter than expected."""
    misalignment_threshold: float = Field(default=10.0, gt=0)
    """How much its words must speak against a pair, in nats, for it to be probably misaligned.
    Of pairs drawn at random, 10 finds nine in ten; of good ones, it takes one in a thousand."""
    max_line_shift: int = Field(default=5, ge=1, le=100)
    """Look for targets that stand at most so many lines too early or too late."""
    min_language_words: int = Field(default=5, ge=2)
    """A line with fewer words is too short for telling its language."""
    max_sample_pairs: int = Field(default=100_000, ge=2)
    """Learn what is usual from at most so many pairs, drawn evenly from all."""
    num_examples: int = Field(default=5, ge=0)
    """Show so many pairs for each finding."""
