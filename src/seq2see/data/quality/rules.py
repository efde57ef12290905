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
from typing import NamedTuple

import numpy as np

from seq2see.data.quality.config import RULES, RuleName
from seq2see.data.quality.statistics_and_models import SIDE_NAMES, CorpusModel, PairChunk
from seq2see.data.quality.translation_lexicon import assign_cross_validation_folds
from seq2see.data.quality.words_and_word_ids import (
    BoolArray,
    FloatArray,
    PackedWordIds,
    byte_length,
    compute_match_key,
    has_letter_or_digit,
)
from seq2see.data.readers import SentencePair

_LOST_CHARACTERS = re.compile(
    "[\ufffd"  # replacement character of a decoder
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls; tabs and line ends are white space
    "\ud800-\udfff\ufffe\uffff]"  # surrogates and noncharacters
)
# UTF-8 that was decoded as Latin-1 or Windows-1252, such as Ã¼ for ü. If the second character is a
# closing quotation mark or similar, a lowercase letter must precede: "«IRMÃ»" is correct.
_LEAD_BYTE = "[\u00c2-\u00c5\u00ce-\u00d1]"
_MOJIBAKE = re.compile(
    f"{_LEAD_BYTE}[\u00a1-\u00aa\u00ac-\u00af\u00b1-\u00b6\u00b8-\u00ba\u00bc-\u00bf"
    "\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    "\u2020-\u2022\u2030\u2039\u203a\u20ac\u2122]"
    f"|(?<=[a-z0-9]){_LEAD_BYTE}"
    "[\u00a0\u00ab\u00b0\u00b7\u00bb\u2013\u2014\u2018-\u201e\u2026]"
    "|\u00e2\u20ac."  # quotation marks and dashes
    "|\u00ef\u00bb\u00bf"  # byte order mark
)
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
    for match in _MOJIBAKE.finditer(text):
        if original := _redecode(match[0]):
            return f"{match[0]!r} for {original!r}"
    return None


def _redecode(text: str) -> str | None:
    """Undo a wrong decoding of UTF-8; return None if the text is not the result of one."""
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return None


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
    return not any(_may_be_equal(a, b) for a in in_source for b in in_target)


def _extract_numbers(text: str) -> set[str]:
    """Return the ASCII digits of each number, without trailing zeros."""
    numbers = _NUMBER.findall(text)
    digits = ("".join(str(unicodedata.digit(c, 0)) for c in number) for number in numbers)
    return {number.rstrip("0") for number in digits} - {""}


def _may_be_equal(a: str, b: str) -> bool:
    """Return whether one may be written as the other: 1980 and 80er, 230 and 2 h 30."""
    return a in b or b in a


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
    def ids(self) -> tuple[PackedWordIds, PackedWordIds]:
        """The word ids of each side."""
        source, target = self.model.vocabulary.look_up(*self.chunk.words)
        return source, target

    @cached_property
    def wrong_languages(self) -> tuple[list[str], list[str]]:
        """For each line of each side the wrong language that it is in, or ""."""
        checker, sides = self.model.languages, self.chunk.sides
        source, target = (
            checker.find_wrong_languages(side, sides[side], self.ids[side]) for side in (0, 1)
        )
        return source, target

    @cached_property
    def misalignment_scores(self) -> FloatArray:
        """The evidence of the words against each pair, in nats; 0 without a lexicon."""
        lexicon = self.model.lexicon
        if lexicon is None:
            return np.zeros(len(self.chunk.pairs))
        return -lexicon.score_pairs(*self.ids, assign_cross_validation_folds(self.chunk.sides[0]))

    def reasons_per_pair(self, reason: Callable[[SentencePair], str]) -> list[str]:
        """Return the reason of each pair, from a function of the pair."""
        return [reason(pair) for pair in self.chunk.pairs]

    def reasons_from_mask(self, mask: BoolArray, reason: str | Callable[[int], str]) -> list[str]:
        """Return the reason of each pair, which is "" where the mask is false."""
        reasons = [""] * len(self.chunk.pairs)
        for index in np.flatnonzero(mask):
            reasons[index] = reason if isinstance(reason, str) else reason(int(index))
        return reasons


def find_rule_violations(
    chunk: PairChunk, model: CorpusModel, rules: Sequence[RuleName] = RULES
) -> list[RuleViolation | None]:
    """Return for each pair the first of the given rules that it violates, or None."""
    inputs = ChunkRuleInputs(chunk, model)
    violations: list[RuleViolation | None] = [None] * len(chunk.pairs)
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

    def reason(pair: SentencePair) -> str:
        wordless = [
            side
            for side, text in zip(SIDE_NAMES, pair, strict=True)
            if not has_letter_or_digit(text)
        ]
        is_blank = not pair.source.strip() or not pair.target.strip()
        if len(wordless) == 1:
            return f"the {wordless[0]} has no words"
        return "both sides have no words" if wordless and is_blank else ""

    return inputs.reasons_per_pair(reason)


