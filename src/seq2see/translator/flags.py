"""What may be wrong with a translation, by rules that a reader can check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seq2see.translator.translation import Flag

COPIED_WORDS = 3
"""Shorter lines are copied with good reason: names, numbers, "OK"."""
LOOP_TIMES, LOOP_TOKENS, LOOP_PERIOD = 3, 6, 12
"""So often the same up to so many tokens in a row, so many tokens in all at least."""
SHORT_SHARE, SHORT_SLACK = 1 / 3, 3
"""Below this share of the source's tokens less the slack, a translation is short."""
LONG_SHARE, LONG_SLACK = 3, 10
"""Above so many times the source's tokens and the slack, it is long."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at."""

    source: str
    text: str
    source_ids: Sequence[int]
    ids: Sequence[int]
    finished: bool
    same_language: bool
    unknown: bool
    again: Sequence[int]
    """The ids of the text, read again."""


def flags(case: Case) -> Iterator[Flag]:
    """Yield what is suspicious."""
    if not case.same_language and is_copy(case.source, case.text):
        yield Flag.COPIED_SOURCE
    if loops(case.ids) and not loops(case.source_ids):
        yield Flag.REPETITION
    if not case.finished:
        yield Flag.LENGTH_LIMIT
    source, target = len(case.source_ids), len(case.ids)
    if target < SHORT_SHARE * source - SHORT_SLACK:
        yield Flag.SHORT
    if target > LONG_SHARE * source + LONG_SLACK:
        yield Flag.LONG
    if case.unknown:
        yield Flag.UNKNOWN
    if case.again != case.ids:
        yield Flag.RETOKENISED


def is_copy(source: str, text: str) -> bool:
    """Tell whether the words are those of the source, and enough of them to wonder."""
    words = source.casefold().split()
    return len(words) >= COPIED_WORDS and words == text.casefold().split()


def loops(ids: Sequence[int]) -> bool:
    """Tell whether some tokens come again and again, with nothing in between."""
    if len(ids) - len(set(ids)) < LOOP_TOKENS - LOOP_TOKENS // LOOP_TIMES:
        return False  # too little comes twice at all
    for period in range(1, min(LOOP_PERIOD, len(ids) // LOOP_TIMES) + 1):
        needed = max(LOOP_TOKENS, LOOP_TIMES * period) - period
        run = 0
        for place in range(period, len(ids)):
            run = run + 1 if ids[place] == ids[place - period] else 0
            if run >= needed:
                return True
    return False
