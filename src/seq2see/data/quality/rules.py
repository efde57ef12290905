"""The rules that decide if a pair is accepted, and what they look for in its text."""

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
from seq2see.data.quality.corpus_model import SIDE_NAMES, CorpusModel, PairChunk
from seq2see.data.quality.translation_lexicon import assign_folds
from seq2see.data.quality.words import (
    BoolArray,
    FloatArray,
    PackedWordIds,
    byte_length,
    compute_match_key,
    has_word,
)
from seq2see.data.readers import SentencePair

_LOST = re.compile(
    "[\ufffd"  # what a decoder puts where it gave up
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls; tabs and line ends are white space
    "\ud800-\udfff\ufffe\uffff]"  # halves of characters, and none at all
)


# UTF-8 that was read as Latin-1 or Windows-1252: Ã¼ for ü. The second of the two may be a closing
# quotation mark or the like, which "«IRMÃ»" has by right; so it must stand behind a small letter.
_FIRST = "[\u00c2-\u00c5\u00ce-\u00d1]"


_TWICE = re.compile(
    f"{_FIRST}[\u00a1-\u00aa\u00ac-\u00af\u00b1-\u00b6\u00b8-\u00ba\u00bc-\u00bf"
    "\u0152\u0153\u0160\u0161\u0178\u017d\u017e\u0192\u02c6\u02dc"
    "\u2020-\u2022\u2030\u2039\u203a\u20ac\u2122]"
    f"|(?<=[a-z0-9]){_FIRST}"
    "[\u00a0\u00ab\u00b0\u00b7\u00bb\u2013\u2014\u2018-\u201e\u2026]"
    "|\u00e2\u20ac."  # quotation marks and dashes themselves
    "|\u00ef\u00bb\u00bf"  # a byte order mark
)


_MARKUP = re.compile(
    r"</?[a-z][a-z0-9]*(?:\s[^<>]*)?/?>|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});", re.IGNORECASE
)


def encoding_problem(text: str) -> str | None:
    """Say what is broken in a text, or None."""
    if text.isascii() and text.isprintable():
        return None
    if lost := _LOST.search(text):
        return f"U+{ord(lost[0]):04X}"
    if twice := next((m[0] for m in _TWICE.finditer(text) if _once(m[0])), None):
        return f"{twice!r} for {_once(twice)!r}"
    return None


def _once(text: str) -> str | None:
    """Undo one wrong decoding; None if it was none."""
    for encoding in ("cp1252", "latin-1"):
        try:
            return text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
    return None


def find_unmatched_markup(source: str, target: str) -> str | None:
    """Return a tag or an entity of HTML that one side has and the other has not, or None."""
    if not any(mark in text for mark in "<&" for text in (source, target)):
        return None
    here, there = (Counter(_MARKUP.findall(text)) for text in (source, target))
    return next(iter((here - there) + (there - here)), None)


_NUMBER = re.compile(r"\d+")


def numbers_differ(source: str, target: str) -> bool:
    """Tell if both sides have numbers, and none of one is in the other."""
    if not (_NUMBER.search(source) and _NUMBER.search(target)):
        return False
    here, there = _figures(source), _figures(target)
    return bool(here and there) and not any(_agree(a, b) for a in here for b in there)


def _figures(text: str) -> set[str]:
    """Return the digits of each number, as ASCII and without the zeros at its end."""
    found = _NUMBER.findall(text)
    plain = ("".join(str(unicodedata.digit(c, 0)) for c in number) for number in found)
    return {number.rstrip("0") for number in plain} - {""}


def _agree(a: str, b: str) -> bool:
    """Tell if one could be written as the other: 1980 and 80er, 230 and 2 h 30."""
    return a in b or b in a


_SENTENCE_WORDS = 3


_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


class RuleViolation(NamedTuple):
    """The rule that a pair breaks, and how."""

    rule: RuleName
    reason: str
    score: float = 0.0
    """How much worse than other pairs that break it, where that can be told."""


@dataclass(frozen=True)
class RuleInputs:
    """A batch before its judge."""

    chunk: PairChunk
    model: CorpusModel

    @cached_property
    def ids(self) -> tuple[PackedWordIds, PackedWordIds]:
        """The words of each side by their numbers."""
        source, target = self.model.vocabulary.look_up(*self.chunk.words)
        return source, target

    @cached_property
    def wrong_languages(self) -> tuple[list[str], list[str]]:
        """What language each line of each side is in by mistake, or ""."""
        check, sides = self.model.languages, self.chunk.sides
        source, target = (
            check.find_wrong_languages(side, sides[side], self.ids[side]) for side in (0, 1)
        )
        return source, target

    @cached_property
    def misalignment_scores(self) -> FloatArray:
        """How much the words of each pair speak against it; nothing where there is no lexicon."""
        lexicon = self.model.lexicon
        if lexicon is None:
            return np.zeros(len(self.chunk.pairs))
        return -lexicon.score_pairs(*self.ids, assign_folds(self.chunk.sides[0]))

    def reasons_per_pair(self, reason: Callable[[SentencePair], str]) -> list[str]:
        """Ask for a reason for each pair by itself."""
        return [reason(pair) for pair in self.chunk.pairs]

    def reasons_from_mask(self, mask: BoolArray, reason: str | Callable[[int], str]) -> list[str]:
        """Give a reason where the mask is true."""
        reasons = [""] * len(self.chunk.pairs)
        for place in np.flatnonzero(mask):
            reasons[place] = reason if isinstance(reason, str) else reason(int(place))
        return reasons