def _check_encoding(inputs: ChunkRuleInputs) -> list[str]:
    def reason(pair: SentencePair) -> str:
        for side, text in zip(SIDE_NAMES, pair, strict=True):
            if problem := encoding_problem(text):
                return f"the {side} has {problem}"
        return ""

    return inputs.reasons_per_pair(reason)


def _check_length(inputs: ChunkRuleInputs) -> list[str]:
    counts = [np.array([len(words) for words in side]) for side in inputs.chunk.words]
    num_words = np.maximum(*counts)
    is_too_long = num_words > inputs.model.config.max_words
    return inputs.reasons_from_mask(is_too_long, lambda i: f"{num_words[i]:,} words")


def _check_markup(inputs: ChunkRuleInputs) -> list[str]:
    def reason(pair: SentencePair) -> str:
        markup = find_first_unmatched_markup(*pair)
        return f"{markup} is on one side only" if markup else ""

    return inputs.reasons_per_pair(reason)


def _check_identical(inputs: ChunkRuleInputs) -> list[str]:
    if inputs.model.languages.is_monolingual:
        return []  # a text that needs no correction is its own target
    max_words = inputs.model.config.max_identical_words
    is_identical = [
        pair.source.strip() == pair.target.strip()
        and (len(words) > max_words or _is_sentence(pair.source, len(words)))
        for pair, words in zip(inputs.chunk.pairs, inputs.chunk.words[0], strict=True)
    ]
    return inputs.reasons_from_mask(np.array(is_identical), "both sides are identical")


def _is_sentence(text: str, num_words: int) -> bool:
    """Distinguish a short sentence ("Tom is here.") from a name ("New York City")."""
    return num_words >= _MIN_SENTENCE_WORDS and text.rstrip().endswith(_SENTENCE_ENDS)


def _check_duplicate(inputs: ChunkRuleInputs) -> list[str]:
    start = inputs.chunk.first_index
    is_duplicate = inputs.model.is_duplicate[start : start + len(inputs.chunk.pairs)]
    return inputs.reasons_from_mask(is_duplicate, "duplicate of an earlier pair")


def _check_test_set(inputs: ChunkRuleInputs) -> list[str]:
    hashes = inputs.model.test_source_hashes
    if not hashes:
        return []

    def reason(pair: SentencePair) -> str:
        is_in_test_set = hash(compute_match_key(pair.source)) in hashes
        return "the source is in a test set" if is_in_test_set else ""

    return inputs.reasons_per_pair(reason)


def _check_shift(inputs: ChunkRuleInputs) -> list[str]:
    if not inputs.model.shifts:
        return []
    start, count = inputs.chunk.first_index, len(inputs.chunk.pairs)
    reasons = [""] * count
    for shift in inputs.model.shifts:
        first, end = max(shift.first_line - 1 - start, 0), min(shift.last_line - start, count)
        for index in range(first, end):
            reasons[index] = f"the target seems to be {shift.description}"
    return reasons


def _check_swapped(inputs: ChunkRuleInputs) -> list[str]:
    if inputs.model.languages.is_swapped:
        return inputs.reasons_per_pair(lambda _: "source and target seem to be swapped")
    names = [side.expected or "" for side in inputs.model.languages.sides]
    wrong = zip(*inputs.wrong_languages, strict=True)
    is_swapped = [names != ["", ""] and [a, b] == names[::-1] for a, b in wrong]
    reason = f"the sides seem to be {names[1]} and {names[0]}"
    return inputs.reasons_from_mask(np.array(is_swapped), reason)


def _check_language(inputs: ChunkRuleInputs) -> list[str]:
    reasons = []
    for wrong in zip(*inputs.wrong_languages, strict=True):
        side = next((side for side in (0, 1) if wrong[side]), None)
        reasons.append("" if side is None else f"the {SIDE_NAMES[side]} seems to be {wrong[side]}")
    return reasons


def _check_length_ratio(inputs: ChunkRuleInputs) -> list[str]:
    source, target = (
        np.array([byte_length(text.strip()) for text in side]) for side in inputs.chunk.sides
    )
    deviations = inputs.model.length_ratio.compute_deviations(source, target)
    return inputs.reasons_from_mask(
        np.abs(deviations) > inputs.model.config.max_ratio_deviation,
        lambda i: f"the target is much too {'long' if deviations[i] > 0 else 'short'}",
    )


def _check_alignment(inputs: ChunkRuleInputs) -> list[str]:
    is_misaligned = inputs.misalignment_scores >= inputs.model.config.misalignment_threshold
    return inputs.reasons_from_mask(is_misaligned, "the words are unlikely translations")


def _check_numbers(inputs: ChunkRuleInputs) -> list[str]:
    return inputs.reasons_per_pair(
        lambda pair: "the numbers differ" if have_no_common_number(pair.source, pair.target) else ""
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
