"""Names of the rules that a sentence pair must satisfy, and their settings."""

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
MAX_IDENTICAL_WORDS = 4
"""Maximum number of words that source and target may have if they are identical, as names and
numbers are. A sentence of three words or more with a full stop may not be identical."""


class QualityConfig(Config):
    """Rules for removing pairs, and settings of the analysis."""

    clean_rules: tuple[RuleName, ...] = Field(default=RULES[:-1], strict=False)
    """Rules whose pairs are removed when cleaning. By default all but `number_mismatch`, because
    units and times may differ in correct translations."""
    max_words: int = Field(default=250, ge=1)
    """Maximum number of words per side (characters in Chinese and similar scripts)."""
    num_examples: int = Field(default=5, ge=0)
    """Number of example pairs per finding."""