def apply_rules(
    chunk: PairChunk, model: CorpusModel, rules: Sequence[RuleName] = RULES
) -> list[RuleViolation | None]:
    """Return for each pair the first rule that it breaks."""
    case = RuleInputs(chunk, model)
    verdicts: list[RuleViolation | None] = [None] * len(chunk.pairs)
    for rule in RULES:
        if rule in rules:
            for place, reason in enumerate(_CHECKS[rule](case)):
                if reason and verdicts[place] is None:
                    gravity = (
                        float(case.misalignment_scores[place]) if rule == "misaligned" else 0.0
                    )
                    verdicts[place] = RuleViolation(rule, reason, gravity)
    return verdicts


def _empty(case: RuleInputs) -> list[str]:
    """A side without words says nothing, unless the other says just that ("!" and "！")."""

    def reason(pair: SentencePair) -> str:
        lacking = [side for side, text in zip(SIDE_NAMES, pair, strict=True) if not has_word(text)]
        blank = not pair.source.strip() or not pair.target.strip()
        if len(lacking) == 1:
            return f"the {lacking[0]} has no words"
        return "both sides have no words" if lacking and blank else ""

    return case.reasons_per_pair(reason)


def _damaged(case: RuleInputs) -> list[str]:
    def reason(pair: SentencePair) -> str:
        for side, text in zip(SIDE_NAMES, pair, strict=True):
            if found := encoding_problem(text):
                return f"the {side} has {found}"
        return ""

    return case.reasons_per_pair(reason)


def _too_long(case: RuleInputs) -> list[str]:
    counts = [np.array([len(words) for words in side]) for side in case.chunk.words]
    most = np.maximum(*counts)
    return case.reasons_from_mask(
        most > case.model.config.max_words, lambda i: f"{most[i]:,} words"
    )


def _markup(case: RuleInputs) -> list[str]:
    def reason(pair: SentencePair) -> str:
        found = find_unmatched_markup(*pair)
        return f"{found} is on one side only" if found else ""

    return case.reasons_per_pair(reason)


def _identical(case: RuleInputs) -> list[str]:
    if case.model.languages.is_monolingual:
        return []  # what needs no correction stays as it is
    fewest = case.model.config.max_identical_words
    found = [
        pair.source.strip() == pair.target.strip()
        and (len(words) > fewest or _is_sentence(pair.source, len(words)))
        for pair, words in zip(case.chunk.pairs, case.chunk.words[0], strict=True)
    ]
    return case.reasons_from_mask(np.array(found), "both sides are the same")


def _is_sentence(text: str, words: int) -> bool:
    """Tell a short sentence from a name: "Tom is here." from "New York City"."""
    return words >= _SENTENCE_WORDS and text.rstrip().endswith(_SENTENCE_ENDS)


def _duplicate(case: RuleInputs) -> list[str]:
    start = case.chunk.first_index
    repeats = case.model.is_duplicate[start : start + len(case.chunk.pairs)]
    return case.reasons_from_mask(repeats, "the same pair came before")


def _held_out(case: RuleInputs) -> list[str]:
    held_out = case.model.test_source_hashes
    if not held_out:
        return []
    return case.reasons_per_pair(
        lambda pair: (
            "its source is held out" if hash(compute_match_key(pair.source)) in held_out else ""
        )
    )


def _shifted(case: RuleInputs) -> list[str]:
    if not case.model.shifts:
        return []
    start, count = case.chunk.first_index, len(case.chunk.pairs)
    reasons = [""] * count
    for shift in case.model.shifts:
        for place in range(
            max(shift.first_line - 1 - start, 0), min(shift.last_line - start, count)
        ):
            reasons[place] = f"the target seems to be {shift.description}"
    return reasons


def _swapped(case: RuleInputs) -> list[str]:
    if case.model.languages.is_swapped:
        return case.reasons_per_pair(lambda _: "source and target seem to be swapped")
    names = [side.expected or "" for side in case.model.languages.sides]
    both = zip(*case.wrong_languages, strict=True)
    crossed = [names != ["", ""] and [a, b] == names[::-1] for a, b in both]
    return case.reasons_from_mask(np.array(crossed), f"it seems to be {names[1]} and {names[0]}")


def _language(case: RuleInputs) -> list[str]:
    reasons = []
    for found in zip(*case.wrong_languages, strict=True):
        side = next((side for side in (0, 1) if found[side]), None)
        reasons.append("" if side is None else f"the {SIDE_NAMES[side]} seems to be {found[side]}")
    return reasons


def _ratio(case: RuleInputs) -> list[str]:
    source, target = (np.array([byte_length(t.strip()) for t in side]) for side in case.chunk.sides)
    errors = case.model.length_ratio.compute_deviations(source, target)
    return case.reasons_from_mask(
        np.abs(errors) > case.model.config.max_ratio_deviation,
        lambda i: f"much too {'long' if errors[i] > 0 else 'short'} for its source",
    )


def _misaligned(case: RuleInputs) -> list[str]:
    wrong = case.misalignment_scores >= case.model.config.misalignment_threshold
    return case.reasons_from_mask(wrong, "its words hardly translate each other")


def _numbers(case: RuleInputs) -> list[str]:
    return case.reasons_per_pair(
        lambda pair: "its numbers differ" if numbers_differ(pair.source, pair.target) else ""
    )


_CHECKS: Mapping[RuleName, Callable[[RuleInputs], list[str]]] = {
    "empty": _empty,
    "broken_encoding": _damaged,
    "too_long": _too_long,
    "unmatched_markup": _markup,
    "identical": _identical,
    "duplicate": _duplicate,
    "in_test_set": _held_out,
    "shifted": _shifted,
    "swapped": _swapped,
    "wrong_language": _language,
    "length_ratio": _ratio,
    "misaligned": _misaligned,
    "number_mismatch": _numbers,
}
