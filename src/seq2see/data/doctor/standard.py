"""What is usual in a corpus: everything that its pairs are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from seq2see.data.doctor import lexicon as lexicons, shifts as shifting
from seq2see.data.doctor.config import DoctorConfig
from seq2see.data.doctor.languages import LanguageCheck, learn as learn_languages
from seq2see.data.doctor.lengths import Ratio
from seq2see.data.doctor.lexicon import Lexicon
from seq2see.data.doctor.shifts import Shift
from seq2see.data.doctor.survey import Survey
from seq2see.data.doctor.words import Bools, Ints, Ragged, Vocabulary, words

_LEAST_PAIRS = 300
"""Fewer teach no lexicon."""


@dataclass(frozen=True, slots=True)
class Standard:
    """Learnt once from the whole corpus; then each pair is judged by itself."""

    config: DoctorConfig
    repeats: Bools
    held_out: frozenset[int]
    """Hashes of the sources of held-out sets, folded."""
    shifts: tuple[Shift, ...]
    ratio: Ratio
    vocabulary: Vocabulary
    languages: LanguageCheck
    lexicon: Lexicon | None
    """None if there was too little to learn from, or nothing to learn."""
    unrelated: bool
    """The words of both sides have nothing to do with each other."""

    @classmethod
    def learn(
        cls,
        survey: Survey,
        config: DoctorConfig,
        languages: tuple[str, str] | None,
        held_out: frozenset[int],
    ) -> Self:
        """Learn from what the first reading found."""
        repeats = survey.repeats
        good = (survey.words > 0).all(0) & ~repeats
        shifts = shifting.find(survey.sizes[0], survey.sizes[1], config.max_shift)
        vocabulary = Vocabulary()
        lines = [p.source for p in survey.sample], [p.target for p in survey.sample]
        source, target = (vocabulary.learn(map(words, side)) for side in lines)
        size = len(vocabulary)
        aligned = np.flatnonzero(_aligned(good, shifts)[survey.sampled])
        lexicon, unrelated = _lexicon(lines[0], source, target, aligned, size)
        return cls(
            config=config,
            repeats=repeats,
            held_out=held_out,
            shifts=shifts,
            ratio=Ratio.learn(*survey.sizes[:, good]),
            vocabulary=vocabulary,
            languages=learn_languages(
                lines, (source, target), languages, config.language_words, size
            ),
            lexicon=lexicon,
            unrelated=unrelated,
        )


def _aligned(good: Bools, shifts: tuple[Shift, ...]) -> Bools:
    """Tell which of the good pairs are in no shifted region."""
    aligned = good.copy()
    for shift in shifts:
        aligned[shift.first - 1 : shift.last] = False
    return aligned


def _lexicon(
    lines: Sequence[str], source: Ragged, target: Ragged, chosen: Ints, size: int
) -> tuple[Lexicon | None, bool]:
    """Learn a lexicon, and tell if there was none to learn although there was enough text."""
    if len(chosen) < _LEAST_PAIRS:
        return None, False
    source, target = source.take(chosen), target.take(chosen)
    halves = lexicons.halves([lines[place] for place in chosen])
    lexicon = lexicons.learn(source, target, halves, size)
    strangers = np.roll(np.arange(len(chosen)), len(chosen) // 2)
    real = lexicon.judge(source, target, halves)
    random = lexicon.judge(source, target.take(strangers), halves)
    unrelated = bool(np.median(real) <= np.percentile(random, 75))
    return None if unrelated else lexicon, unrelated
