"""Names of the rules that a sentence pair must satisfy, and their limits."""

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
"""In the order in which they are checked: a pair counts for the first rule that it violates."""


class QualityConfig(Config):
    """Rules for removing pairs, and their limits."""

    clean_rules: tuple[RuleName, ...] = Field(default=RULES[:-1], strict=False)
    """Rules whose pairs are removed when cleaning. By default all but `number_mismatch`, because
    units and times may differ in correct translations."""
    max_words: int = Field(default=250, ge=1)
    """Maximum number of words per side (characters in Chinese and similar scripts)."""
    max_identical_words: int = Field(default=4, ge=1)
    """Maximum number of words that source and target may have if they are identical, as names and
    numbers are. A sentence of three words or more with a full stop may not be identical."""
    max_ratio_deviation: float = Field(default=6.0, gt=0)
    """Maximum deviation of the length of a target from its expected length, in units of the
    spread of the corpus."""
    misalignment_threshold: float = Field(default=10.0, gt=0)
    """Evidence of the words against a pair, in nats, from which it is reported as misaligned. The
    value 10 finds nine in ten random pairs, and one in a thousand correct pairs."""
    max_line_shift: int = Field(default=5, ge=1, le=100)
    """Maximum number of lines by which targets may be shifted to be found."""
    min_language_words: int = Field(default=5, ge=2)
    """Minimum number of words of a line whose language is checked."""
    max_sample_pairs: int = Field(default=100_000, ge=2)
    """Maximum number of pairs, evenly sampled, that statistical models are fitted to."""
    num_examples: int = Field(default=5, ge=0)
    """Number of example pairs per finding."""
