"""The rules that decide whether a pair is accepted.

A rule returns for each pair of a chunk the reason why it violates the rule, or "". A pair that
violates several rules counts for the first one. Analysis and filtering use the same rules.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from ftfy import fix_encoding
from ftfy.badness import BADNESS_RE

from seq2see.data.quality.config import MAX_IDENTICAL_WORDS, RULES, RuleName
from seq2see.data.quality.statistics_and_models import SIDE_NAMES, CorpusModel, PairChunk
from seq2see.data.quality.translation_lexicon import assign_cross_validation_folds
from seq2see.data.quality.words_and_word_ids import (
    BoolArray,
    FloatArray,
    PackedWordIds,
    compute_match_key,
    has_letter_or_digit,
)

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
_NUMBER = re.compile(r"\d+")
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
    if not (_NUMBER.search(source) and _NUMBER.search(target)):
        return False
    in_source, in_target = _extract_numbers(source), _extract_numbers(target)
    if not (in_source and in_target):
        return False
    # one may be written as the other: 1980 and 80er, 230 and 2 h 30
    return not any(a in b or b in a for a in in_source for b in in_target)


def _extract_numbers(text: str) -> set[str]:
    """Return the ASCII digits of each number, without trailing zeros."""
    numbers = _NUMBER.findall(text)
    digits = ("".join(str(unicodedata.digit(c, 0)) for c in number) for number in numbers)
    return {number.rstrip("0") for number in digits} - {""}


class RuleViolation(NamedTuple):
    """The rule that a pair violates, and the reason."""

    rule: RuleName
    reason: str
    score: float = 0.0
    """How severe the violation is compared with others of the rule; 0 if unknown."""


@dataclass(frozen=True)
class ChunkRuleInputs:
    """A chunk of pairs, the model of the corpus, and values that several rules use."""

    chunk: PairChunk
    model: CorpusModel

    @cached_property
    def ids(self) -> list[PackedWordIds]:
        """The word ids of each side."""
        return self.model.vocabulary.look_up(*self.chunk.words)

    @cached_property
    def wrong_languages(self) -> list[list[str]]:
        """For each line of each side the wrong language that it is in, or ""."""
        return [
            self.model.languages.find_wrong_languages(side, self.chunk.sides[side], self.ids[side])
            for side in (0, 1)
        ]

    @cached_property
    def misalignment_scores(self) -> FloatArray:
        """The evidence of the words against each pair, in nats; 0 without a lexicon."""
        lexicon = self.model.lexicon
        if lexicon is None:
            return np.zeros(len(self.chunk))
        folds = assign_cross_validation_folds(self.chunk.sides.sources)
        return -lexicon.score_pairs(self.ids[0], self.ids[1], folds)

    def reasons_per_pair(self, reason: Callable[[str, str], str]) -> list[str]:
        """Return the reason of each pair, from a function of its source and target."""
        return list(map(reason, *self.chunk.sides))

    def reasons_from_mask(self, mask: BoolArray, reason: str | Callable[[int], str]) -> list[str]:
        """Return the reason of each pair, which is "" where the mask is false."""
        reasons = [""] * len(self.chunk)
        for index in np.flatnonzero(mask):
            reasons[index] = reason if isinstance(reason, str) else reason(int(index))
        return reasons


def find_rule_violations(
    chunk: PairChunk, model: CorpusModel, rules: Sequence[RuleName] = RULES
) -> list[RuleViolation | None]:
    """Return for each pair the first of the given rules that it violates, or None."""
    inputs = ChunkRuleInputs(chunk, model)
    violations: list[RuleViolation | None] = [None] * len(chunk)
    for rule in RULES:
        if rule in rules:
            for index, reason in enumerate(_CHECKS[rule](inputs)):
                if reason and violations[index] is None:
                    is_scored = rule == "misaligned"
                    score = float(inputs.misalignment_scores[index]) if is_scored else 0.0
                    violations[index] = RuleViolation(rule, reason, score)
    return violations


def _check_empty(inputs: ChunkRuleInputs) -> list[str]:
    """A side without words is empty, unless both have only punctuation ("!" and "！")."""

    def reason(source: str, target: str) -> str:
        has_words = has_letter_or_digit(source), has_letter_or_digit(target)
        if has_words[0] != has_words[1]:
            return f"the {SIDE_NAMES[has_words.index(False)]} has no words"
        is_blank = not source.strip() or not target.strip()
        return "both sides have no words" if is_blank and not any(has_words) else ""

    return inputs.reasons_per_pair(reason)


def _check_encoding(inputs: ChunkRuleInputs) -> list[str]:
    def reason(*pair: str) -> str:
        for side, text in zip(SIDE_NAMES, pair, strict=True):
            if problem := encoding_problem(text):
                return f"the {side} has {problem}"
        return ""

    return inputs.reasons_per_pair(reason)


def _check_length(inputs: ChunkRuleInputs) -> list[str]:
    num_words = inputs.model.statistics.word_counts[:, inputs.chunk.slice].max(0)
    is_too_long = num_words > inputs.model.max_words
    return inputs.reasons_from_mask(is_too_long, lambda i: f"{num_words[i]:,} words")


def _check_markup(inputs: ChunkRuleInputs) -> list[str]:
    def reason(source: str, target: str) -> str:
        markup = find_first_unmatched_markup(source, target)
        return f"{markup} is on one side only" if markup else ""

    return inputs.reasons_per_pair(reason)


def _check_identical(inputs: ChunkRuleInputs) -> list[str]:
    if inputs.model.languages.is_monolingual:
        return []  # a text that needs no correction is its own target
    num_words = map(len, inputs.chunk.words[0])
    is_identical = [
        source.strip() == target.strip()
        and (count > MAX_IDENTICAL_WORDS or _is_sentence(source, count))
        for source, target, count in zip(*inputs.chunk.sides, num_words, strict=True)
    ]
    return inputs.reasons_from_mask(np.array(is_identical), "both sides are identical")


def _is_sentence(text: str, num_words: int) -> bool:
    """Distinguish a short sentence ("Tom is here.") from a name ("New York City")."""
    return num_words >= _MIN_SENTENCE_WORDS and text.rstrip().endswith(_SENTENCE_ENDS)


def _check_duplicate(inputs: ChunkRuleInputs) -> list[str]:
    is_duplicate = inputs.model.statistics.is_duplicate[inputs.chunk.slice]
    return inputs.reasons_from_mask(is_duplicate, "duplicate of an earlier pair")


def _check_test_set(inputs: ChunkRuleInputs) -> list[str]:
    hashes = inputs.model.test_source_hashes
    if not hashes:
        return []
    sources = inputs.chunk.sides.sources
    is_in_test_set = [hash(compute_match_key(source)) in hashes for source in sources]
    return inputs.reasons_from_mask(np.array(is_in_test_set), "the source is in a test set")


def _check_shift(inputs: ChunkRuleInputs) -> list[str]:
    reasons = [""] * len(inputs.chunk)
    for shift in inputs.model.shifts:
        first = max(shift.first_line - 1 - inputs.chunk.first_index, 0)
        end = min(shift.last_line - inputs.chunk.first_index, len(reasons))
        for index in range(first, end):
            reasons[index] = f"the target seems to be {shift.description}"
    return reasons


def _check_swapped(inputs: ChunkRuleInputs) -> list[str]:
    if inputs.model.languages.is_swapped:
        return ["source and target seem to be swapped"] * len(inputs.chunk)
    source, target = (side.expected for side in inputs.model.languages.sides)
    if not source or not target:
        return []
    is_swapped = [pair == (target, source) for pair in zip(*inputs.wrong_languages, strict=True)]
    reason = f"the sides seem to be {target} and {source}"
    return inputs.reasons_from_mask(np.array(is_swapped), reason)


def _check_language(inputs: ChunkRuleInputs) -> list[str]:
    def reason(*wrong: str) -> str:
        named = zip(SIDE_NAMES, wrong, strict=True)
        return next((f"the {name} seems to be {each}" for name, each in named if each), "")

    return list(map(reason, *inputs.wrong_languages))


def _check_length_ratio(inputs: ChunkRuleInputs) -> list[str]:
    byte_lengths = inputs.model.statistics.byte_lengths[:, inputs.chunk.slice]
    deviations = inputs.model.length_ratio.compute_deviations(*byte_lengths)
    return inputs.reasons_from_mask(
        np.abs(deviations) > _MAX_RATIO_DEVIATION,
        lambda i: f"the target is much too {'long' if deviations[i] > 0 else 'short'}",
    )


def _check_alignment(inputs: ChunkRuleInputs) -> list[str]:
    is_misaligned = inputs.misalignment_scores >= _MISALIGNMENT_THRESHOLD
    return inputs.reasons_from_mask(is_misaligned, "the words are unlikely translations")


def _check_numbers(inputs: ChunkRuleInputs) -> list[str]:
    return inputs.reasons_per_pair(
        lambda source, target: "the numbers differ" if have_no_common_number(source, target) else ""
    )


_CHECKS: Mapping[RuleName, Callable[[ChunkRuleInputs], list[str]]] = {
    "empty": _check_empty,
    "broken_encoding": _check_encoding,
    "too_long": _check_length,
    "unmatched_markup": _check_markup,
    "identical": _check_identical,
    "duplicate": _check_duplicate,
    "in_test_set": _check_test_set,
    "shifted": _check_shift,
    "swapped": _check_swapped,
    "wrong_language": _check_language,
    "length_ratio": _check_length_ratio,
    "misaligned": _check_alignment,
    "number_mismatch": _check_numbers,
}
