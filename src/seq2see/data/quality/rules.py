"""The rules that decide whether a pair is accepted.

A pair that violates several rules counts for the first one. Analysis and filtering use the same
rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from ftfy import fix_encoding
from ftfy.badness import BADNESS_RE
from pydantic import Field

from seq2see.config import Config
from seq2see.data.formats.column_names import are_column_names
from seq2see.data.quality.statistics_and_models import SIDE_NAMES, CorpusModel
from seq2see.data.quality.translation_lexicon import assign_cross_validation_folds
from seq2see.data.quality.words_and_word_ids import (
    FloatArray,
    compute_match_key,
    extract_words,
    has_letter_or_digit,
    number_word_prefixes,
)
from seq2see.data.readers import PairBlock
from seq2see.text.packed_ids import IntArray, PackedIds

_MAX_RATIO_DEVIATION = 6.0
"""Maximum deviation of the length of a target from its expected length, in units of the spread of
the corpus."""
_MISALIGNMENT_THRESHOLD = 10.0
"""Evidence of the words against a pair, in nats, from which it is reported as misaligned. The value
10 finds nine in ten random pairs, and one in a thousand correct pairs."""
_LOST_CHARACTERS = re.compile(
    "[\ufffd"  # replacement character of a decoder
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls; tabs and line ends are white space
    "\ud800-\udfff\ufffe\uffff]"  # surrogates and noncharacters
)
_POSSIBLE_MOJIBAKE = re.compile("[^\x00-\x7f]{2}|[ÃÂ] ")
"""Matches all text that ftfy can repair; it excludes most lines with single accents, quickly."""
_CLOSING_MARKS = "»”’…"
_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE
)
_CSV_CELL = re.compile(r'"(?:[^"]|"")*"')
_MAX_HEADER_CHARACTERS = 40
_NUMBER = re.compile(r"\d+")
MAX_IDENTICAL_WORDS = 4
"""Maximum number of words that source and target may have if they are identical, as names and
numbers are. A sentence of three words or more with a full stop may not be identical."""
_MIN_SENTENCE_WORDS = 3
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


def encoding_problem(text: str) -> str | None:
    """Return the first character with a wrong encoding, as text for a message, or None."""
    if text.isascii() and text.isprintable():
        return None
    if lost := _LOST_CHARACTERS.search(text):
        return f"U+{ord(lost[0]):04X}"
    if not _POSSIBLE_MOJIBAKE.search(text):
        return None
    for match in BADNESS_RE.finditer(text):
        before = text[: match.start()][-1:]
        is_closed = before.isupper() and match[0][-1] in _CLOSING_MARKS  # "«IRMÃ»" is correct
        if not is_closed and fix_encoding(text) != text:
            return _describe_mojibake(text, match)
    return None


def _describe_mojibake(text: str, match: re.Match[str]) -> str:
    """Return a character near the match as it is and as it was, if it can be decoded alone."""
    start = match.start()
    for first, length in product(range(max(start - 2, 0), start + 2), (4, 3, 2)):
        part = text[first : first + length]
        try:
            original = part.encode("sloppy-windows-1252").decode("utf-8")
        except UnicodeError:
            continue
        if len(original) == 1:
            return f"{part!r} for {original!r}"
    return repr(match[0])


def find_first_unmatched_markup(source: str, target: str) -> str | None:
    """Return an HTML tag or entity that is on one side only, or None."""
    if not any(mark in text for mark in "<&" for text in (source, target)):
        return None
    in_source, in_target = (Counter(_MARKUP.findall(text)) for text in (source, target))
    return next(iter((in_source - in_target) + (in_target - in_source)), None)


def have_no_common_number(source: str, target: str) -> bool:
    """Return whether both sides have numbers, but none that could be the same.

    The comparison is lenient: 10,000 may be 1万, and 2:30 p.m. may be 14 h 30.
    """
    in_source, in_target = _extract_numbers(source), _extract_numbers(target)
    # one may be written as the other: 1980 and 80er, 230 and 2 h 30
    has_common = any(a in b or b in a for a in in_source for b in in_target)
    return bool(in_source and in_target) and not has_common


def _extract_numbers(text: str) -> set[str]:
    """Return the ASCII digits of each number, without trailing zeros."""
    numbers = _NUMBER.findall(text)
    digits = ("".join(str(unicodedata.digit(c, 0)) for c in number) for number in numbers)
    return {number.rstrip("0") for number in digits} - {""}


def _has_leftover_quotes(text: str) -> bool:
    """Return whether a text has the quotes of a CSV cell, or only the first or last of them."""
    text = text.strip()
    if _CSV_CELL.fullmatch(text) and '""' in text[1:-1]:
        return True
    return text.count('"') == 1 and (text.startswith('"') or text.endswith('"'))


class _RuleChecker:
    """Checks the pairs of a block.

    There is a method per rule, with the name of the rule. It returns the reason why the pair with
    an index in the block violates the rule, or "".
    """

    def __init__(self, first_index: int, pairs: PairBlock, model: CorpusModel) -> None:
        self._first_index = first_index
        self._pairs = pairs
        self._sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        self._model = model

    @cached_property
    def _ids(self) -> list[PackedIds]:
        """The word ids of each side. New words get temporary ids, the same on both sides."""
        ids = dict(self._model.vocabulary)
        return [number_word_prefixes(map(extract_words, side), ids) for side in self._sides]

    @cached_property
    def _wrong_languages(self) -> list[tuple[str, str]]:
        """For each pair the wrong language that each side is in, or ""."""
        source, target = (
            self._model.languages.find_wrong_languages(side, self._sides[side], self._ids[side])
            for side in (0, 1)
        )
        return list(zip(source, target, strict=True))

    @cached_property
    def _length_deviations(self) -> FloatArray:
        """By how much each target is longer than expected."""
        lines = slice(self._first_index, self._first_index + len(self._pairs))
        byte_lengths = self._model.statistics.byte_lengths[:, lines]
        return self._model.length_ratio.compute_deviations(*byte_lengths)

    @cached_property
    def misalignment_scores(self) -> FloatArray:
        """The evidence of the words against each pair, in nats; 0 without a lexicon."""
        lexicon = self._model.lexicon
        if lexicon is None:
            return np.zeros(len(self._pairs))
        folds = assign_cross_validation_folds(self._sides[0])
        return -lexicon.score_pairs(self._ids[0], self._ids[1], folds)

    def empty(self, index: int) -> str:
        """A side without words is empty, unless both have only punctuation ("!" and "！")."""
        pair = self._pairs[index]
        has_words = [has_letter_or_digit(text) for text in pair]
        if has_words[0] != has_words[1]:
            return f"the {SIDE_NAMES[has_words.index(False)]} has no words"
        is_blank = not all(text.strip() for text in pair)
        return "both sides have no words" if is_blank and not any(has_words) else ""

    def header(self, index: int) -> str:
        """The first row of a table is not a pair, also inside of tables that were joined."""
        source, target = self._pairs[index]
        is_short = max(len(source), len(target)) <= _MAX_HEADER_CHARACTERS
        # After the first line, two letters are rather words: "it" and "es".
        may_be_codes = self._first_index + index == 0 or max(len(source), len(target)) > 2
        is_header = is_short and may_be_codes and are_column_names(source, target)
        return "the sides are names of columns" if is_header else ""

    def broken_encoding(self, index: int) -> str:
        for side, text in zip(SIDE_NAMES, self._pairs[index], strict=True):
            if problem := encoding_problem(text):
                return f"the {side} has {problem}"
        return ""

    def too_long(self, index: int) -> str:
        num_words = max(self._word_counts(index))
        return f"{num_words:,} words" if num_words > self._model.max_words else ""

    def unmatched_markup(self, index: int) -> str:
        markup = find_first_unmatched_markup(*self._pairs[index])
        return f"{markup} is on one side only" if markup else ""

    def identical(self, index: int) -> str:
        """A text that needs no correction may be its own target, as may a name: "New York"."""
        source, target = (text.strip() for text in self._pairs[index])
        if self._model.languages.is_monolingual or source != target:
            return ""
        num_words = self._word_counts(index)[0]
        is_sentence = num_words >= _MIN_SENTENCE_WORDS and source.endswith(_SENTENCE_ENDS)
        return "both sides are identical" if is_sentence or num_words > MAX_IDENTICAL_WORDS else ""

    def duplicate(self, index: int) -> str:
        is_duplicate = self._model.statistics.is_duplicate[self._first_index + index]
        return "duplicate of an earlier pair" if is_duplicate else ""

    def in_test_set(self, index: int) -> str:
        hashes = self._model.test_source_hashes
        is_in_test_set = hashes and hash(compute_match_key(self._pairs[index].source)) in hashes
        return "the source is in a test set" if is_in_test_set else ""

    def shifted(self, index: int) -> str:
        if self._first_index + index in self._model.unmatched:
            return "at the boundary of a shifted region: neither side has a counterpart"
        for shift in self._model.shifts:
            if shift.first_line <= self._first_index + index + 1 <= shift.last_line:
                return f"the target seems to be {shift.description}"
        return ""

    def swapped(self, index: int) -> str:
        if self._model.languages.is_swapped:
            return "source and target seem to be swapped"
        source, target = (side.expected for side in self._model.languages.sides)
        is_swapped = source and target and self._wrong_languages[index] == (target, source)
        return f"the sides seem to be {target} and {source}" if is_swapped else ""

    def wrong_language(self, index: int) -> str:
        named = zip(SIDE_NAMES, self._wrong_languages[index], strict=True)
        return next((f"the {name} seems to be {wrong}" for name, wrong in named if wrong), "")

    def length_ratio(self, index: int) -> str:
        deviation = self._length_deviations[index]
        if abs(deviation) <= _MAX_RATIO_DEVIATION:
            return ""
        return f"the target is much too {'long' if deviation > 0 else 'short'}"

    def misaligned(self, index: int) -> str:
        is_misaligned = self.misalignment_scores[index] >= _MISALIGNMENT_THRESHOLD
        return "the words are unlikely translations" if is_misaligned else ""

    def leftover_quotes(self, index: int) -> str:
        for side, text in zip(SIDE_NAMES, self._pairs[index], strict=True):
            if '"' in text and _has_leftover_quotes(text):
                return f"the {side} has quotes of a table"
        return ""

    def number_mismatch(self, index: int) -> str:
        return "the numbers differ" if have_no_common_number(*self._pairs[index]) else ""

    def _word_counts(self, index: int) -> IntArray:
        """Return the number of words of each side."""
        return self._model.statistics.word_counts[:, self._first_index + index]


RULES = tuple(
    name
    for name, member in vars(_RuleChecker).items()
    if callable(member) and not name.startswith("_")
)
"""In the order in which they are checked: a pair counts for the first rule that it violates."""
ONE_SIDED_RULES = (
    "empty",
    "broken_encoding",
    "too_long",
    "duplicate",
    "in_test_set",
    "wrong_language",
)
"""Rules that apply to text without translations."""
if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[RULES]


class QualityConfig(Config):
    """Rules for removing pairs, and settings of the analysis."""

    clean_rules: tuple[RuleName, ...] = Field(default=RULES[:-2], strict=False)
    """Rules whose pairs are removed when cleaning. By default all but `leftover_quotes`, whose
    tables should be read again, and `number_mismatch`, because units and times may differ in
    correct translations."""
    max_words: int = Field(default=250, ge=1)
    """Maximum number of words per side (characters in Chinese and similar scripts)."""
    num_examples: int = Field(default=5, ge=0)
    """Number of example pairs per finding."""


class RuleViolation(NamedTuple):
    """The rule that a pair violates, and the reason."""

    rule: RuleName
    reason: str
    score: float = 0.0
    """How severe the violation is compared with others of the rule; 0 if unknown."""


def find_rule_violations(
    first_index: int, pairs: PairBlock, model: CorpusModel, rules: Sequence[RuleName] = RULES
) -> list[RuleViolation | None]:
    """Return for each pair the first of the given rules that it violates, or None.

    `first_index` is the index of the first pair in the corpus.
    """
    checker = _RuleChecker(first_index, pairs, model)
    checks = [(rule, getattr(checker, rule)) for rule in RULES if rule in rules]

    def find_violation(index: int) -> RuleViolation | None:
        for rule, check in checks:
            if reason := check(index):
                scores = checker.misalignment_scores if rule == "misaligned" else None
                return RuleViolation(rule, reason, 0.0 if scores is None else float(scores[index]))
        return None

    return list(map(find_violation, range(len(pairs))))
