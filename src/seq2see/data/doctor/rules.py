"""The rules that a pair is judged by. Their only home: to examine and to clean is the same here.

A rule gives for each pair of a batch the reason why it breaks it, or "". A pair that breaks several
is counted under the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from seq2see.data.doctor.config import RULES, RuleName
from seq2see.data.doctor.corpus import SIDES, Batch
from seq2see.data.doctor.damage import damage, unmatched_markup
from seq2see.data.doctor.lexicon import halves
from seq2see.data.doctor.numbers import numbers_differ
from seq2see.data.doctor.standard import Standard
from seq2see.data.doctor.words import Bools, Floats, Ragged, fold, has_word, size
from seq2see.data.readers import Pair

_SENTENCE_WORDS = 3
_SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")


class Broken(NamedTuple):
    """The rule that a pair breaks, and how."""

    rule: RuleName
    reason: str
    gravity: float = 0.0
    """How much worse than other pairs that break it, where that can be told."""


@dataclass(frozen=True)
class Case:
    """A batch before its judge."""

    batch: Batch
    standard: Standard

    @cached_property
    def ids(self) -> tuple[Ragged, Ragged]:
        """The words of each side by their numbers."""
        source, target = self.standard.vocabulary.look_up(*self.batch.words)
        return source, target

    @cached_property
    def wrong_languages(self) -> tuple[list[str], list[str]]:
        """What language each line of each side is in by mistake, or ""."""
        check, sides = self.standard.languages, self.batch.sides
        source, target = (check.wrong(side, sides[side], self.ids[side]) for side in (0, 1))
        return source, target

    @cached_property
    def against(self) -> Floats:
        """How much the words of each pair speak against it; nothing where there is no lexicon."""
        lexicon = self.standard.lexicon
        if lexicon is None:
            return np.zeros(len(self.batch.pairs))
        return -lexicon.judge(*self.ids, halves(self.batch.sides[0]))

    def each(self, reason: Callable[[Pair], str]) -> list[str]:
        """Ask for a reason for each pair by itself."""
        return [reason(pair) for pair in self.batch.pairs]

    def where(self, mask: Bools, reason: str | Callable[[int], str]) -> list[str]:
        """Give a reason where the mask is true."""
        reasons = [""] * len(self.batch.pairs)
        for place in np.flatnonzero(mask):
            reasons[place] = reason if isinstance(reason, str) else reason(int(place))
        return reasons


def judge(
    batch: Batch, standard: Standard, rules: Sequence[RuleName] = RULES
) -> list[Broken | None]:
    """Return for each pair the first rule that it breaks."""
    case = Case(batch, standard)
    verdicts: list[Broken | None] = [None] * len(batch.pairs)
    for rule in RULES:
        if rule in rules:
            for place, reason in enumerate(_CHECKS[rule](case)):
                if reason and verdicts[place] is None:
                    gravity = float(case.against[place]) if rule == "misaligned" else 0.0
                    verdicts[place] = Broken(rule, reason, gravity)
    return verdicts


def _empty(case: Case) -> list[str]:
    """A side without words says nothing, unless the other says just that ("!" and "！")."""

    def reason(pair: Pair) -> str:
        lacking = [side for side, text in zip(SIDES, pair, strict=True) if not has_word(text)]
        blank = not pair.source.strip() or not pair.target.strip()
        if len(lacking) == 1:
            return f"the {lacking[0]} has no words"
        return "both sides have no words" if lacking and blank else ""

    return case.each(reason)


def _damaged(case: Case) -> list[str]:
    def reason(pair: Pair) -> str:
        for side, text in zip(SIDES, pair, strict=True):
            if found := damage(text):
                return f"the {side} has {found}"
        return ""

    return case.each(reason)


def _too_long(case: Case) -> list[str]:
    counts = [np.array([len(words) for words in side]) for side in case.batch.words]
    most = np.maximum(*counts)
    return case.where(most > case.standard.config.max_words, lambda i: f"{most[i]:,} words")


def _markup(case: Case) -> list[str]:
    def reason(pair: Pair) -> str:
        found = unmatched_markup(*pair)
        return f"{found} is on one side only" if found else ""

    return case.each(reason)


def _identical(case: Case) -> list[str]:
    if case.standard.languages.is_one:
        return []  # what needs no correction stays as it is
    fewest = case.standard.config.identical_words
    found = [
        pair.source.strip() == pair.target.strip()
        and (len(words) > fewest or _is_sentence(pair.source, len(words)))
        for pair, words in zip(case.batch.pairs, case.batch.words[0], strict=True)
    ]
    return case.where(np.array(found), "both sides are the same")


def _is_sentence(text: str, words: int) -> bool:
    """Tell a short sentence from a name: "Tom is here." from "New York City"."""
    return words >= _SENTENCE_WORDS and text.rstrip().endswith(_SENTENCE_ENDS)


def _duplicate(case: Case) -> list[str]:
    start = case.batch.start
    repeats = case.standard.repeats[start : start + len(case.batch.pairs)]
    return case.where(repeats, "the same pair came before")


def _held_out(case: Case) -> list[str]:
    held_out = case.standard.held_out
    if not held_out:
        return []
    return case.each(
        lambda pair: "its source is held out" if hash(fold(pair.source)) in held_out else ""
    )


def _shifted(case: Case) -> list[str]:
    if not case.standard.shifts:
        return []
    start, count = case.batch.start, len(case.batch.pairs)
    reasons = [""] * count
    for shift in case.standard.shifts:
        for place in range(max(shift.first - 1 - start, 0), min(shift.last - start, count)):
            reasons[place] = f"the target seems to be {shift.words}"
    return reasons


def _swapped(case: Case) -> list[str]:
    if case.standard.languages.swapped:
        return case.each(lambda _: "source and target seem to be swapped")
    names = [side.name or "" for side in case.standard.languages.sides]
    both = zip(*case.wrong_languages, strict=True)
    crossed = [names != ["", ""] and [a, b] == names[::-1] for a, b in both]
    return case.where(np.array(crossed), f"it seems to be {names[1]} and {names[0]}")


def _language(case: Case) -> list[str]:
    reasons = []
    for found in zip(*case.wrong_languages, strict=True):
        side = next((side for side in (0, 1) if found[side]), None)
        reasons.append("" if side is None else f"the {SIDES[side]} seems to be {found[side]}")
    return reasons


def _ratio(case: Case) -> list[str]:
    source, target = (np.array([size(t.strip()) for t in side]) for side in case.batch.sides)
    errors = case.standard.ratio.errors(source, target)
    return case.where(
        np.abs(errors) > case.standard.config.ratio_spread,
        lambda i: f"much too {'long' if errors[i] > 0 else 'short'} for its source",
    )


def _misaligned(case: Case) -> list[str]:
    wrong = case.against >= case.standard.config.misaligned_evidence
    return case.where(wrong, "its words hardly translate each other")


def _numbers(case: Case) -> list[str]:
    return case.each(
        lambda pair: "its numbers differ" if numbers_differ(pair.source, pair.target) else ""
    )


_CHECKS: Mapping[RuleName, Callable[[Case], list[str]]] = {
    "empty": _empty,
    "damaged": _damaged,
    "too_long": _too_long,
    "markup": _markup,
    "identical": _identical,
    "duplicate": _duplicate,
    "held_out": _held_out,
    "shifted": _shifted,
    "swapped": _swapped,
    "language": _language,
    "ratio": _ratio,
    "misaligned": _misaligned,
    "numbers": _numbers,
}
